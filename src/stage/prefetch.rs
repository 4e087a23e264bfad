//! Items in, the same items out, made ahead of need by a task of their own.
//!
//! Held in memory: `depth` items, and one that waits for room. It is the only stage that spawns.

use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use async_channel::{Receiver, Sender};
use futures::{FutureExt, Stream};
use tokio::task::AbortHandle;

use crate::error::{Error, Result, panic_message};
use crate::meter::{Chain, Interval, Meter, stage_span};
use crate::tasks;

/// The stage of [`StageExt::prefetch`](super::StageExt::prefetch).
#[derive(Debug)]
#[must_use = "what is prefetched is lost if it is not taken"]
pub struct Prefetch<T> {
    items: Pin<Box<Receiver<Result<T>>>>,
    task: AbortHandle,
    /// Whether the task said all that it had to say.
    ended: Arc<AtomicBool>,
}

/// Who waits while the stages before have nothing to give.
#[derive(Debug)]
pub(crate) struct Waits {
    /// The meter of this stage.
    pub(crate) meter: Arc<Meter>,
    /// The stages that work beside this one's task, which know which of them it is that has nothing to give.
    pub(crate) chain: Option<Arc<Chain>>,
}

impl<T: Send + 'static> Prefetch<T> {
    pub(crate) fn spawn<S>(items: S, depth: NonZeroUsize, waits: Waits) -> Self
    where
        S: Stream<Item = Result<T>> + Send + 'static,
    {
        let (sender, receiver) = async_channel::bounded(depth.get());
        waits.meter.set_capacity(depth.get());
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let task = tasks::spawn("prefetch", async move {
            let run = AssertUnwindSafe(run(items, sender.clone(), waits));
            if let Err(payload) = run.catch_unwind().await {
                let message = panic_message(&*payload);
                // A receiver that is gone wants no error either.
                let _ = sender.send(Err(Error::Panic { stage: "pipeline", message })).await;
            }
            end.store(true, Ordering::Release);
        });
        Self { items: Box::pin(receiver), task: task.abort_handle(), ended }
    }
}

impl<T> Prefetch<T> {
    /// How many items wait to be taken.
    pub(crate) fn queued(&self) -> usize {
        self.items.len()
    }

    /// Whether no more items may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.items.is_full()
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
        let this = self.get_mut();
        match ready!(this.items.as_mut().poll_next(cx)) {
            // The task was cancelled, so that this is no end of the data.
            None if !this.ended.swap(true, Ordering::AcqRel) => {
                let message = "its task is gone, with the runtime that it ran on".to_owned();
                Poll::Ready(Some(Err(Error::Panic { stage: "prefetch", message })))
            }
            next => Poll::Ready(next),
        }
    }
}

/// Drives the stages until they end, fail, or nobody listens.
async fn run<T, S>(items: S, sender: Sender<Result<T>>, Waits { meter, chain }: Waits)
where
    S: Stream<Item = Result<T>>,
{
    let mut items = pin!(items);
    let mut starved = Interval::default();
    // Whose input it was that was missing is asked while it is missing: afterwards it is there.
    let mut cause = None;
    loop {
        let next = poll_fn(|cx| {
            let waited = starved.end();
            meter.add_wait_in(waited);
            if let (Some(chain), Some(cause)) = (&chain, cause.take()) {
                chain.add(cause, waited);
            }
            let _span = stage_span!("prefetch", "work").entered();
            let started = Instant::now();
            let next = items.as_mut().poll_next(cx);
            meter.add_busy(started.elapsed());
            if next.is_pending() {
                starved.begin();
                cause = chain.as_ref().map(|chain| chain.lacking());
            }
            next
        });
        let Some(item) = next.await else { return };
        let failed = item.is_err();
        let full = Instant::now();
        let span = stage_span!("prefetch", "send");
        if sender.send(item).await.is_err() || failed {
            return;
        }
        drop(span);
        meter.add_wait_out(full.elapsed());
        meter.set_queued(sender.len());
    }
}
