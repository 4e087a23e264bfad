//! Items in, the same items out, made ahead of need by the stage's own task.
//!
//! Held in memory: `depth` items, and one that waits for room. No other stage spawns a task. In a loader one task makes
//! the batches, and one for each lane makes that lane's rows, in blocks.
//!
//! Items that are made within a short time are handed on together. Waking a waiting consumer takes some ten
//! microseconds of two cores, and a consumer that is woken for the first item gets all of them.
//!
//! Where depth or workers are `auto`, the task reports what it saw after each item and follows what `tune`
//! decides.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use futures::Stream;
use futures::task::AtomicWaker;
use tokio::task::AbortHandle;

use super::input::poll_caught;
use super::tune::{Observation, Range, Tuner};
use super::workers::Workers;
use crate::error::{Error, Result};
use crate::meter::{Interval, TaskMeter, Waiting, stage_span};

/// For how long items are gathered to be handed on together. The time is checked when an item is made: the work for the
/// next item, once begun, is done first.
const TOGETHER: Duration = Duration::from_micros(200);

/// The stage of [`StageExt::prefetch`](super::StageExt::prefetch).
#[derive(Debug)]
#[must_use = "what is prefetched is lost if it is not taken"]
pub struct Prefetch<T> {
    items: Pin<Box<Receiver<Result<T>>>>,
    task: AbortHandle,
    /// Whether the task has finished, so that the data ends after the queued items.
    ended: Arc<AtomicBool>,
    consumer: Arc<Consumer>,
    waiting: Interval,
}

/// The state that the task and its consumer share, besides the queue.
#[derive(Debug, Default)]
struct Consumer {
    /// How many items may wait for the consumer.
    depth: AtomicUsize,
    /// How long the consumer has waited for items, in nanoseconds.
    waited: AtomicU64,
    /// Wakes the task that waits for room.
    took: AtomicWaker,
}

/// How far the stage runs ahead, and the workers whose number it sets.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) depth: Range,
    pub(crate) workers: Option<(Workers, Range)>,
}

impl Ahead {
    pub(crate) fn fixed(depth: usize) -> Self {
        Self { depth: Range::Fixed(depth), workers: None }
    }
}

impl<T: Send + 'static> Prefetch<T> {
    pub(crate) fn spawn<S>(items: S, ahead: Ahead, meter: TaskMeter) -> Self
    where
        S: Stream<Item = Result<T>> + Send + 'static,
    {
        let (sender, receiver) = async_channel::bounded(ahead.depth.most());
        let consumer = Arc::new(Consumer::default());
        let tuning = Tuning::new(ahead, consumer.clone());
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let task = tokio::spawn(async move {
            let mut buffer = SendBuffer::new(sender, meter, tuning);
            run(items, &mut buffer).await;
            end.store(true, Ordering::Release);
        });
        let task = task.abort_handle();
        Self { items: Box::pin(receiver), task, ended, consumer, waiting: Interval::default() }
    }
}

impl<T> Prefetch<T> {
    /// How many items wait to be taken.
    pub(crate) fn queued(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= self.consumer.depth.load(Ordering::Relaxed)
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
        let Poll::Ready(next) = this.items.as_mut().poll_next(cx) else {
            this.waiting.begin();
            return Poll::Pending;
        };
        let waited = this.waiting.end().as_nanos() as u64;
        this.consumer.waited.fetch_add(waited, Ordering::Relaxed);
        this.consumer.took.wake();
        match next {
            // The task was cancelled, so this is not the end of the data.
            None if !this.ended.swap(true, Ordering::AcqRel) => {
                let message = "its task is gone, with the runtime that it ran on".to_owned();
                Poll::Ready(Some(Err(Error::Panic { stage: "prefetch", message })))
            }
            next => Poll::Ready(next),
        }
    }
}

/// The task's measurements, and the tuner that follows them.
#[derive(Debug)]
struct Tuning {
    tuner: Tuner,
    workers: Option<Workers>,
    consumer: Arc<Consumer>,
    begun: Instant,
    full: Duration,
}

impl Tuning {
    fn new(Ahead { depth, workers }: Ahead, consumer: Arc<Consumer>) -> Self {
        let (workers, range) =
            workers.map_or((None, Range::Fixed(1)), |(workers, range)| (Some(workers), range));
        let tuner = Tuner::new(range, depth);
        consumer.depth.store(tuner.now().depth, Ordering::Relaxed);
        Self { tuner, workers, consumer, begun: Instant::now(), full: Duration::ZERO }
    }

    /// Waits until another item may wait, and returns how long that took.
    async fn room<T>(&mut self, sender: &Sender<T>) -> Duration {
        let began = Instant::now();
        let depth = self.tuner.now().depth;
        poll_fn(|cx| {
            let has_room = || sender.len() < depth || sender.is_closed();
            if has_room() {
                return Poll::Ready(());
            }
            self.consumer.took.register(cx.waker());
            // An item that was taken before the registration woke nobody.
            if has_room() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let waited = began.elapsed();
        self.full += waited;
        waited
    }

    /// Reports an item that was sent, and follows the tuner's decision.
    fn sent(&mut self, queued: usize) {
        if self.tuner.is_fixed() {
            return;
        }
        let decision = self.tuner.observe(Observation {
            at: self.begun.elapsed(),
            waited: Duration::from_nanos(self.consumer.waited.load(Ordering::Relaxed)),
            full: self.full,
            worked: self.workers.as_ref().map_or(Duration::ZERO, Workers::worked),
            queued,
        });
        let Some(decision) = decision else { return };
        tracing::debug!(workers = decision.workers, depth = decision.depth, "tuned");
        self.consumer.depth.store(decision.depth, Ordering::Relaxed);
        if let Some(workers) = &self.workers {
            workers.set_count(decision.workers);
        }
    }
}

/// The items that are made but not yet handed on.
#[derive(Debug)]
struct SendBuffer<T> {
    items: VecDeque<Result<T>>,
    /// When the work for the first of them began.
    begun: Instant,
    sender: Sender<Result<T>>,
    meter: TaskMeter,
    tuning: Tuning,
}

impl<T> SendBuffer<T> {
    fn new(sender: Sender<Result<T>>, meter: TaskMeter, tuning: Tuning) -> Self {
        if let Some(queue) = meter.queue() {
            queue.set_capacity(tuning.tuner.now().depth);
        }
        Self { items: VecDeque::new(), begun: Instant::now(), sender, meter, tuning }
    }

    /// Notes that work for the next item begins or continues.
    fn begin(&mut self) {
        if self.items.is_empty() {
            self.begun = Instant::now();
        }
    }

    fn put(&mut self, item: Result<T>) {
        self.items.push_back(item);
    }

    /// Whether these must be handed on before another item is waited for.
    fn is_due(&self) -> bool {
        let ahead = self.sender.len() + self.items.len();
        ahead >= self.tuning.tuner.now().depth || self.begun.elapsed() >= TOGETHER
    }

    /// Hands on the items that are made. Returns false if the receiver is gone.
    async fn hand_on(&mut self) -> bool {
        while let Some(item) = self.items.pop_front() {
            let span = stage_span!("prefetch", "send");
            let waited = self.tuning.room(&self.sender).await;
            if self.sender.send(item).await.is_err() {
                return false;
            }
            drop(span);
            let queued = self.sender.len();
            self.tuning.sent(queued);
            if let Some(queue) = self.meter.queue() {
                queue.add_wait_out(waited);
                queue.set_queued(queued);
                queue.set_capacity(self.tuning.tuner.now().depth);
            }
        }
        true
    }
}

/// The result of polling for the next item.
enum Looked<T> {
    Item(Result<T>),
    /// Nothing yet, and there are items to hand on in the meantime.
    Later,
    End,
}

/// Drives the stages until they end or fail, or the receiver is gone.
async fn run<T, S>(items: S, buffer: &mut SendBuffer<T>)
where
    T: Send,
    S: Stream<Item = Result<T>>,
{
    let meter = buffer.meter.clone();
    let mut items = pin!(items);
    let mut waiting: Option<Waiting> = None;
    loop {
        let looked = poll_fn(|cx| {
            drop(waiting.take());
            buffer.begin();
            let work = meter.work();
            let next = poll_caught(items.as_mut(), cx);
            drop(work);
            match next {
                Poll::Ready(Some(item)) => Poll::Ready(Looked::Item(item)),
                Poll::Ready(None) => Poll::Ready(Looked::End),
                Poll::Pending if !buffer.items.is_empty() => Poll::Ready(Looked::Later),
                Poll::Pending => {
                    waiting = Some(meter.wait());
                    Poll::Pending
                }
            }
        });
        let is_last = match looked.await {
            Looked::Item(item) => {
                let failed = item.is_err();
                buffer.put(item);
                if !failed && !buffer.is_due() {
                    continue;
                }
                failed
            }
            Looked::Later => false,
            Looked::End => true,
        };
        if !buffer.hand_on().await || is_last {
            return;
        }
    }
}
