//! Serves the meters over HTTP, in Prometheus' text format, to anyone who can reach the address.
//!
//! Slow and broken clients are disconnected, and never keep others from an answer. Each costs the run no more than a
//! waiting task. Held in memory: some kilobytes for each of a few connections.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream::loader::Watch;
use millstream::meter::prometheus::Text;
use millstream::train::{SourceLoss, StepReport, Validation};
use millstream::{Error, Result};

use super::progress;

mod http;

/// The address that metrics are served at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Address(SocketAddr);

impl FromStr for Address {
    type Err = String;

    /// A port alone means the loopback address.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let host_and_port = text.rsplit_once(':').unwrap_or(("", text));
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match host_and_port {
            ("" | "localhost", port) => port.parse().map(loopback).map_err(|_| ()),
            _ => text.parse().map_err(|_| ()),
        }
        .map(Self)
        .map_err(|()| "give a port, such as 9100, or an address and a port, such as 0.0.0.0:9100".to_owned())
    }
}

/// What is served.
#[derive(Debug)]
pub(super) struct Metrics {
    /// Taken when serving begins.
    listener: Mutex<Option<TcpListener>>,
    state: Arc<Mutex<MetricsState>>,
}

#[derive(Debug, Default)]
struct MetricsState {
    watch: Option<Watch>,
    step: Option<StepReport>,
    validation: Option<Validation>,
}

impl Metrics {
    /// Binds the address, and prints where the metrics will be.
    pub(super) fn bind(Address(address): Address) -> Result<Self> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, bound) = bind().map_err(|e| Error::io(address.to_string(), "serve metrics", e))?;
        // The log is not set up yet.
        let to_whom = if bound.ip().is_loopback() { "" } else { ", for anyone who can reach it" };
        progress::say(&format!("metrics are at http://{bound}/metrics{to_whom}"));
        Ok(Self { listener: Mutex::new(Some(listener)), state: Arc::default() })
    }

    /// Serves from now on, even before there are meters. Call it within a runtime.
    pub(super) fn serve(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener {
            let state = self.state.clone();
            tokio::spawn(http::serve(listener, move || text(&lock(&state))));
        }
    }

    /// Serves the meters of a loader from now on.
    pub(super) fn watch(&self, watch: Watch) {
        self.state().watch = Some(watch);
    }

    /// Serves the report of a step.
    pub(super) fn step(&self, report: &StepReport) {
        let mut state = self.state();
        // Only logged steps have rates over more than one step.
        if report.logged || state.step.is_none() {
            state.step = Some(report.clone());
        }
    }

    /// Serves the report of a validation.
    pub(super) fn validation(&self, validation: &Validation) {
        self.state().validation = Some(validation.clone());
    }

    fn state(&self) -> MutexGuard<'_, MetricsState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<MetricsState>) -> MutexGuard<'_, MetricsState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All metrics, as Prometheus reads them.
fn text(state: &MetricsState) -> String {
    let mut text = Text::new();
    if let Some(watch) = &state.watch {
        text.meters(&watch.meters());
    }
    if let Some(step) = &state.step {
        gauge(&mut text, "millstream_train_step", "The last logged step.", step.step as f64);
        gauge(&mut text, "millstream_train_loss", "Its mean loss, in nats.", step.loss);
        gauge(&mut text, "millstream_train_learning_rate", "Its learning rate.", step.lr);
        gauge(&mut text, "millstream_train_gradient_norm", "The L2 norm of its gradient.", step.grad_norm);
        gauge(
            &mut text,
            "millstream_train_tokens",
            "Targets trained on, resumed ones included.",
            step.tokens as f64,
        );
        gauge(
            &mut text,
            "millstream_train_tokens_per_second",
            "Since the logged step before it.",
            step.tokens_per_second,
        );
        gauge(
            &mut text,
            "millstream_train_wait_share",
            "Share of that time that the trainer waited, 0 to 1.",
            step.wait_share,
        );
        if let Some(share) = step.sum_share {
            let help = "Share of that time that rank 0 waited for other ranks and summed gradients, 0 to 1.";
            gauge(&mut text, "millstream_train_sum_share", help, share);
        }
        by_source(
            &mut text,
            "millstream_train_source_loss",
            "The mean loss of a source's targets since the logged step before it, in nats.",
            &step.sources,
        );
        if let Some(flops) = step.flops_per_second {
            let help = "Floating-point operations a second, since the logged step before it.";
            gauge(&mut text, "millstream_train_flops_per_second", help, flops);
        }
        if let Some(mfu) = step.mfu {
            let help = "The same as a share of train.peak_tflops, 0 to 1.";
            gauge(&mut text, "millstream_train_mfu", help, mfu);
        }
    }
    if let Some(validation) = &state.validation {
        gauge(
            &mut text,
            "millstream_train_validation_loss",
            "The loss of the last validation, in nats.",
            validation.validation_loss,
        );
        by_source(
            &mut text,
            "millstream_train_source_validation_loss",
            "The loss of a source's targets in the last validation, in nats.",
            &validation.sources,
        );
    }
    text.finish()
}

fn gauge(text: &mut Text, name: &str, help: &str, value: f64) {
    text.gauge(name, help, &[("", value)]);
}

fn by_source(text: &mut Text, name: &str, help: &str, sources: &BTreeMap<String, SourceLoss>) {
    if !sources.is_empty() {
        text.gauges(name, help, "source", sources.iter().map(|(source, loss)| (source.as_str(), loss.loss)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine_alone() {
        let parse = |text: &str| text.parse::<Address>().map(|Address(address)| address.to_string());
        for text in ["9100", ":9100", "localhost:9100", "127.0.0.1:9100"] {
            assert_eq!(parse(text).as_deref(), Ok("127.0.0.1:9100"), "{text}");
        }
        assert_eq!(parse("0.0.0.0:9100").as_deref(), Ok("0.0.0.0:9100"));
        assert_eq!(parse("[::1]:9100").as_deref(), Ok("[::1]:9100"));
        for text in ["", ":", "example.org:9100", "0.0.0.0", "99999", "::1", "-1", "9100/metrics"] {
            assert!(parse(text).is_err_and(|e| e.contains("such as 9100")), "{text}");
        }
    }
}
