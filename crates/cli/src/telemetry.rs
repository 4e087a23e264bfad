//! The trace file and the metrics of a run, for commands that drive a loader.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::metrics::{self, Metrics};
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
    #[arg(long, value_name = "ADDR", value_parser = metrics::address)]
    metrics_addr: Option<SocketAddr>,
}

/// The trace file and the metrics of a run, if the options ask for them. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Telemetry {
    pub(super) trace: Option<Trace>,
    address: Option<SocketAddr>,
    /// They are served only if there is an address.
    pub(super) metrics: Metrics,
}

impl Telemetry {
    /// Makes the trace file.
    pub(super) fn open(args: &TelemetryArgs) -> Result<Self> {
        let trace = args.trace.as_ref().map(Trace::create).transpose()?;
        Ok(Self { trace, address: args.metrics_addr, metrics: Metrics::default() })
    }

    /// Begins to serve metrics, which are empty until a loader is watched.
    pub(super) async fn serve(&self) -> Result<()> {
        match self.address {
            Some(address) => self.metrics.serve(address).await,
            None => Ok(()),
        }
    }

    /// Begins to trace and serve this loader. Call it within a runtime.
    pub(super) fn watch(&self, watch: &Watch) {
        if let Some(trace) = &self.trace {
            trace.watch(watch.clone());
        }
        self.metrics.watch(watch.clone());
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
