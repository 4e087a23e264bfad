//! One lane's stream: the waiting around [`Reader`].
//!
//! Each slab is read, framed and decoded in one blocking job, one after the other, so that a lane keeps at
//! most one thread busy and its documents in order. A few finished groups wait ahead. The documents of a
//! group are handed out without asking anyone.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::FutureExt;
use tokio::task::JoinHandle;
use tracing::field::Empty;

use super::group::{After, Group};
use super::read::Reader;
use crate::budget::{Budget, IDS_PER_BYTE, Lease};
use crate::cursor::Tracked;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::meter::{Held, Interval, Meter, State, stage_span};
use crate::store::Leash;
use crate::tasks;

/// How many groups are read ahead of the one that is handed out.
pub(crate) const AHEAD: usize = 2;

/// How many slabs a lane holds at most: the one that is handed out, and those ahead or under way.
pub(super) const SLABS: usize = AHEAD + 1;

/// After so many documents of a group the read-ahead is looked after.
const POLL_EVERY: usize = 256;

/// The documents of one lane, in order, each with the cursor after it.
///
/// The stream ends after the last epoch, after an error, or at once if the lane has no splits. It must be
/// polled within a tokio runtime, whose blocking threads read and decode ahead of it.
///
/// # Errors
/// [`Error::Document`] for one that cannot be read, when the source's `on_error` allows no more; all
/// documents before it are delivered first. [`Error::Io`] for the system's. [`Error::Corpus`] for a file
/// whose length has changed, or for an endless stream of nothing. [`Error::Resume`] for a start that is no
/// place between the lane's documents. [`Error::Panic`] for a defect.
///
/// # Cancel safety
/// `next()` may be dropped at any time; no document is lost. Dropping the stream frees what it holds; a
/// read under way ends by itself.
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub struct Documents {
    work: Work,
    current: Group,
    handed: usize,
    ready: VecDeque<Group>,
    slab_bytes: usize,
    /// Whether nothing is read before it is asked for, and then by who asks.
    on_demand: bool,
    budget: Option<Arc<Budget>>,
    meter: Option<Arc<Meter>>,
    blocked: Interval,
    held: Option<Held>,
    /// Ends what is read when the stream is dropped.
    _leash: Leash,
}

/// What the lane's reader does.
#[derive(Debug)]
enum Work {
    Idle(Box<Reader>),
    Reading(JoinHandle<(Box<Reader>, Group)>),
    Done,
}

impl Documents {
    pub(super) fn new(
        reader: Reader,
        leash: Leash,
        slab_bytes: usize,
        budget: Option<Arc<Budget>>,
        meter: Option<Arc<Meter>>,
    ) -> Self {
        Self {
            work: Work::Idle(Box::new(reader)),
            current: Group::empty(After::More),
            handed: 0,
            ready: VecDeque::new(),
            slab_bytes,
            on_demand: false,
            budget,
            held: meter.clone().map(Held::new),
            meter,
            blocked: Interval::default(),
            _leash: leash,
        }
    }

    /// Reads when documents are asked for, where they are asked for.
    pub(super) fn on_demand(mut self, on_demand: bool) -> Self {
        self.on_demand = on_demand;
        self
    }

    /// Reads ahead until enough groups wait, the budget is full or a job is under way.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.work = match std::mem::replace(&mut self.work, Work::Done) {
                Work::Done => return Poll::Ready(()),
                Work::Reading(mut job) => match job.poll_unpin(cx) {
                    Poll::Pending => {
                        self.work = Work::Reading(job);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok((reader, group))) => self.keep(reader, group),
                    Poll::Ready(Err(e)) => {
                        let error = Error::lost("source", e);
                        self.ready.push_back(Group::empty(After::Failed(error)));
                        Work::Done
                    }
                },
                Work::Idle(reader) => {
                    let most = if self.on_demand { 1 } else { AHEAD };
                    let lease =
                        if self.ready.len() < most { self.poll_lease(&reader, cx) } else { Poll::Pending };
                    let Poll::Ready(lease) = lease else {
                        self.blocked.begin();
                        self.work = Work::Idle(reader);
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
                        Work::Reading(tasks::spawn_blocking("read", job))
                    }
                }
            };
        }
    }

    /// Takes up what was read.
    fn keep(&mut self, reader: Box<Reader>, group: Group) -> Work {
        let is_last = !matches!(group.after, After::More);
        if is_last || group.size().0 > 0 {
            self.ready.push_back(group);
        }
        if is_last { Work::Done } else { Work::Idle(reader) }
    }

    /// Room for the next slab's text and ids.
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

    /// Begins to hand out the next group, if one is there.
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
            match std::mem::replace(&mut this.current.after, After::End) {
                After::Failed(error) => return Poll::Ready(Some(Err(error))),
                After::End => return Poll::Ready(None),
                After::More => this.current.after = After::More,
            }
            // The slab and the guard of the group that is handed out are for others to have.
            this.current = Group::empty(After::More);
            let is_reading = this.poll_ahead(cx).is_pending();
            if !this.advance() && is_reading {
                if let Some(meter) = &this.meter {
                    let waits_for_memory = matches!(this.work, Work::Idle(_));
                    meter.set_state(if waits_for_memory { State::Starved } else { State::Working });
                }
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        if let Work::Reading(job) = &self.work {
            // One that has not begun never will.
            job.abort();
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
            work: Work::Reading(tokio::task::spawn_blocking(|| panic!("a defect"))),
            current: Group::empty(After::More),
            handed: 0,
            ready: VecDeque::new(),
            slab_bytes: 4,
            on_demand: false,
            budget: None,
            meter: None,
            held: None,
            blocked: Interval::default(),
            _leash: Leash::new().0,
        };
        let error = documents.next().await.expect("an item").expect_err("an error");
        assert_eq!(error.to_string(), "stage `source` panicked: a defect");
        assert!(documents.next().await.is_none());
    }
}
