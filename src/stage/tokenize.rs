//! Documents in, their ids out, in the same order.
//!
//! A document that the tokenizer refuses, by an error, a panic or an id beyond its vocabulary, ends the
//! stream or is left out, by policy. The decision is made where documents leave in order, so it does not
//! depend on the workers.
//!
//! Held in memory: at most two groups for each worker and four more, as text or as ids. Lanes share these,
//! and each lane has at least three. The cursor costs nothing: each document keeps its own.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::Stream;
use tracing::field::Empty;

use super::input::Input;
use super::window_order::Delivered;
use super::workers::{Answer, Workers};
use crate::budget::Budget;
use crate::config::OnError;
use crate::cursor::Tracked;
use crate::document::{Document, Tokens};
use crate::error::{Error, Result};
use crate::meter::{Held, Meter, MeterState, Work, stage_span};
use crate::shards::Recorder;
use crate::tokenizer::Encoder;

mod group;
mod skips;

use group::{Encoded, budget_of, encode};
use skips::Skips;

/// The bytes of text in one blocking job. At 250 MB/s that is two milliseconds of work, some hundred times
/// the cost of the hand-over.
const GROUP_BYTES: usize = 512 << 10;

/// A job's text is at most its budget divided by this number: the ids take four times as much as the text.
const BUDGET_SHARE: usize = 32;

/// Jobs that a lane has under way besides two for each worker. While the workers have all cores, the task
/// that would start the next jobs may wait for some milliseconds.
pub(crate) const SPARE_JOBS: usize = 4;

/// The guess of how many ids a KiB of text has, before any text was seen.
const IDS_PER_KIB: usize = 256;

/// The text of the first jobs of all lanes together is a job's text divided by two to this power. Each later
/// job has twice as much.
const FIRST_SHIFT: u32 = 4;

/// The text of a lane's first job is at least a job's text divided by two to this power.
const LEAST_SHIFT: u32 = 8;

/// Jobs that a lane has under way before it took the ids of one, if no other lane needs the workers.
const FIRST_JOBS: usize = 2;

/// The most documents in one blocking job; short documents reach this bound.
const GROUP_DOCUMENTS: usize = 4096;

/// The stage of [`StageExt::tokenize`](super::StageExt::tokenize).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Tokenize<S> {
    documents: Input<S, Tracked<Document>>,
    encoder: Encoder,
    workers: Workers,
    meter: Arc<Meter>,
    held: Held,
    /// Counts the time that it takes to get documents, if set.
    upstream: Option<Arc<Meter>>,
    skips: Skips,
    recorder: Option<Recorder>,
    /// Which of the first documents need no ids; the first document tells.
    delivered: Option<Delivered>,
    is_delivered: std::vec::IntoIter<bool>,
    /// How many ids a KiB of text had in the jobs so far: arenas are allocated at that size.
    ids_per_kib: Arc<AtomicUsize>,
    group: Vec<Tracked<Document>>,
    group_bytes: usize,
    /// Jobs that were started, and whether the last of them found all ids stored.
    started: u32,
    is_stored: bool,
    jobs: VecDeque<Answer<Encoded>>,
    ready: Option<Encoded>,
}

impl<S> Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>>,
{
    pub(super) fn new(documents: S, encoder: Encoder, workers: Workers) -> Self {
        let meter = Meter::new("tokenize");
        Self {
            documents: Input::new(documents),
            encoder,
            workers,
            held: Held::new(meter.clone()),
            meter,
            upstream: None,
            skips: Skips::new(OnError::default()),
            recorder: None,
            delivered: None,
            is_delivered: Vec::new().into_iter(),
            ids_per_kib: Arc::new(AtomicUsize::new(IDS_PER_KIB)),
            group: Vec::new(),
            group_bytes: 0,
            started: 0,
            is_stored: false,
            jobs: VecDeque::new(),
            ready: None,
        }
    }

    /// Counts in `meter`, which other lanes may share.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.held = Held::new(meter.clone());
        self.meter = meter;
        self
    }

    /// Counts in `meter` the time that the stages before it take within this one's task.
    pub(crate) fn with_upstream(mut self, meter: Option<Arc<Meter>>) -> Self {
        self.upstream = meter;
        self
    }

    /// Sets what happens to a document that the tokenizer refuses; without this it ends the stream.
    ///
    /// [`OnError::Skip`] leaves it out, logged and counted, up to its limit in one epoch since the stream was
    /// opened. The cursors of the other documents do not change, so order and resume hold.
    pub fn with_on_error(mut self, on_error: OnError) -> Self {
        self.skips = Skips::new(on_error);
        self
    }

    /// Gives the ids to a token cache as well, in order.
    pub(crate) fn with_recorder(mut self, recorder: Option<Recorder>) -> Self {
        self.recorder = recorder;
        self
    }

    /// Gives no ids to the documents that the shuffle behind this stage has delivered before, as `delivered` tells. The
    /// shuffle drops them. No stage in between may look at ids or leave documents out, and this one may not either.
    pub(crate) fn with_delivered(mut self, delivered: Option<Delivered>) -> Self {
        self.delivered = delivered;
        self
    }

    /// Ends the stream, with an error of this stage or that of the documents.
    fn end(&mut self, own: Option<Error>) -> Poll<Option<Result<Tracked<Tokens>>>> {
        self.jobs.clear();
        self.ready = None;
        self.recorder = None;
        self.documents.end(own)
    }
}

impl<S> Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    /// Takes documents and starts jobs until there is no room or no document.
    fn advance(&mut self, cx: &mut Context<'_>) {
        while self.has_room() {
            let began = self.upstream.as_ref().map(|_| Instant::now());
            let more = self.gather(cx);
            if let (Some(upstream), Some(began)) = (&self.upstream, began) {
                upstream.add_busy(began.elapsed());
            }
            // A short group is worth its own job only if there is nothing else to wait for.
            let wanted = self.is_whole() || more.is_ready() || self.jobs.is_empty();
            if self.group.is_empty() || !wanted {
                return;
            }
            self.start();
        }
    }

    /// Takes documents until the group is whole; ready if there is nothing to wait for.
    fn gather(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_whole() {
            let Some(document) = ready!(self.documents.poll_next(cx)) else { break };
            // A document as long as a group becomes its own group: otherwise the documents gathered before it
            // would keep its ids. One from another corpus does too, since a group has one list of files.
            let of_group = |first: &Tracked<Document>| {
                Arc::ptr_eq(first.value.files(), document.value.files())
                    && document.value.size() < most_bytes(first)
            };
            if !self.group.first().is_none_or(of_group) {
                self.documents.put_back(document);
                break;
            }
            self.group_bytes += document.value.size();
            self.group.push(document);
        }
        Poll::Ready(())
    }

    /// Whether the group is as large as one job should be.
    fn is_whole(&self) -> bool {
        // The first groups are small, so that the first batch comes at once.
        let most = self.group.first().map_or(GROUP_BYTES, most_bytes) >> self.shift();
        self.group_bytes >= most || self.group.len() >= GROUP_DOCUMENTS
    }

    /// Whether there is room for jobs, and documents may still come for them.
    fn wants_documents(&self) -> bool {
        self.documents.is_open() && self.has_room()
    }

    /// The power of two that the next job's text is divided by.
    fn shift(&self) -> u32 {
        let of_lane = FIRST_SHIFT + self.workers.streams().ilog2();
        of_lane.min(LEAST_SHIFT).saturating_sub(self.started)
    }

    /// Whether one more job may be started. At first there are few, so that another lane's first job need not
    /// wait for everything that this lane would do ahead.
    fn has_room(&self) -> bool {
        let under_way = self.jobs.len();
        let taken = self.started as usize - under_way;
        // Stored ids need no worker, so no job waits for one.
        let ahead = if self.is_stored { 1 } else { self.workers.ahead(SPARE_JOBS) };
        let first = if self.workers.streams() > 1 { 1 } else { FIRST_JOBS };
        under_way < ahead.min(taken + first)
    }

    fn start(&mut self) {
        // The next job has about as many documents, except that each of the first jobs has twice as many as
        // the one before.
        let likely = self.group.len() << u32::from(self.shift() > 0);
        let next = Vec::with_capacity(likely.min(GROUP_DOCUMENTS));
        let group = std::mem::replace(&mut self.group, next);
        self.group_bytes = 0;
        self.started = self.started.saturating_add(1);
        if let Some(delivered) = self.delivered.take() {
            self.is_delivered = delivered.in_window(&group[0].cursor).into_iter();
        }
        let is_delivered: Vec<bool> = self.is_delivered.by_ref().take(group.len()).collect();
        let (encoder, meter, on_error) = (self.encoder.clone(), self.meter.clone(), self.skips.on_error);
        let moving = budget_of(&group).map(Budget::moving);
        let ids_per_kib = self.ids_per_kib.clone();
        self.is_stored = group.iter().all(|document| document.value.stored_ids().is_some());
        let counts = meter.clone();
        let encode = move |work: Option<Work>| {
            let encoded = encode(&encoder, group, &is_delivered, moving, on_error, &ids_per_kib);
            let (documents, tokens, bytes) = encoded.size();
            counts.count(documents, tokens, bytes);
            if let Some(work) = work {
                work.note(documents, tokens, bytes);
            }
            encoded
        };
        self.jobs.push_back(match self.is_stored {
            // It needs no worker, and its time counts as the task's.
            true => Answer::run(|| encode(None)),
            false => self.workers.run(move || {
                let span =
                    stage_span!("tokenize", "tokenize", documents = Empty, tokens = Empty, bytes = Empty);
                encode(Some(meter.work(span)))
            }),
        });
    }
}

/// How much text a group that begins with this document has. In a small budget it has less: a single document
/// that waits downstream keeps the ids of its whole group.
fn most_bytes(first: &Tracked<Document>) -> usize {
    let budget = first.value.lease().budget();
    budget.map_or(GROUP_BYTES, |budget| GROUP_BYTES.min(budget.limit() / BUDGET_SHARE))
}

impl<S> Stream for Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    type Item = Result<Tracked<Tokens>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.documents.is_over() {
            return Poll::Ready(None);
        }
        loop {
            if let Some(encoded) = &mut this.ready {
                match encoded.next() {
                    Some(Ok(tokens)) => return Poll::Ready(Some(Ok(tokens))),
                    Some(Err(refused)) => match this.skips.skip(refused, &this.meter) {
                        Ok(()) => continue,
                        Err(error) => return this.end(Some(error)),
                    },
                    None => this.ready = None,
                }
            }
            this.advance(cx);
            this.held.set(this.jobs.len());
            // If workers are idle because there are few jobs, the documents are too slow.
            let is_starved = this.wants_documents() && this.workers.has_idle();
            let Some(job) = this.jobs.front_mut() else {
                if !this.group.is_empty() || this.documents.is_open() {
                    this.held.set_state(MeterState::Starved);
                    return Poll::Pending;
                }
                return this.end(None);
            };
            if let Some(recorder) = &mut this.recorder {
                this.held.set_state(MeterState::Blocked);
                ready!(recorder.poll_ready(cx));
            }
            this.held.set_state(if is_starved { MeterState::Starved } else { MeterState::Working });
            let encoded = ready!(job.poll("tokenize", cx));
            this.jobs.pop_front();
            match encoded {
                Ok(encoded) => {
                    this.meter.add_wait_out(encoded.finished.elapsed());
                    if let Some(recorder) = &mut this.recorder {
                        encoded.record(&this.encoder, recorder);
                    }
                    this.ready = Some(encoded);
                }
                Err(error) => return this.end(Some(error)),
            }
        }
    }
}
