//! Serves the meters over HTTP, in Prometheus' text format, to anyone who can reach the address.
//!
//! Slow and broken clients are disconnected, and never keep others from an answer. Each costs the run no more than a
//! waiting task. Held in memory: some kilobytes for each of a few connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;

use millstream::loader::Watch;
use millstream::meter::prometheus::Text;
use millstream::{Error, Result};

use super::progress;

mod http;
#[cfg(feature = "train")]
mod training;

#[cfg(feature = "train")]
use training::Training;

/// Parses the address that metrics are served at. A port alone means the loopback address.
pub(super) fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let host_and_port = text.rsplit_once(':').unwrap_or(("", text));
    let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match host_and_port {
        ("" | "localhost", port) => port.parse().ok().map(loopback),
        _ => text.parse().ok(),
    }
    .ok_or_else(|| "give a port, such as 9100, or an address and a port, such as 0.0.0.0:9100".to_owned())
}

/// The metrics to serve. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics(Arc<Mutex<MetricsState>>);

#[derive(Debug, Default)]
struct MetricsState {
    watch: Option<Watch>,
    #[cfg(feature = "train")]
    training: Training,
}

impl Metrics {
    /// Begins to serve, even before there are meters, and prints where the metrics are.
    pub(super) async fn serve(&self, address: SocketAddr) -> Result<()> {
        let bind = async || {
            let listener = TcpListener::bind(address).await?;
            Ok((listener.local_addr()?, listener))
        };
        let (bound, listener) =
            bind().await.map_err(|e| Error::io(address.to_string(), "serve metrics", e))?;
        let to_whom = if bound.ip().is_loopback() { "" } else { ", for anyone who can reach it" };
        progress::say(&format!("metrics are at http://{bound}/metrics{to_whom}"));
        let metrics = self.clone();
        tokio::spawn(http::serve(listener, move || text(&metrics.state())));
        Ok(())
    }

    /// Serves the meters of a loader from now on.
    pub(super) fn watch(&self, watch: Watch) {
        self.state().watch = Some(watch);
    }

    /// Lets `update` change the reports of training that are served.
    #[cfg(feature = "train")]
    pub(super) fn training(&self, update: impl FnOnce(&mut Training)) {
        update(&mut self.state().training);
    }

    fn state(&self) -> MutexGuard<'_, MetricsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All metrics, as Prometheus reads them.
fn text(state: &MetricsState) -> String {
    let mut text = Text::new();
    if let Some(watch) = &state.watch {
        text.meters(&watch.meters());
    }
    #[cfg(feature = "train")]
    state.training.write(&mut text);
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine_alone() {
        let parse = |text: &str| address(text).map(|address| address.to_string());
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
