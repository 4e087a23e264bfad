//! One lane's stream: a [`Reader`] that is driven asynchronously.
//!
//! Each slab is read, framed and decoded in one blocking job, one job after the other. So a lane keeps at most one
//! thread busy, and its documents stay in order. A few finished groups wait ahead. The documents of a group are handed
//! out without waiting.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::FutureExt;
use tokio::task::JoinHandle;
use tracing::field::Empty;

use super::group::{Group, GroupEnd};
use super::reader::Reader;
use crate::budget::{Budget, IDS_PER_BYTE, Lease};
use crate::cursor::Tracked;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::meter::{Held, Interval, Meter, MeterState, stage_span};
use crate::pin::Pinning;
use crate::store::CancelToken;

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
/// has changed, or for an endless stream without any document. [`Error::Resume`] for a start that is not between two
/// documents of the lane. [`Error::Panic`] for a defect.
///
/// # Cancel safety
/// You may drop `next()` at any time; no document is lost. Dropping the stream frees its memory. A read in progress
/// ends by itself.
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub struct Documents {
    work: LaneWork,
    current: Group,
    handed: usize,
    ready: VecDeque<Group>,
    slab_bytes: usize,
    /// Whether reading happens only when a document is asked for, on the thread that asks.
    on_demand: bool,
    /// The cores that reading stays on.
    pin: Option<Pinning>,
    budget: Option<Arc<Budget>>,
    meter: Option<Arc<Meter>>,
    blocked: Interval,
    held: Option<Held>,
    /// Stops reads when the stream is dropped.
    _cancel: CancelToken,
}

/// The state of the lane's reader.
#[derive(Debug)]
enum LaneWork {
    Idle(Box<Reader>),
    Reading(JoinHandle<(Box<Reader>, Group)>),
    Done,
}

impl Documents {
    pub(crate) fn new(
        reader: Reader,
        cancel: CancelToken,
        slab_bytes: usize,
        budget: Option<Arc<Budget>>,
        meter: Option<Arc<Meter>>,
    ) -> Self {
        Self {
            work: LaneWork::Idle(Box::new(reader)),
            current: Group::empty(GroupEnd::More),
            handed: 0,
            ready: VecDeque::new(),
            slab_bytes,
            on_demand: false,
            pin: None,
            budget,
            held: meter.clone().map(Held::new),
            meter,
            blocked: Interval::default(),
            _cancel: cancel,
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

    /// Reads ahead until enough groups wait, the budget is full or a job is running.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.work = match std::mem::replace(&mut self.work, LaneWork::Done) {
                LaneWork::Done => return Poll::Ready(()),
                LaneWork::Reading(mut job) => match job.poll_unpin(cx) {
                    Poll::Pending => {
                        self.work = LaneWork::Reading(job);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok((reader, group))) => self.keep(reader, group),
                    Poll::Ready(Err(e)) => {
                        let error = Error::lost("source", e);
                        self.ready.push_back(Group::empty(GroupEnd::Failed(error)));
                        LaneWork::Done
                    }
                },
                LaneWork::Idle(reader) => {
                    let most = if self.on_demand { 1 } else { AHEAD };
                    let lease =
                        if self.ready.len() < most { self.poll_lease(&reader, cx) } else { Poll::Pending };
                    let Poll::Ready(lease) = lease else {
                        self.blocked.begin();
                        self.work = LaneWork::Idle(reader);
                        return Poll::Pending;
                    };
                    let blocked = self.blocked.end();
                    if let Some(meter) = &self.meter {
                        meter.add_wait_out(blocked);
                    }
                    let job = self.job(reader, lease);
                    if self.on_demand {
                        let (reader, group) = job();
                        self.keep(reader, group)
                    } else {
                        let pin = self.pin.clone();
                        LaneWork::Reading(tokio::task::spawn_blocking(move || {
                            Pinning::keep(pin.as_ref(), job)
                        }))
                    }
                }
            };
        }
    }

    /// Stores the group that was read, and the reader for the next one.
    fn keep(&mut self, reader: Box<Reader>, group: Group) -> LaneWork {
        let is_last = !matches!(group.after, GroupEnd::More);
        if is_last || group.size().0 > 0 {
            self.ready.push_back(group);
        }
        if is_last { LaneWork::Done } else { LaneWork::Idle(reader) }
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

    /// Reads, frames and decodes the next slab.
    fn job(
        &self,
        mut reader: Box<Reader>,
        lease: Lease,
    ) -> impl FnOnce() -> (Box<Reader>, Group) + Send + 'static {
        let moving = self.budget.as_ref().map(Budget::moving);
        let meter = self.meter.clone();
        move || {
            let span = || stage_span!("source", "read", documents = Empty, tokens = Empty, bytes = Empty);
            let work = meter.map(|meter| meter.work(span()));
            let mut group = reader.step(lease);
            group.moving = moving;
            if let Some(work) = work {
                let (documents, bytes) = group.size();
                work.note(documents as u64, 0, bytes as u64);
            }
            (reader, group)
        }
    }

    /// Makes the next group the current one, if one is ready.
    fn advance(&mut self) -> bool {
        let Some(group) = self.ready.pop_front() else { return false };
        if let Some(meter) = &self.meter {
            let (documents, bytes) = group.size();
            meter.count(documents as u64, 0, bytes as u64);
        }
        if let Some(held) = &mut self.held {
            held.set(self.ready.len());
        }
        self.current = group;
        true
    }
}

impl Stream for Documents {
    type Item = Result<Tracked<Document>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(document) = this.current.pop() {
                this.handed += 1;
                if this.handed.is_multiple_of(POLL_EVERY) && !this.on_demand {
                    let _ = this.poll_ahead(cx);
                }
                return Poll::Ready(Some(Ok(document)));
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
                let waits_for_memory = matches!(this.work, LaneWork::Idle(_));
                if let Some(held) = &mut this.held {
                    held.set_state(if waits_for_memory { MeterState::Starved } else { MeterState::Working });
                }
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        if let LaneWork::Reading(job) = &self.work {
            // A job that has not begun will not begin.
            job.abort();
        }
        if let Some(budget) = &self.budget {
            budget.ask_again();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_job_is_an_error() {
        let mut documents = Documents {
            work: LaneWork::Reading(tokio::task::spawn_blocking(|| panic!("a defect"))),
            current: Group::empty(GroupEnd::More),
            handed: 0,
            ready: VecDeque::new(),
            slab_bytes: 4,
            on_demand: false,
            pin: None,
            budget: None,
            meter: None,
            held: None,
            blocked: Interval::default(),
            _cancel: CancelToken::new().0,
        };
        let error = documents.next().await.expect("an item").expect_err("an error");
        assert_eq!(error.to_string(), "stage `source` panicked: a defect");
        assert!(documents.next().await.is_none());
    }
}
