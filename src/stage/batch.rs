//! Rows in, batches out.
//!
//! Held in memory: one batch, into which the ids are copied. Its cursor is made whole here: one lane
//! cursor a lane.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use super::lanes::Row;
use crate::batch::{Batch, BatchBuilder};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::meter::Meter;

/// The stage of [`StageExt::batch`](super::StageExt::batch).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Batches<S> {
    rows: Fuse<S>,
    batch_size: usize,
    builder: BatchBuilder,
    cursor: Cursor,
    meter: Arc<Meter>,
    ended: bool,
}

impl<S, T> Batches<S>
where
    S: Stream<Item = Result<T>>,
{
    pub(super) fn new(rows: S, batch_size: NonZeroUsize, pad: u32, start: &Cursor) -> Self {
        Self {
            rows: rows.fuse(),
            batch_size: batch_size.get(),
            builder: BatchBuilder::new(batch_size.get(), pad),
            cursor: start.clone(),
            meter: Meter::new("batch"),
            ended: false,
        }
    }

    /// Counts in `meter`.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = meter;
        self
    }
}

impl<S> Batches<S> {
    fn take(&mut self) -> Batch {
        self.cursor.count_batch();
        let batch = self.builder.finish(self.cursor.clone());
        self.meter.count(0, batch.tokens() as u64, batch.text_bytes());
        batch
    }
}

impl<S, T> Stream for Batches<S>
where
    S: Stream<Item = Result<T>> + Unpin,
    T: Into<Row>,
{
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        loop {
            match ready!(this.rows.poll_next_unpin(cx)) {
                Some(Ok(row)) => {
                    let Row { lane, sequence, cursor } = row.into();
                    this.cursor.advance(lane, cursor);
                    this.meter.busy(|| this.builder.push(&sequence));
                    if this.builder.rows() == this.batch_size {
                        return Poll::Ready(Some(Ok(this.take())));
                    }
                }
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.ended = true;
                    let last = (this.builder.rows() > 0).then(|| this.take());
                    return Poll::Ready(last.map(Ok));
                }
            }
        }
    }
}
