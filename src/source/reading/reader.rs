//! One lane's reading, one slab at a time, without any waiting.
//!
//! A [`Reader`] stands at a cursor. Each [`step`](Reader::step) reads one slab from there: the rest of a split, a part
//! of it, or many small splits. The documents that end in the slab leave as one group. The beginning of the last
//! document is read again with the next slab, so nothing is held between steps, and every document is in one piece.
//! Only a document longer than a slab, or far longer than its split, is held while it grows, up to the bound on
//! documents.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cached::{self, CachedTokens};
use super::framed::Begun;
use super::group::{Group, GroupEnd, Grouper};
use super::resume;
use super::split_recorder::SplitRecorder;
use super::stored;
use super::upcoming::Upcoming;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::shards::{LaneCounts, StoredSplit};
use crate::source::catalog::corpus::Corpus;
use crate::source::catalog::deal::deal;
use crate::source::formats::Opened;
use crate::source::framing::Boundary;
use crate::source::lane::Lane;
use crate::source::split::{DealtSplit, Split};
use crate::store::FileOpener;

mod interleaved;
mod scattered;
mod text;
mod tokens;

use interleaved::Interleaved;
use scattered::Scattered;

/// The most splits in one slab: opening empty files takes time too.
const GROUP_SPLITS: usize = 512;

/// How many epochs in a row of an endless lane may be empty. Another deal may bring documents that are neither held out
/// nor bad, but so many empty epochs are a mistake.
const MOST_EMPTY_EPOCHS: u32 = 64;

/// The shortest time between two log lines that another epoch of a source begins.
const TELL_APART: Duration = Duration::from_secs(10);

/// Reads one lane.
#[derive(Debug)]
pub(crate) struct Reader {
    grouper: Grouper,
    /// The cached tokens of the splits, and the split recorder of the other splits.
    cached: Option<CachedTokens>,
    split_recorder: SplitRecorder,
    lane: Lane,
    /// The numbers of the splits that are dealt to the lanes.
    splits: Range<u32>,
    opener: FileOpener,
    slab_bytes: usize,
    at: LaneCursor,
    /// The splits of epoch `dealt`.
    deal: Vec<u32>,
    dealt: Option<u64>,
    /// How many documents there were when this epoch began; `None` if it began before this reader.
    epoch_began: Option<u64>,
    /// How many epochs in a row were empty.
    empty_epochs: u32,
    /// When the log last said that an epoch begins.
    told: Option<Instant>,
    /// The file that was read last, and its number.
    open: Option<(u32, Opened)>,
    /// The tokens that were read last, and the number of their split.
    open_tokens: Option<(u32, StoredSplit)>,
    begun: Option<Begun>,
    /// The splits that are read side by side, if there are several.
    interleaved: Option<Interleaved>,
    /// The order of the epoch, if all documents are shuffled together.
    scattered: Option<Scattered>,
    /// How many steps have read splits side by side, and how many documents of text the last of them found.
    steps: u32,
    framed: usize,
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
        let is_start = at.split == 0 && at.byte == 0;
        Self {
            grouper,
            cached: None,
            split_recorder: SplitRecorder::default(),
            lane,
            splits,
            opener,
            slab_bytes,
            at,
            deal: Vec::new(),
            dealt: None,
            epoch_began: is_start.then_some(at.documents),
            empty_epochs: 0,
            told: None,
            open: None,
            open_tokens: None,
            begun: None,
            interleaved: None,
            scattered: None,
            steps: 0,
            framed: 0,
        }
    }

    /// Reads cached tokens where there are some, and tells the split recorder which splits it reads as text.
    pub(crate) fn with_cached(self, cached: Option<CachedTokens>, split_recorder: SplitRecorder) -> Self {
        Self { cached, split_recorder, ..self }
    }

    /// Whether a document has been read in part, so that reading must go on whatever the budget.
    pub(crate) fn is_within_document(&self) -> bool {
        self.begun.is_some()
    }

    /// Reads one slab. `lease` covers its text and ids. The group may be empty.
    pub(crate) fn step(&mut self, lease: Lease) -> Group {
        let group = match self.begun.take() {
            Some(begun) if self.interleaved.is_some() => self.go_on_interleaved(begun, lease),
            Some(begun) => self.go_on(begun, lease),
            None => self.read(lease),
        };
        group.unwrap_or_else(|error| Group::empty(GroupEnd::Failed(error)))
    }

    /// How many documents of this epoch have been skipped.
    pub(crate) fn skipped(&self) -> u64 {
        self.at.skipped
    }

    fn corpus(&self) -> &Arc<Corpus> {
        &self.grouper.corpus
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

    /// Moves to the next split that has not been read to its end. Returns false if the lane ends.
    fn find_split(&mut self) -> Result<bool> {
        loop {
            let Lane { lane, lanes, seed, shuffle_splits, epochs, .. } = self.lane;
            if epochs.is_some_and(|epochs| self.at.epoch >= epochs) {
                return Ok(false);
            }
            if self.dealt != Some(self.at.epoch) {
                let is_start = self.dealt.is_none();
                self.deal = deal(self.splits.clone(), shuffle_splits, seed, self.at.epoch, lane, lanes);
                self.dealt = Some(self.at.epoch);
                // The first epoch of a run is not news, and all lanes begin an epoch at about the same time.
                if lane == 0 && self.at.epoch > 0 && (self.at.split, self.at.byte) == (0, 0) {
                    self.tell_epoch();
                }
                tracing::debug!(lane, epoch = self.at.epoch, splits = self.deal.len(), "splits are dealt");
                if is_start {
                    self.plan()?;
                    self.check_start()?;
                }
            }
            if self.deal.is_empty() {
                return Ok(false);
            }
            match self.split_at(self.at.split) {
                Some(_) if self.is_interleaved() => return Ok(true),
                Some(split) if self.at.byte > 0 && self.at.byte >= split.end => self.leave_split(),
                Some(_) => return Ok(true),
                None => self.leave_epoch()?,
            }
        }
    }

    /// Whether splits are read side by side.
    fn is_interleaved(&self) -> bool {
        self.lane.interleave > 1
    }

    /// Plans the lane's reads in the opener, if the opener plans ahead.
    fn plan(&mut self) -> Result<()> {
        if !self.opener.is_planned() {
            return Ok(());
        }
        let corpus = self.corpus().clone();
        let (lane, cached) = (self.lane, self.cached.clone());
        let upcoming = Upcoming::new(corpus, lane, self.splits.clone(), self.slab_bytes, self.at, cached);
        self.opener.plan(upcoming)
    }

    /// Refuses a start that is not after a document of this lane, or at its beginning.
    fn check_start(&mut self) -> Result<()> {
        let (at, splits) = (self.at, self.deal.len() as u64);
        let Some(split) = self.split_at(at.split) else {
            if at.split == splits && (at.byte, at.line) == (0, 0) {
                return Ok(());
            }
            let (split, lane) = (at.split, self.lane.lane);
            return Err(Error::resume(format!("split {split} of lane {lane}, which has {splits}")));
        };
        let boundary = Boundary { byte: at.byte, line: at.line };
        let stored = self.tokens_at(at.split)?.map(|tokens| (stored::problem(&tokens, boundary), tokens));
        let problem = match stored {
            Some((Err(error), tokens)) => {
                cached::give_up(self.cached.as_ref(), &tokens, error)?;
                self.problem_in_file(split, boundary)?
            }
            Some((problem, _)) => problem?,
            None => self.problem_in_file(split, boundary)?,
        };
        let Some(problem) = problem else { return Ok(()) };
        let file = &self.corpus().files[split.file as usize];
        Err(Error::resume(format!("{} ({} {}): {problem}", file.location, file.unit, at.byte)))
    }

    /// The problem of a place in a split's file, if any.
    fn problem_in_file(&mut self, split: Split, boundary: Boundary) -> Result<Option<String>> {
        Ok(match self.opened(split.file)? {
            Opened::Text(content, shape) => resume::problem(boundary, split, *shape, |from, n| {
                let mut bytes = Vec::new();
                content.read(from, n, &mut bytes)?;
                Ok(bytes)
            })?,
            Opened::Records(records) => records.problem(boundary.byte)?,
        })
    }

    /// Reads the next slab, in the way that the next split needs.
    fn read(&mut self, lease: Lease) -> Result<Group> {
        if self.lane.shuffle_global {
            self.read_scattered(&lease)
        } else if !self.find_split()? {
            Ok(Group::empty(GroupEnd::End))
        } else if self.is_interleaved() {
            self.read_interleaved(lease)
        } else if self.has_tokens(self.at.split) {
            self.read_stored(lease)
        } else {
            self.read_text(lease)
        }
    }

    fn leave_split(&mut self) {
        self.leave_text(self.at.split, LaneCounts::from(&self.at));
        self.at.split += 1;
        (self.at.byte, self.at.line) = (0, 0);
    }

    fn leave_epoch(&mut self) -> Result<()> {
        let empty = self.epoch_began == Some(self.at.documents);
        self.empty_epochs = if empty { self.empty_epochs + 1 } else { 0 };
        if self.lane.epochs.is_none() && self.empty_epochs == MOST_EMPTY_EPOCHS {
            let (lane, lanes) = (self.lane.lane, self.lane.lanes);
            let read = match &self.scattered {
                Some(scattered) => format!("{} documents", scattered.len()),
                None => format!("{} splits", self.deal.len()),
            };
            let problem = format!(
                "{MOST_EMPTY_EPOCHS} whole epochs of lane {lane} of {lanes} ({read}) gave no document; look at \
                 the files, pipeline.holdout and what was skipped, or set fewer pipeline.lanes"
            );
            return Err(Error::Corpus { problem });
        }
        self.split_recorder.ends_epoch(LaneCounts::from(&self.at));
        self.at.epoch += 1;
        (self.at.split, self.at.byte, self.at.line, self.at.skipped) = (0, 0, 0, 0);
        self.epoch_began = Some(self.at.documents);
        Ok(())
    }

    /// The lane's split `ordinal` of this epoch.
    fn split_at(&self, ordinal: u64) -> Option<Split> {
        let number = *self.deal.get(ordinal as usize)?;
        Some(self.corpus().split(number))
    }

    /// The same, with its ordinal.
    fn dealt(&self, ordinal: u64) -> Option<DealtSplit> {
        Some(DealtSplit { ordinal, split: self.split_at(ordinal)? })
    }

    fn move_to(&mut self, ordinal: u64, boundary: Boundary) {
        (self.at.split, self.at.byte, self.at.line) = (ordinal, boundary.byte, boundary.line);
    }

    /// Moves to `next` in split `ordinal`; if there is none, to the split after it.
    fn go_to(&mut self, ordinal: u64, next: Option<Boundary>) {
        match next {
            Some(boundary) => self.move_to(ordinal, boundary),
            None => self.move_to(ordinal + 1, Boundary::default()),
        }
    }
}
