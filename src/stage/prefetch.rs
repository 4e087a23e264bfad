//! Items in, the same items out, made ahead of need by a task of their own.
//!
//! Held in memory: `depth` items, and one that waits for room. It is the only stage that spawns.

use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use async_channel::{Receiver, Sender};
use futures::{FutureExt, Stream};
use tokio::task::AbortHandle;

use crate::error::{Error, Result, panic_message};
use crate::meter::{Interval, Meter};

/// The stage of [`StageExt::prefetch`](super::StageExt::prefetch).
#[derive(Debug)]
#[must_use = "what is prefetched is lost if it is not taken"]
pub struct Prefetch<T> {
    items: Pin<Box<Receiver<Result<T>>>>,
    task: AbortHandle,
}

impl<T: Send + 'static> Prefetch<T> {
    pub(crate) fn spawn<S>(items: S, depth: NonZeroUsize, meter: Arc<Meter>) -> Self
    where
        S: Stream<Item = Result<T>> + Send + 'static,
    {
        let (sender, receiver) = async_channel::bounded(depth.get());
        let task = tokio::spawn(async move {
            let run = AssertUnwindSafe(run(items, sender.clone(), meter));
            if let Err(payload) = run.catch_unwind().await {
                let message = panic_message(&*payload);
                // A receiver that is gone wants no error either.
                let _ = sender.send(Err(Error::Panic { stage: "pipeline", message })).await;
            }
        });
        Self { items: Box::pin(receiver), task: task.abort_handle() }
    }
}

impl<T> Drop for Prefetch<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T> Stream for Prefetch<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().items.as_mut().poll_next(cx)
    }
}

/// Drives the stages until they end, fail, or nobody listens.
async fn run<T, S>(items: S, sender: Sender<Result<T>>, meter: Arc<Meter>)
where
    S: Stream<Item = Result<T>>,
{
    let mut items = pin!(items);
    let mut starved = Interval::default();
    loop {
        let next = poll_fn(|cx| {
            let started = Instant::now();
            let next = items.as_mut().poll_next(cx);
            meter.add_busy(started.elapsed());
            if next.is_pending() {
                starved.begin();
            }
            next
        });
        let Some(item) = next.await else { return };
        meter.add_wait_in(starved.end());
        let failed = item.is_err();
        let full = Instant::now();
        if sender.send(item).await.is_err() || failed {
            return;
        }
        meter.add_wait_out(full.elapsed());
        meter.set_queued(sender.len());
    }
}
