//! Rows in, batches out.
//!
//! Held in memory: the sequences of one batch, which point to their ids; they are copied when it is
//! whole. Its cursor is made whole here: one lane cursor a lane.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use super::lanes::Row;
use crate::batch::Batch;
use crate::cursor::Cursor;
use crate::document::Sequence;
use crate::error::Result;
use crate::meter::Meter;

/// The stage of [`StageExt::batch`](super::StageExt::batch).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Batches<S> {
    rows: Fuse<S>,
    batch_size: usize,
    pad: u32,
    cursor: Cursor,
    held: Vec<Sequence>,
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
            pad,
            cursor: start.clone(),
            held: Vec::with_capacity(batch_size.get()),
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
        let started = Instant::now();
        self.cursor.count_batch();
        let batch = Batch::new(&self.held, self.pad, self.cursor.clone());
        self.held.clear();
        let begun = batch.pieces().iter().filter(|piece| piece.offset == 0).count();
        self.meter.count(begun as u64, batch.tokens() as u64, batch.text_bytes());
        self.meter.add_busy(started.elapsed());
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
                    this.held.push(sequence);
                    if this.held.len() == this.batch_size {
                        return Poll::Ready(Some(Ok(this.take())));
                    }
                }
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.ended = true;
                    let last = (!this.held.is_empty()).then(|| this.take());
                    return Poll::Ready(last.map(Ok));
                }
            }
        }
    }
}
