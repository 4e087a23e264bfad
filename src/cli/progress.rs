//! The log and the progress bar, which share standard error without writing over each other.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::sight::Sight;
use super::trace::Trace;

/// What is logged unless RUST_LOG says otherwise.
const DEFAULT_FILTER: &str = "warn,millstream=info";

fn bars() -> &'static MultiProgress {
    static BARS: OnceLock<MultiProgress> = OnceLock::new();
    BARS.get_or_init(MultiProgress::new)
}

/// Sends the library's events to standard error, above the bar if there is one, and its spans to the trace.
pub(super) fn init_logging(sight: &Sight) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(AboveBars)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        // They would be printed where the event could not be.
        .log_internal_errors(false);
    let trace = sight.trace().cloned().map(|trace| trace.with_filter(Trace::filter()));
    let subscriber = tracing_subscriber::registry().with(log.with_filter(filter)).with(trace);
    #[cfg(all(tokio_unstable, feature = "console"))]
    let subscriber = subscriber.with(console_subscriber::spawn());
    subscriber.init();
    #[cfg(all(not(tokio_unstable), feature = "console"))]
    tracing::warn!("tokio-console sees nothing: build with RUSTFLAGS=\"--cfg tokio_unstable\"");
}

/// Prints a line on standard error, above the bar if there is one. That nobody reads it is no reason to end.
pub(super) fn say(line: &str) {
    bars().suspend(|| drop(writeln!(io::stderr(), "{line}")));
}

/// A bar of so many steps on standard error; none where that is no terminal.
pub(super) fn bar(steps: u64, done: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {eta} left  {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = bars().add(ProgressBar::new(steps).with_style(style).with_position(done));
    // Steps made in an earlier session would make the rest look faster than it is.
    bar.reset_eta();
    bar
}

#[derive(Clone, Copy)]
struct AboveBars;

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
