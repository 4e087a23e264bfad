//! Documents in, their ids out, in the same order.
//!
//! A document that the tokenizer refuses, by an error, a panic or an id beyond its vocabulary, ends the
//! stream or goes on without ids, by policy. The decision is made where documents leave in order, so it does not
//! depend on the workers. A document with a mask of which no id is learned from goes on without ids too.
//!
//! The documents of a group come from a stream (`gather`), or the job that tokenizes them reads them itself: then text is
//! read, cut and encoded by one thread, while it is in that core's cache.
//!
//! Held in memory: at most two groups for each worker and four more, as text or as ids. Lanes share these,
//! and each lane has at least three. The cursor costs nothing: each document keeps its own.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::Empty;
use tracing::field::Empty as EmptyField;

use super::window_order::Delivered;
use super::workers::{Answer, Workers};
use crate::config::OnError;
use crate::cursor::Tracked;
use crate::document::{Document, DocumentGroup, DocumentRead, DocumentReads, Tokens};
use crate::error::{Error, Result};
use crate::meter::{Held, Meter, MeterState, stage_span};
use crate::shards::Recorder;
use crate::tokenizer::Encoder;

mod gather;
mod group;
mod skips;

use gather::Gather;
use group::{Encoded, encode};
use skips::Skips;

/// Jobs that a lane has under way besides two for each worker. While the workers have all cores, the task
/// that would start the next jobs may wait for some milliseconds.
pub(crate) const SPARE_JOBS: usize = 4;

/// The guess of how many ids a KiB of text has, before any text was seen.
const IDS_PER_KIB: usize = 256;

/// Jobs that a lane has under way before it took the ids of one, if no other lane needs the workers.
const FIRST_JOBS: usize = 2;

/// Jobs that a lane has under way if its ids are stored.
const STORED_JOBS: usize = 2;

/// The stage of [`StageExt::tokenize`](super::StageExt::tokenize).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Tokenize<S> {
    groups: Groups<S>,
    encoder: Encoder,
    workers: Workers,
    meter: Arc<Meter>,
    held: Held,
    skips: Skips,
    recorder: Option<Recorder>,
    /// Which of the first documents need no ids.
    delivered: Option<Delivered>,
    /// How many ids a KiB of text had in the jobs so far: arenas are allocated at that size.
    ids_per_kib: Arc<AtomicUsize>,
    started: u32,
    jobs: VecDeque<Job>,
    ready: Option<Encoded>,
    ended: bool,
}

/// Where groups of documents come from.
#[derive(Debug)]
enum Groups<S> {
    Gathered(Box<Gather<S>>),
    /// Reads, each by the job that tokenizes it; `None` after the last.
    Read(Option<Box<dyn DocumentReads>>),
}

#[derive(Debug)]
struct Job {
    answer: Answer<Encoded>,
    /// Whether it is reading its documents, or waits for a thread to read them.
    reads: Arc<AtomicBool>,
}

impl<S> Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>>,
{
    pub(super) fn new(documents: S, encoder: Encoder, workers: Workers) -> Self {
        Self::of(Groups::Gathered(Box::new(Gather::new(documents))), encoder, workers)
    }

    /// Counts in `meter`, which other lanes may share.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.held = Held::new(meter.clone());
        self.meter = meter;
        self
    }

    /// Counts in `meter` the time that the stages before it take within this one's task.
    pub(crate) fn with_upstream(mut self, meter: Option<Arc<Meter>>) -> Self {
        if let Groups::Gathered(gather) = &mut self.groups {
            gather.upstream = meter;
        }
        self
    }

    /// Sets what happens to a document that the tokenizer refuses; without this it ends the stream.
    ///
    /// With [`OnError::Skip`] it goes on without ids, logged and counted, up to the limit in one epoch since the stream
    /// was opened.
    pub fn with_on_error(mut self, on_error: OnError) -> Self {
        self.skips = Skips::new(on_error);
        self
    }

    /// Gives no ids to the documents that the shuffle behind this stage has delivered before, as `delivered` tells. The
    /// shuffle drops them. No stage in between may look at ids or leave documents out.
    pub(crate) fn with_delivered(mut self, delivered: Option<Delivered>) -> Self {
        self.delivered = delivered;
        self
    }
}

impl Tokenize<Empty<Result<Tracked<Document>>>> {
    pub(crate) fn of_reads(reads: Box<dyn DocumentReads>, encoder: Encoder, workers: Workers) -> Self {
        Self::of(Groups::Read(Some(reads)), encoder, workers)
    }

    /// Gives the ids to a token cache as well, in order.
    pub(crate) fn with_recorder(mut self, recorder: Option<Recorder>) -> Self {
        self.recorder = recorder;
        self
    }
}

impl<S> Tokenize<S> {
    fn of(groups: Groups<S>, encoder: Encoder, workers: Workers) -> Self {
        let meter = Meter::new("tokenize");
        Self {
            groups,
            encoder,
            workers,
            held: Held::new(meter.clone()),
            meter,
            skips: Skips::new(OnError::default()),
            recorder: None,
            delivered: None,
            ids_per_kib: Arc::new(AtomicUsize::new(IDS_PER_KIB)),
            started: 0,
            jobs: VecDeque::new(),
            ready: None,
            ended: false,
        }
    }

    fn end(&mut self, error: Option<Error>) -> Poll<Option<Result<Tracked<Tokens>>>> {
        self.ended = true;
        self.jobs.clear();
        self.ready = None;
        self.recorder = None;
        Poll::Ready(error.map(Err))
    }

    /// Goes on with a document that has no ids, because the tokenizer refused it, or ends the stream.
    #[cold]
    fn skip(&mut self, tokens: Tracked<Tokens>, error: Error) -> Poll<Option<Result<Tracked<Tokens>>>> {
        match self.skips.skip(tokens.cursor.epoch, error, &self.meter) {
            Ok(()) => Poll::Ready(Some(Ok(tokens))),
            Err(error) => self.end(Some(error)),
        }
    }

    /// Whether documents may still come.
    fn is_open(&self) -> bool {
        match &self.groups {
            Groups::Gathered(gather) => gather.is_open(),
            Groups::Read(reads) => reads.is_some(),
        }
    }

    /// Whether one more job may be started. At first there are few, so that another lane's first job need not
    /// wait for everything that this lane would do ahead.
    fn has_room(&self) -> bool {
        let under_way = self.jobs.len();
        let taken = self.started as usize - under_way;
        let first = if self.workers.streams() > 1 { 1 } else { FIRST_JOBS };
        // Stored ids are ready as soon as they are read, so a few jobs are far enough ahead.
        let is_stored = matches!(&self.groups, Groups::Read(Some(reads)) if reads.are_stored());
        let ahead = if is_stored { STORED_JOBS } else { self.workers.ahead(SPARE_JOBS) };
        under_way < ahead.min(taken + first)
    }

    /// Starts a job for documents that are there already.
    fn start(&mut self, group: DocumentGroup, is_delivered: Vec<bool>) {
        let encode = self.encode();
        // Stored ids need no worker, and their time counts as the task's.
        let is_stored = group.documents.iter().all(|document| document.value.stored_ids().is_some());
        let answer = match is_stored {
            true => Answer::run(|| encode(group, &is_delivered)),
            false => self.workers.run(move || encode(group, &is_delivered)),
        };
        self.push(answer, Arc::default());
    }

    fn start_read(&mut self, DocumentRead { read, waits }: DocumentRead) {
        let (encode, delivered) = (self.encode(), self.delivered);
        // A job that waits for a worker does not wait for documents.
        let reads = Arc::new(AtomicBool::new(waits));
        let is_reading = reads.clone();
        let read = move || {
            is_reading.store(true, Relaxed);
            let group = read();
            is_reading.store(false, Relaxed);
            group
        };
        let encode = move |group: DocumentGroup| {
            let is_delivered = delivered.map(|delivered| delivered.of_group(&group.documents));
            encode(group, &is_delivered.unwrap_or_default())
        };
        let answer = match waits {
            true => self.workers.run_behind(read, encode),
            false => self.workers.run(move || encode(read())),
        };
        self.push(answer, reads);
    }

    fn push(&mut self, answer: Answer<Encoded>, reads: Arc<AtomicBool>) {
        self.started = self.started.saturating_add(1);
        self.jobs.push_back(Job { answer, reads });
    }

    /// Encodes a group, and counts it.
    fn encode(&self) -> impl FnOnce(DocumentGroup, &[bool]) -> Encoded + Send + 'static {
        let (encoder, meter, on_error) = (self.encoder.clone(), self.meter.clone(), self.skips.on_error);
        let ids_per_kib = self.ids_per_kib.clone();
        move |group, is_delivered| {
            let span = || {
                stage_span!(
                    "tokenize",
                    "tokenize",
                    documents = EmptyField,
                    tokens = EmptyField,
                    bytes = EmptyField
                )
            };
            // A read may end a split, or a lane, without a document.
            let work = (!group.documents.is_empty()).then(|| meter.work(span()));
            let leave_out = |document: &Document| {
                meter.skip(true, "none of its ids is learned from", |reason| document.skipped(reason));
            };
            let encoded = encode(&encoder, group, is_delivered, on_error, &ids_per_kib, leave_out);
            let (documents, tokens, bytes) = encoded.size();
            meter.count(documents, tokens, bytes);
            if let Some(work) = work {
                work.note(documents, tokens, bytes);
            }
            encoded
        }
    }
}

impl<S> Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    /// Starts jobs until there is no room or no document.
    fn advance(&mut self, cx: &mut Context<'_>) {
        while self.has_room() {
            let (started, streams) = (self.started, self.workers.streams());
            match &mut self.groups {
                Groups::Gathered(gather) => {
                    let Some(group) = gather.poll_group(cx, started, streams, self.jobs.is_empty()) else {
                        return;
                    };
                    let is_delivered = gather.take_delivered(&mut self.delivered, &group);
                    self.start(group, is_delivered);
                }
                Groups::Read(None) => return,
                Groups::Read(reads @ Some(_)) => match reads.as_mut().map(|reads| reads.poll_read(cx)) {
                    Some(Poll::Ready(Some(read))) => self.start_read(read),
                    Some(Poll::Ready(None)) | None => *reads = None,
                    Some(Poll::Pending) => return,
                },
            }
        }
    }
}

impl<S> Stream for Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    type Item = Result<Tracked<Tokens>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        loop {
            if let Some(encoded) = &mut this.ready {
                match encoded.next() {
                    Some(Ok(tokens)) => return Poll::Ready(Some(Ok(tokens))),
                    Some(Err(refused)) => {
                        let (tokens, error) = encoded.refused(*refused);
                        return this.skip(tokens, error);
                    }
                    None => {
                        if let Some(error) = encoded.error.take() {
                            return this.end(Some(error));
                        }
                        this.ready = None;
                    }
                }
            }
            this.advance(cx);
            this.held.set(this.jobs.len());
            let wants_documents = this.is_open() && this.has_room();
            let Some(job) = this.jobs.front_mut() else {
                if this.is_open() {
                    this.held.set_state(MeterState::Starved);
                    return Poll::Pending;
                }
                return this.end(None);
            };
            // If workers are idle because there are few jobs, the documents are too slow.
            let is_starved = job.reads.load(Relaxed) || wants_documents && this.workers.has_idle();
            if let Some(recorder) = &mut this.recorder {
                this.held.set_state(MeterState::Blocked);
                ready!(recorder.poll_ready(cx));
            }
            this.held.set_state(if is_starved { MeterState::Starved } else { MeterState::Working });
            let encoded = ready!(job.answer.poll("tokenize", cx));
            this.jobs.pop_front();
            match encoded {
                Ok(mut encoded) => {
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
