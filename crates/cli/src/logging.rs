//! The log: events on standard error, above the progress bar, and spans in the trace file.

use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::progress::AboveProgress;
use super::telemetry::Telemetry;
use super::terminal;
use super::trace::Trace;

/// The log level without RUST_LOG.
const DEFAULT_FILTER: &str = "warn,millstream=info";

/// The log level of the other ranks than the first, which logs for all.
const ASIDE_FILTER: &str = "warn";

/// Sends the library's events to standard error, above the bar if there is one, and its spans to the trace. `is_aside`
/// says whether this is another rank than the first.
pub(super) fn init(telemetry: &Telemetry, is_aside: bool) {
    let default = if is_aside { ASIDE_FILTER } else { DEFAULT_FILTER };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(|| AboveProgress)
        // Names of files, columns and sources may have control characters.
        .fmt_fields(
            debug_fn(|out, field, value| match field.name() {
                "message" => write!(out, "{}", terminal::on_a_line(&format!("{value:?}"))),
                name => write!(out, "{name}={}", terminal::on_a_line(&format!("{value:?}"))),
            })
            .delimited(" "),
        )
        .with_ansi(terminal::has_colors())
        .with_target(false)
        .without_time()
        // They would be printed to the output that has just failed.
        .log_internal_errors(false);
    let trace = telemetry.trace.clone().map(|trace| trace.with_filter(Trace::filter()));
    let subscriber = tracing_subscriber::registry().with(log.with_filter(filter)).with(trace);
    subscriber.init();
}
