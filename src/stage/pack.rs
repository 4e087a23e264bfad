//! Ids in, sequences out.
//!
//! Held in memory: the parts of one sequence; with `best_fit`, about two windows of documents. The cursor
//! costs one number, whose meaning depends on the packer.
//!
//! A document with a mask, such as a conversation, is never cut but by `concat`: who reads a row from the middle of one
//! does not know what was asked. The stages before make such documents fit; one that does not is left out here.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use futures::Stream;

use super::input::Input;
use super::left_behind::LeftBehind;
use crate::config::{PackRule, Packing};
use crate::cursor::{LaneCursor, LeftOut, Omitted, SourceLedger, Tracked};
use crate::document::{Sequence, Tokens, label};
use crate::error::Result;
use crate::meter::{Meter, Sample, stage_span};

mod best_fit;
mod bins;
mod cut;

use best_fit::BestFit;
use cut::Cutter;

/// A document that fills this many rows is too long to be held whole while one part of it waits.
const LONG_DOCUMENT: usize = 16;

/// After how many epochs of which nothing came an endless stream ends with an error.
pub(crate) const MOST_SILENT_EPOCHS: u64 = 1024;

/// The stage of [`StageExt::pack`](super::StageExt::pack).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Pack<S> {
    tokens: Input<S, Tracked<Tokens>>,
    packer: Box<dyn Packer>,
    rule: PackRule,
    seq_len: usize,
    /// Whether it was said what becomes of documents that have a mask.
    has_told: Arc<AtomicBool>,
    meter: Arc<Meter>,
    sample: Sample,
    /// Documents that were read but not counted yet.
    documents: u64,
    /// Whether epochs follow without end.
    is_endless: bool,
    /// The epoch of the first document that was left out since the last one that was not.
    silent_since: Option<u64>,
    left_behind: LeftBehind,
    /// The column by whose values the ledger counts.
    ledger_by: Option<Arc<str>>,
    /// Documents that the source had skipped at its end, as it says itself.
    skipped_at_end: Arc<AtomicU64>,
}

/// Packing without its stream.
trait Packer: Debug + Send {
    /// How many documents to push before the next sequence is popped, if the stream has that many.
    fn room(&self) -> usize;

    /// Takes a document that has ids.
    ///
    /// # Errors
    /// [`Error::Resume`](crate::Error::Resume) if the cursor that packing resumes at cannot be true of the document.
    fn push(&mut self, tokens: Tracked<Tokens>) -> Result<()>;

    /// Takes a document that is left out, without its ids, and what the ledger counts of it.
    ///
    /// # Errors
    /// As of [`push`](Self::push).
    fn leave_out(&mut self, tokens: Tracked<Tokens>, ledger: Omitted) -> Result<()>;

    /// Whether the next `pop` has a sequence to make, so that its time is worth measuring.
    fn is_due(&self) -> bool;

    /// Says that no document follows.
    fn finish(&mut self);

    /// The next sequence; `None` if it needs more documents or there is no more.
    ///
    /// # Errors
    /// [`Error::Resume`](crate::Error::Resume) if the cursor that packing resumes at cannot be true of the documents.
    fn pop(&mut self) -> Result<Option<Tracked<Sequence>>>;

    /// What was left out since the last sequence.
    fn left_out(&self) -> Omitted;

    /// The cursor after the last document that was taken.
    fn end(&self) -> LaneCursor;
}

impl<S> Pack<S>
where
    S: Stream<Item = Result<Tracked<Tokens>>>,
{
    pub(super) fn new(tokens: S, packing: &Packing, start: &LaneCursor) -> Self {
        assert!(packing.seq_len > 0 && packing.ahead > 0, "a sequence of no targets");
        assert!(packing.max_segments != Some(0), "a sequence of no documents");
        assert!(packing.window > 0, "a window of no documents");
        let (packer, sample): (Box<dyn Packer>, _) = match packing.mode {
            PackRule::Concat | PackRule::Pad => (Box::new(Cutter::new(packing, start)), Sample::seventh()),
            PackRule::BestFit => (Box::new(BestFit::new(packing, start)), Sample::all()),
        };
        Self {
            tokens: Input::new(tokens),
            packer,
            rule: packing.mode,
            seq_len: packing.seq_len,
            has_told: Arc::default(),
            meter: Meter::new("pack"),
            sample,
            documents: 0,
            is_endless: true,
            silent_since: None,
            left_behind: LeftBehind::default(),
            ledger_by: None,
            skipped_at_end: Arc::default(),
        }
    }

    /// Counts in `meter`, which other lanes may share.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = meter;
        self
    }

    /// Puts what is left out behind the last row into `left_behind`, once the stream has ended.
    pub(crate) fn leaving_behind(mut self, left_behind: LeftBehind) -> Self {
        self.left_behind = left_behind;
        self
    }

    /// Counts documents that the source skips behind the last one that it gives: it puts all that it has skipped into
    /// `skipped` before it ends.
    pub(crate) fn with_skipped_at_end(mut self, skipped: Arc<AtomicU64>) -> Self {
        self.skipped_at_end = skipped;
        self
    }

    /// Says whether the stream has so many epochs, or epochs without end. One without end of which nothing fits a row ends
    /// with an error.
    pub(crate) fn with_epochs(mut self, epochs: Option<u64>) -> Self {
        self.is_endless = epochs.is_none();
        self
    }

    /// Counts what is left out by the values of a column, too.
    pub(crate) fn counting_by(mut self, column: Option<&str>) -> Self {
        self.ledger_by = column.map(Arc::from);
        self
    }

    /// Says only once, for all lanes that share `has_told`, what becomes of documents that have a mask.
    pub(crate) fn telling_once(mut self, has_told: Arc<AtomicBool>) -> Self {
        self.has_told = has_told;
        self
    }
}

impl<S> Pack<S> {
    /// Gives the packer a document that may have to be left out: it is if it has no ids, or if it has a mask and would be
    /// cut.
    ///
    /// # Errors
    /// [`Error::Document`](crate::Error::Document) if nothing says which of its ids are learned from, or if an endless
    /// stream had nothing but such documents for [`MOST_SILENT_EPOCHS`], and those of [`Packer::push`].
    #[inline(never)]
    fn push_or_leave_out(&mut self, tokens: Tracked<Tokens>) -> Result<()> {
        let none = SourceLedger::default();
        let ledger = match tokens.value.len() as u64 {
            0 => Omitted::of(None, SourceLedger { skipped: 1, ..none }),
            _ if self.admits(&tokens.value)? => return self.push(tokens),
            ids => {
                let value = self.ledger_by.as_deref().map(|column| label(tokens.value.column(column)));
                let cut = LeftOut { documents: 1, ids };
                Omitted::of(value.as_deref(), SourceLedger { cut, ..none })
            }
        };
        let epoch = tokens.cursor.epoch;
        let silent = epoch.saturating_sub(*self.silent_since.get_or_insert(epoch));
        if self.is_endless && silent >= MOST_SILENT_EPOCHS {
            let (why, remedy) = match tokens.value.is_empty() {
                true => ("have no ids", "look at what the tokenizer makes of them, and at what was skipped"),
                false => {
                    ("are longer than a row", "raise pipeline.seq_len, or set pipeline.pack = \"concat\"")
                }
            };
            let problem =
                format!("it and all other documents of {MOST_SILENT_EPOCHS} epochs of its lane {why}");
            return Err(tokens.value.error(problem, remedy));
        }
        self.packer.leave_out(tokens.map(Tokens::without_ids), ledger)
    }

    /// Gives the packer a document that has ids.
    fn push(&mut self, tokens: Tracked<Tokens>) -> Result<()> {
        self.silent_since = None;
        self.packer.push(tokens)
    }

    /// Whether a document that has ids is packed.
    fn admits(&self, document: &Tokens) -> Result<bool> {
        if document.is_mask_lost() {
            return Err(document.error(
                "only some of its ids were learned from; it has others now, and nothing says which of them are",
                "give it a mask where its ids are changed, with Tokens::with_mask",
            ));
        }
        if !document.is_masked() {
            return Ok(true);
        }
        if self.rule == PackRule::Concat {
            if !self.has_told.swap(true, Relaxed) {
                tracing::warn!(
                    "pack = \"concat\" begins and ends rows within conversations; set pipeline.pack = \"best_fit\" to keep \
                     each in one row"
                );
            }
            return Ok(true);
        }
        // A row has the targets of so many ids; with `ahead` more than 1 it is wider, but the next one begins there.
        let most = self.seq_len + 1;
        if document.len() <= most {
            return Ok(true);
        }
        let reason = "it has a mask and more ids than a row, and only pack = \"concat\" cuts such documents";
        self.meter.skip(true, reason, |reason| document.skipped(reason));
        Ok(false)
    }
}

impl<S> Pack<S>
where
    S: Stream<Item = Result<Tracked<Tokens>>> + Unpin,
{
    /// Pushes as many documents as the packer has room for.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        for _ in 0..self.packer.room() {
            match ready!(self.tokens.poll_next(cx)) {
                Some(tokens) => {
                    self.documents += 1;
                    match tokens.value.is_plain() && !tokens.value.is_empty() {
                        true => self.push(tokens)?,
                        false => self.push_or_leave_out(tokens)?,
                    }
                }
                // A sequence that is not whole is not delivered. No delivered cursor includes it, so a resume makes it.
                None if self.tokens.has_failed() => break,
                None => {
                    self.packer.finish();
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> Stream for Pack<S>
where
    S: Stream<Item = Result<Tracked<Tokens>>> + Unpin,
{
    type Item = Result<Tracked<Sequence>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.tokens.is_over() {
            return Poll::Ready(None);
        }
        loop {
            let waits = match this.fill(cx) {
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(error)) => return this.tokens.end(Some(error)),
                Poll::Pending => true,
            };
            // Adding one more document is not worth reading a clock.
            let work =
                this.packer.is_due().then(|| (stage_span!("pack", "work").entered(), this.sample.begin()));
            let popped = this.packer.pop();
            this.meter.add_sample(work.and_then(|(_, began)| began));
            match popped {
                Ok(Some(sequence)) => {
                    let targets = sequence.value.len().saturating_sub(1).min(this.seq_len);
                    this.meter.count(std::mem::take(&mut this.documents), targets as u64, 0);
                    return Poll::Ready(Some(Ok(sequence)));
                }
                Ok(None) if waits => return Poll::Pending,
                Ok(None) if !this.tokens.is_open() => {
                    if !this.tokens.has_failed() {
                        let skipped = this.packer.end().all_skipped().max(this.skipped_at_end.load(Relaxed));
                        let mut behind = this.left_behind.lock();
                        (behind.left_out, behind.skipped) = (this.packer.left_out(), skipped);
                    }
                    return this.tokens.end(None);
                }
                Ok(None) => {}
                Err(error) => return this.tokens.end(Some(error)),
            }
        }
    }
}
