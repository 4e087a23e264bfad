//! Keeps a lane whose budget is too small from waiting forever.
//!
//! Everything that a lane holds is counted in its own budget. If a lane has nothing to deliver while its
//! source waits for memory, and nothing under way will give memory back, the lane can never go on. Then the
//! lane ends with an error, or its budget lends memory, one slab at a time.
//!
//! A custom stage may wait for something that the budget does not know: an answer over HTTP, a timer, a channel.
//! Whatever will wake the lane has a clone of its waker. So each poll gets a waker whose clones are counted: if only
//! the budget has any, nothing else will wake the lane. Another clone may be a leftover of finished work: the queue
//! behind `buffered` keeps its last waker. The budget lends in both cases, which is right: such a stage holds as many
//! documents as it works on at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, fence};
use std::task::{Context, Poll, Wake, Waker};

use futures::{Stream, StreamExt};

use crate::budget::Budget;
use crate::error::{Error, Result};

/// The stage of [`StageExt::bounded`](super::StageExt::bounded).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Bounded<S> {
    lane: S,
    budget: Arc<Budget>,
    /// Whether the budget lends to stages that wait for nothing but the source.
    lends: bool,
    /// Whether a warning has said that the budget lends.
    told: Arc<AtomicBool>,
    alarm: Arc<Alarm>,
    ended: bool,
}

/// The waker that the lane is polled with.
#[derive(Debug)]
struct Alarm {
    task: Waker,
    has_rung: AtomicBool,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Release);
        self.task.wake_by_ref();
    }
}

/// Whether a lane whose source waits for memory will be woken.
enum Awaited {
    /// It was already woken, or the source does not wait.
    Soon,
    /// Perhaps by something that the budget does not know.
    Elsewhere,
    Nobody,
}

impl<S> Bounded<S> {
    pub(super) fn new(lane: S, budget: Arc<Budget>) -> Self {
        let alarm = Arc::new(Alarm { task: Waker::noop().clone(), has_rung: AtomicBool::new(false) });
        Self { lane, budget, lends: false, told: Arc::default(), alarm, ended: false }
    }

    /// Goes on beyond the budget instead of ending, as far as the window's documents need it. The first of the streams
    /// that share `told` logs a warning.
    pub(crate) fn lending(self, told: Arc<AtomicBool>) -> Self {
        Self { lends: true, told, ..self }
    }

    fn lend(&self) {
        if !self.told.swap(true, Relaxed) {
            tracing::warn!(
                used = self.budget.used(),
                share = self.budget.limit(),
                "what a lane's window and stages hold leaves no room in its share of pipeline.memory, so it takes more; \
                 raise pipeline.memory, or lower pipeline.window or pipeline.lanes"
            );
        }
        self.budget.lend();
    }

    /// Whether the lane, which was just polled with `waker` and has nothing to deliver, will be woken.
    fn awaited(&self, waker: Waker) -> Awaited {
        let waiting = self.budget.stuck(&waker);
        drop(waker);
        let clones = Arc::strong_count(&self.alarm) - 1;
        // A waker's owner drops its clone after waking the lane.
        fence(Acquire);
        match waiting {
            _ if self.alarm.has_rung.load(Relaxed) => Awaited::Soon,
            None => Awaited::Soon,
            Some(waiting) if clones > waiting => Awaited::Elsewhere,
            Some(_) => Awaited::Nobody,
        }
    }
}

impl<S, T> Stream for Bounded<S>
where
    S: Stream<Item = Result<T>> + Unpin,
{
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if !self.alarm.task.will_wake(cx.waker()) {
            self.alarm = Arc::new(Alarm { task: cx.waker().clone(), has_rung: AtomicBool::new(false) });
        }
        loop {
            self.alarm.has_rung.store(false, Relaxed);
            let waker = Waker::from(self.alarm.clone());
            let next = self.lane.poll_next_unpin(&mut Context::from_waker(&waker));
            if next.is_ready() {
                return next;
            }
            match self.awaited(waker) {
                Awaited::Soon => return next,
                Awaited::Nobody if !self.lends => {
                    self.ended = true;
                    let limit = self.budget.limit() as u64;
                    return Poll::Ready(Some(Err(Error::Budget { limit })));
                }
                Awaited::Elsewhere | Awaited::Nobody => self.lend(),
            }
        }
    }
}
