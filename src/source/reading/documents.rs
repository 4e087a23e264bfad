//! One lane's stream: its [`Reads`], driven asynchronously.
//!
//! Each slab is read, framed and decoded in one blocking job, one job after the other. So a lane keeps at most one
//! thread busy, and its documents stay in order. A few finished groups wait ahead. The documents of a group are handed
//! out without waiting. Held in memory: at most [`SLABS`] slabs.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::future::FutureExt;
use tokio::task::JoinHandle;

use super::group::{Group, GroupEnd};
use super::reads::{Read, Reads};
use crate::cursor::Tracked;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::meter::{Held, Interval, Meter};
use crate::pin::Pinning;

/// How many groups are read ahead of the current one.
pub(crate) const AHEAD: usize = 2;

/// How many slabs a lane holds at most: the current one, and those that are ready or being read.
pub(crate) const SLABS: usize = AHEAD + 1;

/// The read-ahead is polled once in this many documents of a group.
const POLL_EVERY: usize = 256;

/// The documents of one lane, in order, each with the cursor after it.
///
/// The stream ends after the last epoch, after an error, or at once if the lane has no splits. Poll it within a tokio
/// runtime, whose blocking threads read and decode ahead of it.
///
/// # Errors
/// [`Error::Document`] for a document that cannot be read, if the source's `on_error` allows no more; all documents
/// before it are delivered first. [`Error::Io`] for an error of the system. [`Error::Corpus`] for a file whose length
/// has changed, or for an endless stream without any document. [`Error::Resume`] for a start that names no document
/// of the lane. [`Error::Panic`] for a defect.
///
/// # Cancel safety
/// You may drop `next()` at any time; no document is lost. Dropping the stream frees its memory. A read in progress
/// ends by itself.
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub struct Documents {
    reads: Reads,
    /// The read under way.
    reading: Option<JoinHandle<Group>>,
    current: Group,
    handed: usize,
    ready: VecDeque<Group>,
    /// Whether reading happens only when a document is asked for, on the thread that asks.
    on_demand: bool,
    /// The cores that reading stays on.
    pin: Option<Pinning>,
    meter: Arc<Meter>,
    blocked: Interval,
    held: Held,
}

impl Documents {
    pub(crate) fn new(reads: Reads, meter: Arc<Meter>) -> Self {
        Self {
            reads,
            reading: None,
            current: Group::empty(GroupEnd::More),
            handed: 0,
            ready: VecDeque::new(),
            on_demand: false,
            pin: None,
            held: Held::new(meter.clone()),
            meter,
            blocked: Interval::default(),
        }
    }

    /// Reads only when documents are asked for, on the thread that asks.
    pub(crate) fn with_on_demand(mut self, on_demand: bool) -> Self {
        self.on_demand = on_demand;
        self
    }

    /// Stays on some cores, unless it reads on demand.
    pub(crate) fn with_pin(mut self, pin: Option<Pinning>) -> Self {
        self.pin = pin;
        self
    }

    /// Reads ahead. Pending while a read is under way, the memory is used up or enough groups wait; ready after the last
    /// read.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(reading.poll_unpin(cx));
                self.reading = None;
                self.keep(read.unwrap_or_else(|e| Group::empty(GroupEnd::Failed(Error::lost("source", e)))));
            }
            let most = if self.on_demand { 1 } else { AHEAD };
            let next = if self.ready.len() < most { self.reads.poll_next(cx) } else { Poll::Pending };
            let Poll::Ready(next) = next else {
                self.blocked.begin();
                return Poll::Pending;
            };
            let blocked = self.blocked.end();
            self.meter.add_wait_out(blocked);
            match next {
                None => return Poll::Ready(()),
                Some(read) if self.on_demand => self.keep(read.run()),
                Some(read) => self.reading = Some(self.start(read)),
            }
        }
    }

    fn start(&self, read: Read) -> JoinHandle<Group> {
        let pin = self.pin.clone();
        tokio::task::spawn_blocking(move || Pinning::keep(pin.as_ref(), || read.run()))
    }

    /// Stores a group that was read.
    fn keep(&mut self, group: Group) {
        if group.size().0 > 0 || !matches!(group.after, GroupEnd::More) {
            self.ready.push_back(group);
        }
    }

    /// Makes the next group the current one, if one is ready.
    fn advance(&mut self) -> bool {
        let Some(group) = self.ready.pop_front() else { return false };
        self.held.set(self.ready.len());
        self.current = group;
        true
    }
}

impl Stream for Documents {
    type Item = Result<Tracked<Document>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if this.current.has_next() {
                this.handed += 1;
                if this.handed.is_multiple_of(POLL_EVERY) && !this.on_demand {
                    let _ = this.poll_ahead(cx);
                }
                return Poll::Ready(this.current.pop().map(Ok));
            }
            match std::mem::replace(&mut this.current.after, GroupEnd::End) {
                GroupEnd::Failed(error) => return Poll::Ready(Some(Err(error))),
                GroupEnd::End => return Poll::Ready(None),
                GroupEnd::More => this.current.after = GroupEnd::More,
            }
            // Free the slab and the guard of the finished group.
            this.current = Group::empty(GroupEnd::More);
            let is_reading = this.poll_ahead(cx).is_pending();
            if !this.advance() && is_reading {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            // A read that has not begun will not begin.
            reading.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use crate::cursor::LaneCursor;
    use crate::source::{Lane, Source};

    #[tokio::test]
    async fn a_panic_in_a_read_is_an_error() {
        let mut documents = Source::custom().lane(Lane::default(), &LaneCursor::default());
        documents.reading = Some(tokio::task::spawn_blocking(|| panic!("a defect")));
        let error = documents.next().await.expect("an item").expect_err("an error");
        assert_eq!(error.to_string(), "stage `source` panicked: a defect");
        assert!(documents.next().await.is_none());
    }
}
