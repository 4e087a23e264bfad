//! What shows a run while it goes on: the trace file and the metrics, for the commands that drive a loader.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use millstream::Result;
use millstream::loader::Watch;

use super::metrics::{Address, Metrics};
use super::trace::Trace;

/// What shows a run.
#[derive(Debug, Args)]
pub(super) struct SightArgs {
    /// Write what each stage did when, for ui.perfetto.dev: a Chrome trace, as JSON.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Serve metrics to Prometheus, at /metrics: a port, which is of this machine alone, or ADDRESS:PORT.
    #[arg(long, value_name = "ADDR")]
    metrics_addr: Option<Address>,
}

/// The trace file and the metrics of a run, where they are wanted. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    trace: Option<Trace>,
    metrics: Option<Arc<Metrics>>,
}

impl Sight {
    /// Makes the trace file and takes the address, so that what cannot be is told before anything is done.
    pub(super) fn open(args: &SightArgs) -> Result<Self> {
        let trace = args.trace.as_ref().map(Trace::create).transpose()?;
        let metrics = args.metrics_addr.map(Metrics::bind).transpose()?;
        Ok(Self { trace, metrics: metrics.map(Arc::new) })
    }

    /// What the log's subscriber is to give its spans to.
    pub(super) fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// What serves the metrics.
    pub(super) fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_deref()
    }

    /// Answers who asks for metrics: there are none until a loader is watched. Must be called within a runtime.
    pub(super) fn serve(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.serve();
        }
    }

    /// Begins to show a loader. Must be called within a runtime.
    pub(super) fn watch(&self, watch: &Watch) {
        if let Some(trace) = &self.trace {
            trace.watch(watch.clone());
        }
        if let Some(metrics) = &self.metrics {
            metrics.watch(watch.clone());
        }
    }

    /// Ends the trace file: what comes later is not in it.
    pub(super) fn finish(&self) {
        if let Some(trace) = &self.trace {
            trace.finish();
        }
    }
}

/// Ends the trace file when it is dropped, be it by a panic.
#[derive(Debug)]
pub(super) struct Finish(pub(super) Sight);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish();
    }
}
