//! One lane's reading, one slab at a time, without any waiting.
//!
//! A [`Reader`] goes through the lane's splits of an epoch in groups: the splits of a group are read side by side, and a
//! group may be one split. Each [`step`](Reader::step) reads one slab from the open group, or from several groups if
//! they are small. The documents that end in the slab leave in one order. The beginning of the last document of each
//! split is read again with the next slab, so nothing is held between steps, and every document is in one piece. Only a
//! document longer than a slab is held while it grows, up to the bound on documents.
//!
//! A cursor names the last document that was delivered. Since documents of a group come in the order of their places, it
//! tells for each split of the group where reading goes on: a resume seeks there. All documents of a record come in one
//! step. If a cursor names one of them that is not the last, the record is read again, and the first ones are dropped.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::framed::Begun;
use super::group::{Group, GroupEnd};
use super::grouper::Grouper;
use super::upcoming::Upcoming;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::shards::TokenCache;
use crate::source::catalog::corpus::Corpus;
use crate::source::formats::Opened;
use crate::source::interleave::{self, DocumentKey};
use crate::source::lane::Lane;
use crate::store::FileOpener;

mod open_group;
mod scattered;

use open_group::OpenGroup;
use scattered::Scattered;

/// The most splits in one slab: opening empty files takes time too.
const GROUP_SPLITS: usize = 512;

/// The least that a step reads, in bytes.
const LEAST_STEP: usize = 4;

/// How many epochs in a row of an endless lane may be empty. Another deal may bring documents that are neither held out
/// nor bad, but so many empty epochs are a mistake.
const MOST_EMPTY_EPOCHS: u32 = 64;
/// The same if no record has a field that `where` names: other records would have to.
const MOST_WITHOUT_FIELD: u32 = 8;

/// The shortest time between two log lines that another epoch of a source begins.
const TELL_APART: Duration = Duration::from_secs(10);

/// Reads one lane.
#[derive(Debug)]
pub(crate) struct Reader {
    grouper: Grouper,
    /// The cached tokens of the splits, by their numbers from the first one on.
    cache: Option<Arc<TokenCache>>,
    lane: Lane,
    /// The numbers of the splits that are dealt to the lanes.
    splits: Range<u32>,
    opener: FileOpener,
    slab_bytes: usize,
    /// The epoch, and the counts of documents.
    at: LaneCursor,
    /// Gets the count of those that were skipped when the lane ends.
    skipped: Arc<AtomicU64>,
    /// The splits of epoch `dealt`.
    deal: Vec<u32>,
    dealt: Option<u64>,
    /// The ordinal of the split that is opened next.
    next: u64,
    /// The last document that was delivered before this reader, until its group is open.
    passed: Option<DocumentKey>,
    group: Option<OpenGroup>,
    /// The file of the last split, if it was read alone, and its number: the next split may be in it too.
    last: Option<(u32, Opened)>,
    begun: Option<Begun>,
    /// How many documents there were when this epoch began; `None` if it began before this reader.
    epoch_began: Option<u64>,
    /// Whether an epoch has ended since the last step.
    epoch_ended: bool,
    /// How many epochs in a row were empty.
    empty_epochs: u32,
    /// When the log last said that an epoch begins.
    told: Option<Instant>,
    /// The order of the epoch, if all documents are shuffled together.
    scattered: Option<Scattered>,
    /// How many steps there were, how many records of text the last of them found, and how many times as long their texts
    /// are.
    steps: u32,
    framed: usize,
    growth: usize,
}

impl Reader {
    pub(crate) fn new(
        grouper: Grouper,
        lane: Lane,
        splits: Range<u32>,
        opener: FileOpener,
        slab_bytes: usize,
        start: &LaneCursor,
    ) -> Self {
        let at = start.upstream(0);
        Self {
            grouper,
            cache: None,
            lane,
            splits,
            opener,
            slab_bytes,
            at,
            skipped: Arc::default(),
            deal: Vec::new(),
            dealt: None,
            next: 0,
            passed: None,
            group: None,
            last: None,
            begun: None,
            epoch_began: (at.documents == 0).then_some(0),
            epoch_ended: false,
            empty_epochs: 0,
            told: None,
            scattered: None,
            steps: 0,
            framed: 0,
            growth: 1,
        }
    }

    /// Reads cached tokens where there are some.
    pub(crate) fn with_cache(self, cache: Option<Arc<TokenCache>>) -> Self {
        Self { cache, ..self }
    }

    /// Puts how many documents were skipped in all into `skipped` when the lane ends.
    pub(crate) fn telling_skipped(self, skipped: Arc<AtomicU64>) -> Self {
        Self { skipped, ..self }
    }

    /// Whether a document has been read in part, so that reading must go on whatever the budget.
    pub(crate) fn is_within_document(&self) -> bool {
        self.begun.is_some()
    }

    /// Reads one slab. `lease` covers its text and ids. The group may be empty.
    pub(crate) fn step(&mut self, lease: Lease) -> Group {
        let group = match self.begun.take() {
            Some(begun) => self.go_on(begun, lease),
            None => self.read(lease),
        };
        group.unwrap_or_else(|error| Group::empty(GroupEnd::Failed(error)))
    }

    /// How much a step reads: less than a slab if texts are longer than their records.
    fn step_bytes(&self) -> usize {
        (self.slab_bytes / self.growth).max(LEAST_STEP)
    }

    fn corpus(&self) -> &Arc<Corpus> {
        &self.grouper.corpus
    }

    /// Reads the next slab: documents from anywhere, or from the next splits.
    fn read(&mut self, lease: Lease) -> Result<Group> {
        if self.lane.shuffle_global {
            return self.read_scattered(&lease);
        }
        match self.find_split()? {
            true => self.read_splits(lease),
            false => Ok(self.end()),
        }
    }

    /// The end of the lane.
    fn end(&self) -> Group {
        self.skipped.store(self.at.all_skipped(), Relaxed);
        if let (0, 0, Some(problem)) = (self.at.documents, self.lane.lane, self.without_field())
            && self.grouper.logs
        {
            tracing::warn!("{problem}");
        }
        Group::empty(GroupEnd::End)
    }

    /// The problem that no record so far has a field that `where` names.
    fn without_field(&self) -> Option<String> {
        let (corpus, first) = (self.corpus(), self.splits.clone().next()?);
        let field = *corpus.format(corpus.split(first).file).carried.unseen().first()?;
        Some(format!(
            "no record of source {} has the field {field:?} that its where names; correct the name; a text stands in \
             single quotes",
            corpus.source_name(first)
        ))
    }

    /// Logs that an epoch begins. A small source has many, and most are not logged.
    fn tell_epoch(&mut self) {
        let epoch = self.at.epoch;
        if self.told.is_some_and(|told| told.elapsed() < TELL_APART) {
            tracing::debug!(epoch, "epoch begins");
            return;
        }
        self.told = Some(Instant::now());
        let source = self.corpus().source_name(self.splits.start);
        tracing::info!(%source, epoch, "epoch begins");
    }

    /// Finds the next split to read, in this epoch or a later one. Returns false if the lane ends.
    fn find_split(&mut self) -> Result<bool> {
        loop {
            let Lane { lane, epochs, .. } = self.lane;
            if epochs.is_some_and(|epochs| self.at.epoch >= epochs) {
                return Ok(false);
            }
            if self.dealt != Some(self.at.epoch) {
                let is_start = self.dealt.is_none();
                self.deal = self.lane.deal(self.splits.clone(), self.at.epoch);
                self.dealt = Some(self.at.epoch);
                // The first epoch of a run is not news, and all lanes begin an epoch at about the same time.
                if lane == 0 && self.at.epoch > 0 && !is_start {
                    self.tell_epoch();
                }
                tracing::debug!(lane, epoch = self.at.epoch, splits = self.deal.len(), "splits are dealt");
                if is_start {
                    self.begin()?;
                }
            }
            if self.deal.is_empty() {
                return Ok(false);
            }
            if self.group.is_some() || (self.next as usize) < self.deal.len() {
                return Ok(true);
            }
            self.leave_epoch()?;
        }
    }

    /// Begins after the document that the start names.
    fn begin(&mut self) -> Result<()> {
        if self.at.documents > 0 {
            let LaneCursor { split, byte, sample, .. } = self.at;
            let Some(&number) = self.deal.get(split as usize) else {
                let (lane, splits) = (self.lane.lane, self.deal.len());
                return Err(Error::resume(format!("split {split} of lane {lane}, which has {splits}")));
            };
            let record = self.corpus().scale(number).key(split, byte);
            self.passed = Some(match sample {
                0 => record,
                sample => DocumentKey { sample, ..record },
            });
            self.next = interleave::group(self.deal.len() as u64, self.lane.interleave, split).start;
        }
        if !self.opener.is_planned() {
            return Ok(());
        }
        let (corpus, cache) = (self.corpus().clone(), self.cache.clone());
        let (splits, epoch) = (self.splits.clone(), self.at.epoch);
        self.opener.plan(Upcoming::new(corpus, self.lane, splits, self.slab_bytes, epoch, self.passed, cache))
    }

    fn leave_epoch(&mut self) -> Result<()> {
        let empty = self.epoch_began == Some(self.at.documents);
        self.empty_epochs = if empty { self.empty_epochs + 1 } else { 0 };
        if self.lane.epochs.is_none()
            && self.empty_epochs == MOST_WITHOUT_FIELD
            && let Some(problem) = self.without_field()
        {
            return Err(Error::Corpus { problem });
        }
        if self.lane.epochs.is_none() && self.empty_epochs == MOST_EMPTY_EPOCHS {
            let (lane, lanes) = (self.lane.lane, self.lane.lanes);
            let read = match &self.scattered {
                Some(scattered) => format!("{} documents", scattered.len()),
                None => format!("{} splits", self.deal.len()),
            };
            let problem = format!(
                "{MOST_EMPTY_EPOCHS} whole epochs of lane {lane} of {lanes} ({read}) of source {} gave no document; look \
                 at the files, source.where, mixture.weights, pipeline.holdout and what was skipped, or set fewer \
                 pipeline.lanes",
                self.corpus().source_name(self.splits.start)
            );
            return Err(Error::Corpus { problem });
        }
        if let Some(cache) = &self.cache {
            // Other lanes may have added tokens meanwhile.
            cache.refresh();
        }
        self.epoch_ended = true;
        self.at.epoch += 1;
        self.at.skipped_otherwise += std::mem::take(&mut self.at.skipped);
        self.next = 0;
        self.epoch_began = Some(self.at.documents);
        Ok(())
    }
}
