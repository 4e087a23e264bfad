//! When batches are made: ahead of need, or when they are asked for.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};

use crate::batch::Batch;
use crate::error::Result;
use crate::stage::{OnDemand, Prefetch};

#[derive(Debug)]
pub(super) enum BatchStream {
    Ahead(Prefetch<Batch>),
    OnDemand(OnDemand<Batch>),
}

impl BatchStream {
    /// How many finished batches are queued.
    pub(super) fn queued(&self) -> usize {
        match self {
            Self::Ahead(batches) => batches.queued(),
            Self::OnDemand(_) => 0,
        }
    }

    /// Whether the queue is full.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Ahead(batches) => batches.is_full(),
            Self::OnDemand(_) => false,
        }
    }
}

impl Stream for BatchStream {
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.get_mut() {
            Self::Ahead(batches) => batches.poll_next_unpin(cx),
            Self::OnDemand(batches) => batches.poll_next_unpin(cx),
        }
    }
}
