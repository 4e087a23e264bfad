//! Turns a lane whose budget is too small into an error instead of a hang.
//!
//! Everything that a lane holds is counted in its own budget. If a lane has nothing to deliver while its
//! source waits for memory, and nothing under way will give memory back, the lane can never go on.

use std::pin::Pin;
use std::sync::Arc;
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
    ended: bool,
}

impl<S> Bounded<S> {
    pub(super) fn new(lane: S, budget: Arc<Budget>) -> Self {
        Self { lane, budget, ended: false }
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
        let next = self.lane.poll_next_unpin(cx);
        if next.is_pending() && self.budget.is_stuck() {
            self.ended = true;
            let limit = self.budget.limit() as u64;
            return Poll::Ready(Some(Err(Error::Budget { limit })));
        }
        next
    }
}
