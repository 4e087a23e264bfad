//! A terminal that may go away, as when a connection drops. What can no longer be drawn is left out: the command goes on,
//! or saves and ends.

use std::io::Result;

use ::terminal::Term;
use indicatif::{ProgressDrawTarget, TermLike};

#[cfg(unix)]
use crate::cli::output;
use crate::cli::terminal;

/// How often a second it is drawn at most.
const RATE: u8 = 20;

/// Standard error, if it can be drawn on.
pub(super) fn target() -> ProgressDrawTarget {
    match terminal::draws() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(Steady(Term::buffered_stderr())), RATE),
        false => ProgressDrawTarget::hidden(),
    }
}

/// indicatif panics if it cannot draw, so no error gets there.
#[derive(Debug)]
struct Steady(Term);

impl TermLike for Steady {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> Result<()> {
        self.0.move_cursor_up(lines).or(Ok(()))
    }

    fn move_cursor_down(&self, lines: usize) -> Result<()> {
        self.0.move_cursor_down(lines).or(Ok(()))
    }

    fn move_cursor_right(&self, columns: usize) -> Result<()> {
        self.0.move_cursor_right(columns).or(Ok(()))
    }

    fn move_cursor_left(&self, columns: usize) -> Result<()> {
        self.0.move_cursor_left(columns).or(Ok(()))
    }

    fn write_line(&self, line: &str) -> Result<()> {
        self.0.write_line(line).or(Ok(()))
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.0.write_str(text).or(Ok(()))
    }

    fn clear_line(&self) -> Result<()> {
        self.0.clear_line().or(Ok(()))
    }

    fn flush(&self) -> Result<()> {
        #[cfg(unix)]
        if output::wait_for_stderr().is_err() {
            return Ok(());
        }
        self.0.flush().or(Ok(()))
    }
}
