//! Lets a consumer end the reads that wait for a store.

use std::convert::Infallible;

/// Held by the consumer of what is read: dropping it ends the reads under way.
#[derive(Debug)]
pub(crate) struct Leash {
    _held: async_channel::Sender<Infallible>,
}

/// The other end of a [`Leash`].
#[derive(Clone, Debug)]
pub(crate) struct Leashed(Option<async_channel::Receiver<Infallible>>);

impl Leash {
    pub(crate) fn new() -> (Self, Leashed) {
        let (held, leashed) = async_channel::bounded(1);
        (Self { _held: held }, Leashed(Some(leashed)))
    }
}

impl Leashed {
    /// Makes the end of a leash that is never dropped: nothing ends its reads early.
    pub(crate) fn free() -> Self {
        Self(None)
    }

    /// Completes when the leash is dropped.
    pub(super) async fn dropped(&self) {
        match &self.0 {
            None => std::future::pending().await,
            Some(leashed) => _ = leashed.recv().await,
        }
    }
}
