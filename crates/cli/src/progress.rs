//! Standard error: lines of text, and one line of progress below them.
//!
//! On a terminal the progress is redrawn, and fits the width. Elsewhere, and where `TERM` says that lines cannot be
//! redrawn, there is none, and commands print lines instead. A terminal may go away, as when a connection drops: what
//! can no longer be written is dropped, and the command goes on, or saves and ends.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{output, terminal};

mod line;
mod slow;

use line::fitted;
pub(super) use slow::slow;
#[cfg(feature = "train")]
pub(super) use slow::{Slow, told};

/// The least time between two drawings of a progress.
const APART: Duration = Duration::from_millis(50);

/// Erases a line, and goes back to its beginning.
const ERASE: &str = "\r\u{1b}[2K";

/// The line of progress on the terminal; empty if there is none.
static DRAWN: Mutex<String> = Mutex::new(String::new());

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_above(lines: &[u8]) -> io::Result<()> {
    let drawn = lock(&DRAWN);
    match drawn.is_empty() {
        true => output::to_stderr(lines),
        false => output::to_stderr(&[ERASE.as_bytes(), lines, drawn.as_bytes()].concat()),
    }
}

fn draw(line: String) {
    let mut drawn = lock(&DRAWN);
    if *drawn != line {
        drop(output::to_stderr(format!("{ERASE}{line}").as_bytes()));
        *drawn = line;
    }
}

/// Prints a line on standard error, above the progress if there is one. Errors are ignored.
pub(super) fn say(line: &str) {
    drop(write_above(format!("{}\n", terminal::shown(line)).as_bytes()));
}

/// The progress of a command, on standard error. It is hidden where that is not a terminal. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Mutex<Steps>>);

#[derive(Debug)]
struct Steps {
    done: u64,
    /// The number of steps; 0 if that is not known.
    of: u64,
    /// When it began, and how many steps an earlier session had done.
    begun: (Instant, u64),
    drawn: Option<Instant>,
}

impl Steps {
    /// The time that the other steps take, if it is known.
    fn left(&self) -> Option<Duration> {
        let (begun, before) = self.begun;
        let (done, left) = (self.done.checked_sub(before)?, self.of.checked_sub(self.done)?);
        (done > 0).then(|| begun.elapsed().mul_f64(left as f64 / done as f64))
    }
}

impl Progress {
    /// The progress of so many steps, some of them done before. 0 if their number is not known.
    pub(super) fn new(of: u64, done: u64) -> Self {
        Self(Arc::new(Mutex::new(Steps { done, of, begun: (Instant::now(), done), drawn: None })))
    }

    /// Whether nothing is shown.
    pub(super) fn is_hidden(&self) -> bool {
        !terminal::draws()
    }

    /// How many steps are done.
    pub(super) fn done(&self) -> u64 {
        lock(&self.0).done
    }

    pub(super) fn set_steps(&self, of: u64) {
        lock(&self.0).of = of;
    }

    /// Shows that so many steps are done. `messages` are one message in ever shorter forms.
    pub(super) fn show(&self, done: u64, messages: &[String]) {
        let mut steps = lock(&self.0);
        steps.done = done;
        if self.is_hidden() || steps.drawn.is_some_and(|drawn| drawn.elapsed() < APART) {
            return;
        }
        steps.drawn = Some(Instant::now());
        draw(fitted(done, steps.of, steps.left(), messages, terminal::width()));
    }

    pub(super) fn clear(&self) {
        draw(String::new());
    }
}

/// Standard error, above the progress if there is some. Each write has whole lines.
pub(super) struct AboveProgress;

impl Write for AboveProgress {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        write_above(lines).map(|()| lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
