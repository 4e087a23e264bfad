//! A terminal that may go away, as when a connection drops. Output that can no longer be drawn is dropped: the command
//! goes on, or saves and ends.

use std::io::Result;
#[cfg(unix)]
use std::io::{Write, stderr, stdin};
#[cfg(unix)]
use std::mem::take;
#[cfg(unix)]
use std::os::fd::{AsRawFd, RawFd};
#[cfg(unix)]
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::terminal::Term;
use indicatif::{ProgressDrawTarget, TermLike};

#[cfg(unix)]
use crate::output;
use crate::terminal;

/// The most drawings a second.
const RATE: u8 = 20;

/// Standard error, if it can be drawn on.
pub(super) fn target() -> ProgressDrawTarget {
    match terminal::draws() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(Steady::new()), RATE),
        false => ProgressDrawTarget::hidden(),
    }
}

/// indicatif panics if it cannot draw, so it gets no errors.
#[derive(Debug)]
struct Steady {
    term: Term,
    #[cfg(unix)]
    drawn: Drawn,
}

impl Steady {
    #[cfg(unix)]
    fn new() -> Self {
        let drawn = Drawn::default();
        // indicatif reads nothing.
        Self { term: Term::read_write_pair(stdin(), drawn.clone()), drawn }
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self { term: Term::buffered_stderr() }
    }
}

/// The drawing that is not written to standard error yet.
#[cfg(unix)]
#[derive(Clone, Debug, Default)]
struct Drawn(Arc<Mutex<Vec<u8>>>);

#[cfg(unix)]
impl Drawn {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
impl Write for Drawn {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// indicatif asks the system for the width of this terminal.
#[cfg(unix)]
impl AsRawFd for Drawn {
    fn as_raw_fd(&self) -> RawFd {
        stderr().as_raw_fd()
    }
}

impl TermLike for Steady {
    fn width(&self) -> u16 {
        self.term.size().1
    }

    fn height(&self) -> u16 {
        self.term.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> Result<()> {
        self.term.move_cursor_up(lines).or(Ok(()))
    }

    fn move_cursor_down(&self, lines: usize) -> Result<()> {
        self.term.move_cursor_down(lines).or(Ok(()))
    }

    fn move_cursor_right(&self, columns: usize) -> Result<()> {
        self.term.move_cursor_right(columns).or(Ok(()))
    }

    fn move_cursor_left(&self, columns: usize) -> Result<()> {
        self.term.move_cursor_left(columns).or(Ok(()))
    }

    fn write_line(&self, line: &str) -> Result<()> {
        self.term.write_line(line).or(Ok(()))
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.term.write_str(text).or(Ok(()))
    }

    fn clear_line(&self) -> Result<()> {
        self.term.clear_line().or(Ok(()))
    }

    #[cfg(unix)]
    fn flush(&self) -> Result<()> {
        let drawn = take(&mut *self.drawn.bytes());
        output::to_stderr(&drawn).or(Ok(()))
    }

    #[cfg(not(unix))]
    fn flush(&self) -> Result<()> {
        self.term.flush().or(Ok(()))
    }
}
