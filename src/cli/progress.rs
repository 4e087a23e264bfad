//! Standard error: lines of text, and a progress bar below them.

use std::io::{self, Write};
use std::sync::OnceLock;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

fn bars() -> &'static MultiProgress {
    static BARS: OnceLock<MultiProgress> = OnceLock::new();
    BARS.get_or_init(MultiProgress::new)
}

/// Prints a line on standard error, above the bar if there is one. It is fine if nobody reads it.
pub(super) fn say(line: &str) {
    bars().suspend(|| drop(writeln!(io::stderr(), "{line}")));
}

/// A progress bar on standard error. It is hidden where that is not a terminal.
pub(super) fn bar(steps: u64, done: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {eta} left  {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = bars().add(ProgressBar::new(steps).with_style(style).with_position(done));
    // Steps of an earlier session must not count as progress of this one.
    bar.reset_eta();
    bar
}

/// Standard error, above the bar if there is one.
#[derive(Clone, Copy)]
pub(super) struct AboveBars;

impl Write for AboveBars {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        bars().suspend(|| io::stderr().write(bytes))
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
