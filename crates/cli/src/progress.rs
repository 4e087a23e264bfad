//! Standard error: lines of text, and progress lines below them.
//!
//! On a terminal a progress line is redrawn, and fits the width. Elsewhere, and where `TERM` says that lines cannot be
//! redrawn, there is none, and commands print lines instead.

use std::io::{self, Write};
use std::sync::OnceLock;

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use super::{output, terminal};

mod line;
mod slow;
mod steady;

use line::{BarState, fitted};
#[cfg(feature = "train")]
pub(super) use slow::Slow;
pub(super) use slow::{slow, told};

fn bars() -> &'static MultiProgress {
    static BARS: OnceLock<MultiProgress> = OnceLock::new();
    BARS.get_or_init(|| MultiProgress::with_draw_target(steady::target()))
}

/// Prints a line on standard error, above the progress if there is one. Errors are ignored.
pub(super) fn say(line: &str) {
    bars().suspend(|| drop(output::to_stderr(format!("{}\n", terminal::shown(line)).as_bytes())));
}

/// The progress of a command, on standard error. It is hidden where that is not a terminal.
#[derive(Clone, Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// The progress of so many steps, some of them done before. 0 if their number is not known.
    pub(super) fn new(steps: u64, done: u64) -> Self {
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bars().add(ProgressBar::new(steps).with_style(style).with_position(done));
        // Steps of an earlier session must not count as progress of this one.
        bar.reset_eta();
        Self(bar)
    }

    /// Whether nothing is shown.
    pub(super) fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    /// How many steps are done.
    pub(super) fn done(&self) -> u64 {
        self.0.position()
    }

    /// Sets the number of steps.
    pub(super) fn set_steps(&self, steps: u64) {
        self.0.set_length(steps);
    }

    /// Shows that so many steps are done. `messages` are one message in ever shorter forms.
    pub(super) fn show(&self, done: u64, messages: &[String]) {
        self.0.set_position(done);
        if self.is_hidden() {
            return;
        }
        let of = self.0.length().unwrap_or_default();
        let left = if of > 0 { format!("{:#}", HumanDuration(self.0.eta())) } else { String::new() };
        self.0.set_message(fitted(&BarState { done, of, left }, messages, terminal::width()));
    }

    /// Removes it.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Standard error, above the progress if there is some.
#[derive(Clone, Copy)]
pub(super) struct AboveBars;

impl Write for AboveBars {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        bars().suspend(|| output::to_stderr(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}
