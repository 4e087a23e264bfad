//! Lets a consumer cancel the reads that wait for a store.

use std::convert::Infallible;

/// Held by the consumer of the reads: dropping it cancels the reads from stores under way, and all later ones.
#[derive(Debug)]
pub(crate) struct CancelToken {
    _held: async_channel::Sender<Infallible>,
}

/// The end of a [`CancelToken`] that the reads hold.
#[derive(Clone, Debug)]
pub(crate) struct Cancellable(Option<async_channel::Receiver<Infallible>>);

impl CancelToken {
    pub(crate) fn new() -> (Self, Cancellable) {
        let (held, cancellable) = async_channel::bounded(1);
        (Self { _held: held }, Cancellable(Some(cancellable)))
    }
}

impl Cancellable {
    /// For reads that nothing cancels.
    pub(crate) fn never() -> Self {
        Self(None)
    }

    /// Completes when the token is dropped.
    pub(super) async fn cancelled(&self) {
        match &self.0 {
            None => std::future::pending().await,
            Some(token) => _ = token.recv().await,
        }
    }
}
