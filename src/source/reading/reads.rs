//! The reads of one lane, one after the other, for a thread that may block.
//!
//! A [`Read`] has the lane's [`Reader`] and the memory for one slab. It gives the reader back as soon as it is done with
//! it, so the next read can begin while the documents of this one are tokenized on the same thread.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::channel::oneshot;
use tracing::field::Empty;

use super::group::{Group, GroupEnd};
use super::reader::Reader;
use crate::budget::{Budget, IDS_PER_BYTE, Lease, Moving};
use crate::document::{DocumentRead, DocumentReads};
use crate::meter::{Held, Meter, MeterState, stage_span};
use crate::store::CancelToken;

/// The reads of a lane.
#[derive(Debug)]
pub(crate) struct Reads {
    at: ReaderPlace,
    slab_bytes: usize,
    budget: Option<Arc<Budget>>,
    meter: Arc<Meter>,
    held: Held,
    /// Whether a read may have to wait long, for a store or standard input.
    waits: bool,
    /// Whether token shards are read.
    are_stored: bool,
    /// Stops reads when this is dropped.
    _cancel: CancelToken,
}

/// Where the lane's reader is.
#[derive(Debug)]
enum ReaderPlace {
    Here(Box<Reader>),
    /// A read has it.
    Away(oneshot::Receiver<Box<Reader>>),
    /// The last read has ended the lane.
    Gone,
}

/// One read of a lane.
#[derive(Debug)]
pub(crate) struct Read {
    reader: Box<Reader>,
    lease: Lease,
    moving: Option<Moving>,
    meter: Arc<Meter>,
    back: oneshot::Sender<Box<Reader>>,
}

impl Reads {
    pub(crate) fn new(
        reader: Reader,
        cancel: CancelToken,
        slab_bytes: usize,
        budget: Option<Arc<Budget>>,
        meter: Arc<Meter>,
        waits: bool,
        are_stored: bool,
    ) -> Self {
        let at = ReaderPlace::Here(Box::new(reader));
        let held = Held::new(meter.clone());
        Self { at, slab_bytes, budget, meter, held, waits, are_stored, _cancel: cancel }
    }

    /// Returns the next read, once the reader is back and there is memory for a slab and its ids; `None` after the last.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        if let ReaderPlace::Away(reader) = &mut self.at {
            // A read that ended the lane drops it, and so does a panic.
            self.at = ready!(reader.poll_unpin(cx)).map_or(ReaderPlace::Gone, ReaderPlace::Here);
        }
        let ReaderPlace::Here(reader) = &self.at else { return Poll::Ready(None) };
        let lease = self.poll_lease(reader, cx);
        self.held.set_state(if lease.is_pending() { MeterState::Starved } else { MeterState::Working });
        let lease = ready!(lease);
        let (back, away) = oneshot::channel();
        let ReaderPlace::Here(reader) = std::mem::replace(&mut self.at, ReaderPlace::Away(away)) else {
            return Poll::Ready(None);
        };
        let moving = self.budget.as_ref().map(Budget::moving);
        Poll::Ready(Some(Read { reader, lease, moving, meter: self.meter.clone(), back }))
    }

    /// Polls for room for the next slab's text and ids.
    fn poll_lease(&self, reader: &Reader, cx: &mut Context<'_>) -> Poll<Lease> {
        let bytes = (1 + IDS_PER_BYTE) * self.slab_bytes;
        match &self.budget {
            None => Poll::Ready(Lease::none()),
            Some(budget) if reader.is_within_document() => Poll::Ready(budget.charge(bytes)),
            Some(budget) => budget.poll_lease(cx, bytes),
        }
    }
}

impl DocumentReads for Reads {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<DocumentRead>> {
        let waits = self.waits;
        self.poll_next(cx).map(|read| {
            let read = read?;
            Some(DocumentRead { read: Box::new(|| read.run().into_documents()), waits })
        })
    }

    fn are_stored(&self) -> bool {
        self.are_stored
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.ask_again();
        }
    }
}

impl Read {
    /// Reads, frames and decodes the slab.
    pub(crate) fn run(self) -> Group {
        let Self { mut reader, lease, moving, meter, back } = self;
        let span = || stage_span!("source", "read", documents = Empty, tokens = Empty, bytes = Empty);
        let work = meter.work(span());
        let mut group = reader.step(lease);
        group.moving = moving;
        let (documents, bytes) = group.size();
        work.note(documents as u64, 0, bytes as u64);
        drop(work);
        meter.count(documents as u64, 0, bytes as u64);
        if matches!(group.after, GroupEnd::More) {
            // If nobody waits for it, the lane was dropped.
            let _ = back.send(reader);
        }
        group
    }
}
