//! Records the ids of whole splits, from a lane's tokenized documents, into segments.
//!
//! Ids are held until they are worth a write, and are written on a blocking thread, one write at a time. Held
//! in memory for each lane and source: two chunks of 64 Ki ids, and a group of documents or of a longer
//! document's ids; for each split that is read beside others, also some 130 KiB of its segment.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;

use super::TokenCache;
use crate::document::{CarriedColumns, Mask, SplitEvent};
use crate::error::{Error, Result};
use crate::segment::{Boundary, NOTE, SEGMENT_BYTES, SegmentWriter, StoredDocument, StoredText};
use crate::threads::lock;

/// How many ids, or documents, are worth a write.
const CHUNK_IDS: usize = 64 << 10;
const CHUNK_STEPS: usize = 4 << 10;

/// Records one lane of one source. Dropping it writes the whole splits.
#[derive(Debug)]
pub(crate) struct Recorder {
    out: Arc<Out>,
    /// The splits that are being recorded: one, or those that are read side by side.
    splits: Vec<Split>,
    chunk: Chunk,
    /// Whether a split was recorded since a segment was last finished.
    has_more: bool,
    job: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
struct Split {
    /// Its number in its source, and its ordinal in the lane.
    number: u32,
    ordinal: u64,
    /// Which segment it goes to.
    slot: usize,
    /// Whether all of its documents have ids so far.
    is_whole: bool,
}

/// Steps that are to be written.
#[derive(Debug, Default)]
struct Chunk {
    ids: Vec<u32>,
    /// How many notes the documents have, in units.
    notes: usize,
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
        mask: Mask,
        columns: Option<Vec<u8>>,
        start: Boundary,
        text: StoredText,
    },
    End {
        split: u32,
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
    /// Makes a recorder of a lane.
    pub(crate) fn new(cache: Arc<TokenCache>) -> Self {
        let out = Out { cache, chunks: Mutex::default(), writers: Mutex::default() };
        Self { out: Arc::new(out), splits: Vec::new(), chunk: Chunk::default(), has_more: false, job: None }
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

    /// Takes the next document of the lane: the ordinal of its split, a function that appends its ids with nothing around
    /// them, its mask in places of these ids, its columns, where it begins, and what is known of its text.
    pub(crate) fn document(
        &mut self,
        split: u64,
        append_ids: impl FnOnce(&mut Vec<u32>),
        mask: Mask,
        columns: &CarriedColumns,
        start: Boundary,
        text: StoredText,
    ) {
        let Some(&mut Split { slot, .. }) = self.recorded(split) else { return };
        let at = self.chunk.ids.len();
        append_ids(&mut self.chunk.ids);
        let ids = at..self.chunk.ids.len();
        let columns = columns.as_ref().map(|columns| columns.store());
        let of_columns = columns.as_ref().map_or(0, |bytes| 1 + bytes.len().div_ceil(NOTE));
        self.chunk.notes += mask.masked().len() + of_columns;
        self.chunk.steps.push((slot, Step::Document { ids, mask, columns, start, text }));
    }

    /// Notes that the tokenizer refused a document of a split. Each epoch must report it, so the split is not cached.
    pub(crate) fn refused(&mut self, split: u64) {
        if let Some(split) = self.recorded(split) {
            split.is_whole = false;
        }
    }

    /// Takes what happens after the documents so far.
    pub(crate) fn event(&mut self, event: SplitEvent) {
        match event {
            SplitEvent::Begin { split: ordinal, number } => {
                if self.out.cache.claim(number) {
                    let is_free = |slot: &usize| self.splits.iter().all(|split| split.slot != *slot);
                    let slot = (0..).find(is_free).unwrap_or_default();
                    self.splits.push(Split { number, ordinal, slot, is_whole: true });
                }
            }
            SplitEvent::Skip { split, start } => self.without_ids(split, start, StoredText::Skipped),
            SplitEvent::LeftOut { split, start } => self.without_ids(split, start, StoredText::LeftOut),
            SplitEvent::End { split: ordinal } => {
                let Some(at) = self.splits.iter().position(|split| split.ordinal == ordinal) else { return };
                let Split { number: split, slot, is_whole, .. } = self.splits.swap_remove(at);
                self.has_more |= is_whole;
                self.chunk.steps.push((slot, if is_whole { Step::End { split } } else { Step::Cut }));
            }
            SplitEvent::EpochEnd => {
                self.give_up();
                if std::mem::take(&mut self.has_more) {
                    self.chunk.steps.push((0, Step::Finish));
                }
            }
        }
    }

    fn without_ids(&mut self, split: u64, start: Boundary, text: StoredText) {
        self.document(split, |_| {}, Mask::default(), &None, start, text);
    }

    fn recorded(&mut self, ordinal: u64) -> Option<&mut Split> {
        self.splits.iter_mut().find(|split| split.ordinal == ordinal)
    }

    fn give_up(&mut self) {
        for Split { number: split, slot, .. } in self.splits.drain(..) {
            self.chunk.steps.push((slot, Step::GiveUp { split }));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.give_up();
        self.chunk.steps.push((0, Step::Finish));
        self.out.push(std::mem::take(&mut self.chunk));
        // This waits for a write under way, and writes at most two chunks, to the system's memory.
        self.out.write();
    }
}

impl Out {
    fn push(&self, chunk: Chunk) {
        lock(&self.chunks).push_back(chunk);
    }

    /// Writes all chunks that wait. A failed write ends the recording and nothing else.
    fn write(&self) {
        let mut writers = lock(&self.writers);
        let next = || lock(&self.chunks).pop_front();
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
        let bytes = self.cache.stored_bytes(chunk.ids.len(), chunk.steps.len(), chunk.notes);
        if !self.cache.takes(bytes) {
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
                Step::Document { ids, mask, columns, start, text } => {
                    self.begun(writer)?.document(StoredDocument {
                        ids: &chunk.ids[ids.clone()],
                        masked: mask.masked(),
                        columns: columns.as_deref(),
                        ..StoredDocument::without_ids(*start, *text)
                    })?;
                }
                Step::End { split } => {
                    let open = self.begun(writer)?;
                    open.split(*split)?;
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
