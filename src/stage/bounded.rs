//! Keeps a lane whose budget is too small from waiting forever.
//!
//! Everything that a lane holds is counted in its own budget. If a lane has nothing to deliver while its
//! source waits for memory, and nothing under way will give memory back, the lane can never go on. Then the
//! lane ends with an error, or its budget lends memory, one slab at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};

use crate::budget::Budget;
use crate::error::{Error, Result};

/// The stage of [`StageExt::bounded`](super::StageExt::bounded).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Bounded<S> {
    lane: S,
    budget: Arc<Budget>,
    /// If the budget lends: whether any lane has said so.
    lends: Option<Arc<AtomicBool>>,
    ended: bool,
}

impl<S> Bounded<S> {
    pub(super) fn new(lane: S, budget: Arc<Budget>) -> Self {
        Self { lane, budget, lends: None, ended: false }
    }

    /// Goes on beyond the budget instead of ending, as far as the window's documents need it. The first of the
    /// streams that share `told` logs a warning.
    pub(crate) fn lending(self, told: Arc<AtomicBool>) -> Self {
        Self { lends: Some(told), ..self }
    }

    /// Lends memory to the source, if this budget lends.
    fn lend(&self) -> bool {
        let Some(told) = &self.lends else { return false };
        if !told.swap(true, Relaxed) {
            tracing::warn!(
                used = self.budget.used(),
                share = self.budget.limit(),
                "the documents of a lane's window leave no room in its share of pipeline.memory, so it takes more; raise \
                 pipeline.memory, or lower pipeline.window or pipeline.lanes"
            );
        }
        self.budget.lend();
        true
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
        loop {
            let next = self.lane.poll_next_unpin(cx);
            if next.is_ready() || !self.budget.is_stuck() {
                return next;
            }
            if !self.lend() {
                self.ended = true;
                let limit = self.budget.limit() as u64;
                return Poll::Ready(Some(Err(Error::Budget { limit })));
            }
        }
    }
}
