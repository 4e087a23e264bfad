//! Records the ids of whole splits, from a lane's tokenized documents, into segments.
//!
//! Ids are held until they are worth a write, and are written on a blocking thread, one write at a time. Held
//! in memory for each lane and source: two chunks of 64 Ki ids, and a group of documents or of a longer
//! document's ids; for each split that is read beside others, also some 130 KiB of its segment.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;

use super::notes::What;
use super::{LaneCounts, Notes, TokenCache};
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::segment::{SEGMENT_BYTES, SegmentWriter, StoredDocument};

/// How many ids, or documents, are worth a write.
const CHUNK_IDS: usize = 64 << 10;
const CHUNK_STEPS: usize = 4 << 10;

/// The digest of documents that were delivered: the same for every reader of this cache.
const DELIVERED: u64 = 0;

/// Records one lane of one source. Dropping it writes the whole splits.
#[derive(Debug)]
pub(crate) struct Recorder {
    notes: Arc<Notes>,
    out: Arc<Out>,
    /// The splits that are being recorded: one, or those that are read side by side.
    splits: Vec<Split>,
    /// How many documents the lane has delivered so far.
    documents: u64,
    chunk: Chunk,
    /// Whether a split was recorded since a segment was last finished.
    has_more: bool,
    job: Option<JoinHandle<()>>,
}

/// A split that is being recorded.
#[derive(Clone, Copy, Debug)]
struct Split {
    number: u32,
    begin: LaneCounts,
    /// Its number among the lane's splits of the epoch, if it is read beside others.
    ordinal: Option<u64>,
    /// Which segment it goes to.
    slot: usize,
    /// How many of its documents have passed, and how many were skipped if it is read beside others.
    seen: u64,
    skipped: u64,
}

/// Steps that are to be written.
#[derive(Debug, Default)]
struct Chunk {
    ids: Vec<u32>,
    /// The steps, each with the slot of its segment.
    steps: Vec<(usize, Step)>,
}

impl Chunk {
    /// Whether it is worth a write, or others wait for it.
    fn is_due(&self) -> bool {
        let is_full = self.ids.len() >= CHUNK_IDS || self.steps.len() >= CHUNK_STEPS;
        is_full || matches!(self.steps.last(), Some((_, Step::Finish)))
    }
}

#[derive(Debug)]
enum Step {
    Document {
        ids: Range<usize>,
        start: (u64, u64),
        next: (u64, u64),
        text_bytes: usize,
        skipped: u64,
    },
    End {
        split: u32,
        skipped: u64,
    },
    /// The split cannot be cached.
    Cut,
    /// It was not read to its end, and may be begun again.
    GiveUp {
        split: u32,
    },
    /// Finishes all segments, so that the next reader finds the splits.
    Finish,
}

/// Where the recorded ids go.
#[derive(Debug)]
struct Out {
    cache: Arc<TokenCache>,
    chunks: Mutex<VecDeque<Chunk>>,
    /// The segments under way, by slot.
    writers: Mutex<Vec<Option<SegmentWriter>>>,
}

impl Recorder {
    /// Makes a recorder of the documents after a cursor.
    pub(crate) fn new(cache: Arc<TokenCache>, notes: Arc<Notes>, start: &LaneCursor) -> Self {
        let out = Out { cache, chunks: Mutex::default(), writers: Mutex::default() };
        let (splits, chunk, has_more, job) = (Vec::new(), Chunk::default(), false, None);
        Self { notes, out: Arc::new(out), splits, documents: start.documents, chunk, has_more, job }
    }

    /// Ready when there is room for more.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.chunk.is_due() {
            return Poll::Ready(());
        }
        if let Some(job) = &mut self.job {
            // The next job writes the rest.
            let _ = ready!(Pin::new(job).poll(cx));
        }
        self.out.push(std::mem::take(&mut self.chunk));
        let out = self.out.clone();
        self.job = Some(tokio::task::spawn_blocking(move || out.write()));
        Poll::Ready(())
    }

    /// Takes the next document of the lane: a function that appends its ids with nothing around them, where
    /// it begins (byte, and line from 0 where lines are counted), the length of its text, and the cursor
    /// after it.
    pub(crate) fn document(
        &mut self,
        append_ids: impl FnOnce(&mut Vec<u32>),
        start: (u64, u64),
        text_bytes: usize,
        cursor: &LaneCursor,
    ) {
        self.advance(cursor.documents.saturating_sub(1));
        self.documents = cursor.documents;
        let is_of = |split: &&mut Split| split.ordinal.is_none_or(|ordinal| ordinal == cursor.split);
        let Some(split) = self.splits.iter_mut().find(is_of) else { return };
        split.seen += 1;
        let skipped = match split.ordinal {
            None => cursor.skipped.saturating_sub(split.begin.skipped),
            Some(_) => split.skipped,
        };
        let at = self.chunk.ids.len();
        append_ids(&mut self.chunk.ids);
        let (ids, next) = (at..self.chunk.ids.len(), (cursor.byte, cursor.line));
        self.chunk.steps.push((split.slot, Step::Document { ids, start, next, text_bytes, skipped }));
    }

    /// Notes that all documents that were read so far have passed.
    pub(crate) fn catch_up(&mut self) {
        self.advance(self.documents);
    }

    /// Handles all notes that come before document number `documents`, counted from 0.
    fn advance(&mut self, documents: u64) {
        while let Some(note) = self.notes.next(documents) {
            match note.what {
                What::Begin(number) => {
                    self.give_up();
                    self.splits =
                        vec![Split { number, begin: note.at, ordinal: None, slot: 0, seen: 0, skipped: 0 }];
                }
                What::BeginInterleaved { number, ordinal, slot } => {
                    // A split that began in this slot before and has not ended never will.
                    self.give_up_if(|split| split.slot == slot || split.ordinal.is_none());
                    let ordinal = Some(ordinal);
                    self.splits.push(Split { number, begin: note.at, ordinal, slot, seen: 0, skipped: 0 });
                }
                What::End(number) => {
                    let Some(split) = self.take(number) else { continue };
                    let skipped = note.at.skipped.saturating_sub(split.begin.skipped);
                    // If documents are missing, the tokenizer refused them, and each epoch must report them.
                    self.end(split, split.begin.documents + split.seen == note.at.documents, skipped);
                }
                What::SkipInterleaved { ordinal } => {
                    let is_of = |split: &&mut Split| split.ordinal == Some(ordinal);
                    if let Some(split) = self.splits.iter_mut().find(is_of) {
                        split.skipped += 1;
                    }
                }
                What::EndInterleaved { number, delivered } => {
                    let Some(split) = self.take(number) else { continue };
                    self.end(split, delivered == split.seen, split.skipped);
                }
                What::EpochEnd => {
                    self.give_up();
                    if std::mem::take(&mut self.has_more) {
                        self.chunk.steps.push((0, Step::Finish));
                    }
                }
            }
        }
    }

    /// Takes out the split that is recorded under this number.
    fn take(&mut self, number: u32) -> Option<Split> {
        let at = self.splits.iter().position(|split| split.number == number)?;
        Some(self.splits.swap_remove(at))
    }

    fn end(&mut self, Split { number: split, slot, .. }: Split, is_whole: bool, skipped: u64) {
        self.has_more |= is_whole;
        self.chunk.steps.push((slot, if is_whole { Step::End { split, skipped } } else { Step::Cut }));
    }

    fn give_up(&mut self) {
        self.give_up_if(|_| true);
    }

    fn give_up_if(&mut self, is_lost: impl Fn(&Split) -> bool) {
        for Split { number: split, slot, .. } in self.splits.extract_if(.., |split| is_lost(split)) {
            self.chunk.steps.push((slot, Step::GiveUp { split }));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.catch_up();
        self.give_up();
        // Others may record the splits that the reader has begun ahead of the recorder.
        while let Some(note) = self.notes.next(u64::MAX) {
            if let What::Begin(split) | What::BeginInterleaved { number: split, .. } = note.what {
                self.out.cache.release(split);
            }
        }
        self.chunk.steps.push((0, Step::Finish));
        self.out.push(std::mem::take(&mut self.chunk));
        // This waits for a write under way, and writes at most two chunks, to the system's memory.
        self.out.write();
    }
}

impl Out {
    fn push(&self, chunk: Chunk) {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner).push_back(chunk);
    }

    /// Writes all chunks that wait. A failed write ends the recording and nothing else.
    fn write(&self) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || self.chunks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(chunk) = next() {
            let written = match self.cache.is_closed() {
                true => self.finish(&mut writers),
                false => self.write_chunk(&chunk, &mut writers),
            };
            if let Err(error) = written {
                writers.clear();
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                self.cache.close(&format!("{error}{}", cause.unwrap_or_default()));
            }
        }
    }

    fn write_chunk(&self, chunk: &Chunk, writers: &mut Vec<Option<SegmentWriter>>) -> Result<()> {
        if !self.cache.takes(self.cache.stored_bytes(chunk.ids.len(), chunk.steps.len())) {
            self.finish(writers)?;
            self.cache.close(match self.cache.directory.is_dir() {
                true => "its limit is reached; splits that are not cached are tokenized again",
                false => "its directory is gone",
            });
            return Ok(());
        }
        for (slot, step) in &chunk.steps {
            if writers.len() <= *slot {
                writers.resize_with(slot + 1, || None);
            }
            let writer = &mut writers[*slot];
            match step {
                Step::Document { ids, start, next, text_bytes, skipped } => {
                    let ids = Some(&chunk.ids[ids.clone()]);
                    let (start, next, text_bytes, skipped) = (*start, *next, *text_bytes, *skipped);
                    let (digest, share) = (DELIVERED, 1.0);
                    let document = StoredDocument { ids, start, next, digest, share, text_bytes, skipped };
                    self.begun(writer)?.document(&document)?;
                }
                Step::End { split, skipped } => {
                    let open = self.begun(writer)?;
                    open.split(*split, *skipped)?;
                    if open.len() >= SEGMENT_BYTES {
                        self.finish_one(writer)?;
                    }
                }
                Step::Cut => writer.as_mut().map_or(Ok(()), SegmentWriter::give_up)?,
                Step::GiveUp { split } => {
                    writer.as_mut().map_or(Ok(()), SegmentWriter::give_up)?;
                    self.cache.release(*split);
                }
                Step::Finish => self.finish(writers)?,
            }
        }
        Ok(())
    }

    fn begun<'a>(&self, writer: &'a mut Option<SegmentWriter>) -> Result<&'a mut SegmentWriter> {
        let open = match writer.take() {
            Some(open) => open,
            None => self.cache.segment()?,
        };
        Ok(writer.insert(open))
    }

    /// Finishes all segments.
    fn finish(&self, writers: &mut [Option<SegmentWriter>]) -> Result<(), Error> {
        writers.iter_mut().try_for_each(|writer| self.finish_one(writer))
    }

    /// Finishes a segment, without a split that is not whole.
    fn finish_one(&self, writer: &mut Option<SegmentWriter>) -> Result<(), Error> {
        let Some(writer) = writer.take() else { return Ok(()) };
        self.cache.look()?;
        if writer.splits().all(|split| self.cache.tokens(split).is_some()) {
            // Another process was faster.
            return Ok(());
        }
        let path = writer.finish()?;
        if let Some(path) = path {
            self.cache.add(&path);
        }
        Ok(())
    }
}
