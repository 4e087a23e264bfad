//! Documents in, their ids out, in the same order.
//!
//! A document that the tokenizer refuses, by an error, a panic or an id beyond its vocabulary, ends the stream or is
//! left out, by policy. That is decided where documents leave in order, so it does not hang on the workers.
//!
//! Held in memory: at most two groups more than twice as many as there are workers, as text or as ids. Its cursor
//! costs nothing: each document keeps its own.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tracing::field::Empty;

use super::workers::{Answer, Workers};
use crate::budget::{Budget, Lease, Moving};
use crate::config::OnError;
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{Arena, Document, Position, Tokens};
use crate::error::{Error, Result};
use crate::meter::{Held, Meter, State, stage_span};
use crate::shards::Recorder;
use crate::tokenizer::Encoder;
use futures::stream::Fuse;
use futures::{Stream, StreamExt};

mod skips;

use skips::{Refused, Skips};

/// Text in one blocking job. At 250 MB/s it is a millisecond of work, some hundred times what
/// handing it over costs.
const GROUP_BYTES: usize = 256 << 10;

/// The text of a job is so small a part of its budget: its ids take four times as much.
const BUDGET_SHARE: usize = 32;

/// Jobs that a lane has under way beside two for each worker: while the workers have all cores, the task that would start
/// the next ones may wait for some milliseconds.
pub(crate) const SPARE_JOBS: usize = 2;

/// Ids that a KiB of text has, more or less, before any was seen.
const IDS_PER_KIB: usize = 256;

/// The first job has so small a part of a job's text, as a power of two; each that follows has twice as much.
const FIRST_SHIFT: u32 = 4;

/// Documents in one blocking job, where they are short.
const GROUP_DOCUMENTS: usize = 4096;

/// The stage of [`StageExt::tokenize`](super::StageExt::tokenize).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Tokenize<S> {
    documents: Fuse<S>,
    encoder: Encoder,
    workers: Workers,
    meter: Arc<Meter>,
    held: Held,
    /// Counts the time that it takes to get documents, if that is worth it.
    upstream: Option<Arc<Meter>>,
    skips: Skips,
    recorder: Option<Recorder>,
    /// Ids that a KiB of text had in the jobs so far: arenas are made so large at once.
    ids_per_kib: Arc<AtomicUsize>,
    group: Vec<Tracked<Document>>,
    group_bytes: usize,
    /// Jobs that were started.
    started: u32,
    /// A document of another corpus than the group's: a group has one list of files.
    next: Option<Tracked<Document>>,
    jobs: VecDeque<Answer<Encoded>>,
    ready: Option<Encoded>,
    /// What ended the documents, once all before it is delivered.
    error: Option<Error>,
    ended: bool,
}

impl<S> Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>>,
{
    pub(super) fn new(documents: S, encoder: Encoder, workers: Workers) -> Self {
        let meter = Meter::new("tokenize");
        Self {
            documents: documents.fuse(),
            encoder,
            workers,
            held: Held::new(meter.clone()),
            meter,
            upstream: None,
            skips: Skips::new(OnError::default()),
            recorder: None,
            ids_per_kib: Arc::new(AtomicUsize::new(IDS_PER_KIB)),
            group: Vec::new(),
            group_bytes: 0,
            started: 0,
            next: None,
            jobs: VecDeque::new(),
            ready: None,
            error: None,
            ended: false,
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

    /// What happens to a document that the tokenizer refuses; without this it ends the stream.
    ///
    /// [`OnError::Skip`] leaves it out, logged and counted, so many times in one epoch since the stream was opened.
    /// The cursors of the others do not change, so order and resume hold.
    pub fn with_on_error(mut self, on_error: OnError) -> Self {
        self.skips = Skips::new(on_error);
        self
    }

    /// Gives the ids to a token cache as well, in order.
    pub(crate) fn with_recorder(mut self, recorder: Option<Recorder>) -> Self {
        self.recorder = recorder;
        self
    }

    /// Ends the stream.
    fn end(&mut self) {
        self.ended = true;
        self.jobs.clear();
        self.ready = None;
        self.recorder = None;
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
            // A short group is worth a job of its own only if there is nothing else to wait for.
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
            let document = match self.next.take() {
                Some(document) => document,
                None if self.error.is_some() => return Poll::Ready(()),
                None => match ready!(self.documents.poll_next_unpin(cx)) {
                    Some(Ok(document)) => document,
                    Some(Err(error)) => {
                        self.error = Some(error);
                        return Poll::Ready(());
                    }
                    None => return Poll::Ready(()),
                },
            };
            let of_group =
                |first: &Tracked<Document>| Arc::ptr_eq(first.value.files(), document.value.files());
            if !self.group.first().is_none_or(of_group) {
                self.next = Some(document);
                return Poll::Ready(());
            }
            self.group_bytes += document.value.size();
            self.group.push(document);
        }
        Poll::Ready(())
    }

    /// Whether the group is as large as one job shall be. In a small budget it is smaller: a single document that waits
    /// downstream keeps the ids of its whole group.
    fn is_whole(&self) -> bool {
        let budget = self.group.first().and_then(|document| document.value.lease().budget());
        let most = budget.map_or(GROUP_BYTES, |budget| GROUP_BYTES.min(budget.limit() / BUDGET_SHARE));
        // The first ones are small, so that the first batch comes at once.
        let most = most >> FIRST_SHIFT.saturating_sub(self.started);
        self.group_bytes >= most || self.group.len() >= GROUP_DOCUMENTS
    }

    /// Whether there is room for jobs, and documents may yet come for them.
    fn wants_documents(&self) -> bool {
        let is_open = !self.documents.is_done() && self.error.is_none();
        is_open && self.has_room()
    }

    /// Whether one more job may be started.
    fn has_room(&self) -> bool {
        self.jobs.len() < self.workers.ahead(SPARE_JOBS)
    }

    fn start(&mut self) {
        // The next job has about as many documents.
        let next = Vec::with_capacity(self.group.len());
        let group = std::mem::replace(&mut self.group, next);
        self.group_bytes = 0;
        self.started = self.started.saturating_add(1);
        let (encoder, meter, on_error) = (self.encoder.clone(), self.meter.clone(), self.skips.on_error);
        let moving = budget_of(&group).map(Budget::moving);
        let ids_per_kib = self.ids_per_kib.clone();
        self.jobs.push_back(self.workers.run(move || {
            let span = stage_span!("tokenize", "tokenize", documents = Empty, tokens = Empty, bytes = Empty);
            let work = meter.work(span);
            let encoded = encode(&encoder, group, moving, on_error, &ids_per_kib);
            let items = || encoded.items.as_slice().iter().flatten();
            let (documents, tokens) = (items().count() as u64, encoded.arena.ids.len() as u64);
            let bytes = items().map(|item| item.text_bytes as u64).sum();
            meter.count(documents, tokens, bytes);
            work.note(documents, tokens, bytes);
            drop(work);
            encoded
        }));
    }
}

impl<S> Stream for Tokenize<S>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    type Item = Result<Tracked<Tokens>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(encoded) = &mut this.ready {
                match encoded.next() {
                    Some(Ok(tokens)) => return Poll::Ready(Some(Ok(tokens))),
                    Some(Err(refused)) => match this.skips.skip(refused, &this.meter) {
                        Ok(()) => continue,
                        Err(error) => {
                            this.end();
                            return Poll::Ready(Some(Err(error)));
                        }
                    },
                    None => this.ready = None,
                }
            }
            if this.ended {
                return Poll::Ready(None);
            }
            this.advance(cx);
            this.held.set(this.jobs.len());
            // What few jobs keep few workers busy is the documents' fault.
            let is_starved = this.wants_documents() && this.workers.has_idle();
            let Some(job) = this.jobs.front_mut() else {
                if !this.group.is_empty() || !this.documents.is_done() && this.error.is_none() {
                    this.meter.set_state(State::Starved);
                    return Poll::Pending;
                }
                this.end();
                return Poll::Ready(this.error.take().map(Err));
            };
            if let Some(recorder) = &mut this.recorder {
                this.meter.set_state(State::Blocked);
                ready!(recorder.poll_ready(cx));
            }
            this.meter.set_state(if is_starved { State::Starved } else { State::Working });
            let encoded = ready!(job.poll("tokenize", cx));
            this.jobs.pop_front();
            match encoded {
                Ok(encoded) => {
                    this.meter.add_wait_out(encoded.finished.elapsed());
                    if let Some(recorder) = &mut this.recorder {
                        encoded.record(this.encoder.around(), recorder);
                    }
                    this.ready = Some(encoded);
                }
                Err(error) => {
                    this.end();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

/// A group after its job: ids in one arena, and the documents that they belong to.
#[derive(Debug)]
struct Encoded {
    arena: Arc<Arena>,
    items: std::vec::IntoIter<Result<Item, Box<Refused>>>,
    start: usize,
    finished: Instant,
    _moving: Option<Moving>,
}

#[derive(Debug)]
struct Item {
    end: usize,
    text_bytes: usize,
    position: Position,
    cursor: LaneCursor,
}

impl Encoded {
    /// Gives the documents to a recorder, without the ids `around` them.
    fn record(&self, (before, behind): (usize, usize), recorder: &mut Recorder) {
        let mut start = self.start;
        // Those that were refused are missed by their count.
        for item in self.items.as_slice().iter().flatten() {
            let ids = &self.arena.ids[start + before..item.end - behind];
            start = item.end;
            let Position { byte, line, .. } = item.position;
            recorder.document(ids, (byte, line.saturating_sub(1)), item.text_bytes, &item.cursor);
        }
        recorder.settle();
    }

    fn next(&mut self) -> Option<Result<Tracked<Tokens>, Refused>> {
        let item = match self.items.next()? {
            Ok(item) => item,
            Err(refused) => return Some(Err(*refused)),
        };
        let range: Range<usize> = self.start..item.end;
        self.start = item.end;
        let tokens = Tokens::in_arena(self.arena.clone(), range, item.text_bytes, item.position);
        Some(Ok(Tracked::new(tokens, item.cursor)))
    }
}

/// Encodes a group of documents, of which those that the tokenizer refuses leave no ids; it ends with the first
/// such if none may be skipped.
fn encode(
    encoder: &Encoder,
    group: Vec<Tracked<Document>>,
    moving: Option<Moving>,
    on_error: OnError,
    ids_per_kib: &AtomicUsize,
) -> Encoded {
    let per_kib = ids_per_kib.load(Relaxed);
    let mut ids = Vec::with_capacity(group.iter().map(|document| document.value.likely_ids(per_kib)).sum());
    let mut items = Vec::with_capacity(group.len());
    for Tracked { value: document, cursor } in &group {
        if let Err(error) = encoder.accept(document) {
            items.push(Err(Box::new(Refused { epoch: cursor.epoch, error })));
            break;
        }
        let problem = match encoder.encode_document(document, &mut ids) {
            Ok(()) => {
                items.push(Ok(Item {
                    end: ids.len(),
                    text_bytes: document.text_bytes(),
                    position: document.position(),
                    cursor: *cursor,
                }));
                continue;
            }
            Err(problem) => problem,
        };
        let error = document.error(problem, "change the tokenizer, or take the document out");
        items.push(Err(Box::new(Refused { epoch: cursor.epoch, error })));
        if on_error == OnError::Fail {
            break;
        }
    }
    let text: usize = group.iter().map(|document| document.value.size()).sum();
    if text > 0 {
        // A sixteenth more, so that most arenas need not grow.
        ids_per_kib.store((ids.len() * (1024 + 64)).div_ceil(text), Relaxed);
    }
    let files = group[0].value.files().clone();
    let lease = ids_lease(&group, &mut ids);
    Encoded {
        arena: Arc::new(Arena { ids, files, _lease: lease }),
        items: items.into_iter(),
        start: 0,
        finished: Instant::now(),
        _moving: moving,
    }
}

/// The budget that a group's texts are charged to; a stage of the user's may have put in some that are not.
fn budget_of(group: &[Tracked<Document>]) -> Option<&Arc<Budget>> {
    group.iter().find_map(|document| document.value.lease().budget())
}

/// Moves the room for ids that was taken with the documents' text to their arena.
fn ids_lease(group: &[Tracked<Document>], ids: &mut Vec<u32>) -> Lease {
    let Some(budget) = budget_of(group) else { return Lease::none() };
    let reserved: usize = group
        .chunk_by(|a, b| std::ptr::eq(a.value.lease(), b.value.lease()))
        .map(|run| {
            let most: usize = run.iter().map(|document| document.value.most_ids()).sum();
            run[0].value.lease().take(size_of::<u32>() * most)
        })
        .sum();
    // Documents that wait downstream must not keep more room than a fourth beyond their ids, whatever was guessed.
    let most = (reserved / size_of::<u32>()).min(ids.len() + ids.len() / 4);
    if ids.capacity() > most {
        ids.shrink_to_fit();
    }
    budget.resize(reserved, ids.capacity() * size_of::<u32>())
}
