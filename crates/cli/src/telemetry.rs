//! The trace file and the metrics of a run, for commands that drive a loader.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::metrics::{Address, Metrics};
use super::trace::Trace;
use millstream::Result;
use millstream::loader::Watch;

/// The options for the trace file and the metrics.
#[derive(Debug, Args)]
pub(super) struct TelemetryArgs {
    /// Write a Chrome trace of all stages, as JSON. Open it in ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Serve Prometheus metrics at /metrics: a PORT, reachable from this machine only, or ADDRESS:PORT.
    #[arg(long, value_name = "ADDR")]
    metrics_addr: Option<Address>,
}

/// The trace file and the metrics of a run, if the options ask for them. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Telemetry {
    trace: Option<Trace>,
    metrics: Option<Arc<Metrics>>,
}

impl Telemetry {
    /// Makes the trace file and binds the address, so that errors come before the run begins.
    pub(super) fn open(args: &TelemetryArgs) -> Result<Self> {
        let trace = args.trace.as_ref().map(Trace::create).transpose()?;
        let metrics = args.metrics_addr.map(Metrics::bind).transpose()?;
        Ok(Self { trace, metrics: metrics.map(Arc::new) })
    }

    /// The trace, for the log's subscriber.
    pub(super) fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// The metrics that are served.
    #[cfg(feature = "train")]
    pub(super) fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_deref()
    }

    /// Begins to serve metrics, which are empty until a loader is watched. Call it within a runtime.
    pub(super) fn serve(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.serve();
        }
    }

    /// Begins to trace and serve this loader. Call it within a runtime.
    pub(super) fn watch(&self, watch: &Watch) {
        if let Some(trace) = &self.trace {
            trace.watch(watch.clone());
        }
        if let Some(metrics) = &self.metrics {
            metrics.watch(watch.clone());
        }
    }

    /// Ends the trace file. Later spans are dropped.
    pub(super) fn finish(&self) {
        if let Some(trace) = &self.trace {
            trace.finish();
        }
    }
}

/// Ends the trace file when it is dropped, by a panic too.
#[derive(Debug)]
pub(super) struct Finish(pub(super) Telemetry);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish();
    }
}
