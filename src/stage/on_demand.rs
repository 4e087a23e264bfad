//! Items in, the same items out. Each is made when it is asked for, by the task that asks.
//!
//! This replaces [`Prefetch`](super::Prefetch) where nothing may run ahead. A panic in any stage before it
//! becomes an error here too, and an error ends the stream. Nothing is held in memory.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use super::input::poll_caught;
use crate::error::Result;
use crate::meter::Chain;

/// A stream that does nothing between its items.
#[must_use = "streams do nothing unless polled"]
pub(crate) struct OnDemand<T> {
    /// Nobody waits for the lock. It makes the stream `Sync`, though its stages need not be.
    items: Option<Mutex<BoxStream<'static, Result<T>>>>,
    chain: Arc<Chain>,
}

impl<T> OnDemand<T> {
    /// Returns the items of a stream. The time that they take is divided among the stages of `chain`.
    pub(crate) fn new(items: impl Stream<Item = Result<T>> + Send + 'static, chain: Arc<Chain>) -> Self {
        Self { items: Some(Mutex::new(items.boxed())), chain }
    }
}

impl<T> fmt::Debug for OnDemand<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemand").field("has_ended", &self.items.is_none()).finish_non_exhaustive()
    }
}

impl<T> Stream for OnDemand<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (began, before) = (Instant::now(), self.chain.beside());
        let Some(items) = &mut self.items else { return Poll::Ready(None) };
        let items = items.get_mut().unwrap_or_else(PoisonError::into_inner);
        let next = poll_caught(items.as_mut(), cx);
        self.chain.add_alone(began.elapsed(), before);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.items = None;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;
    use crate::meter::{CustomMeters, Meter};

    fn chain() -> Arc<Chain> {
        let [source, tokenize, task] = ["source", "tokenize", "prefetch"].map(Meter::new);
        Arc::new(Chain::new(&source, &CustomMeters::default(), &tokenize, &task))
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_ends_it() {
        let items = stream::iter(0..3).map(|n| if n == 1 { panic!("a defect") } else { Ok(n) });
        let mut items = OnDemand::new(items, chain());
        assert_eq!(items.next().await.expect("an item").expect("no error"), 0);
        let error = items.next().await.expect("an item").expect_err("an error");
        assert_eq!(error.to_string(), "stage `pipeline` panicked: a defect");
        assert!(items.next().await.is_none());
    }

    #[test]
    fn it_is_sync_whatever_its_stages_are() {
        fn is_sync<T: Sync>(_: &T) {}
        is_sync(&OnDemand::new(stream::iter([Ok(std::cell::Cell::new(0))]), chain()));
    }
}
