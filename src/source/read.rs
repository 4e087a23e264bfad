//! One lane's reading, a slab at a time: everything but the waiting.
//!
//! A [`Reader`] stands at a cursor. Each [`step`](Reader::step) reads one slab from there: the rest of a
//! split, or as much of it as fits, or many small ones. The documents that end in it leave as one group, and
//! what is left of the last is read again with the next slab, so that nothing is held between steps, and
//! every document lies in one piece. Only a document longer than a slab, or far longer than its split, is held
//! while it grows, and beyond its bound no more of it than that.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use super::Lane;
use super::cached::Cached;
use super::corpus::{Corpus, Opened};
use super::deal::deal;
use super::framed::{self, Begun, Taken, Whole};
use super::framing::Place;
use super::group::{After, Group, Grouping};
use super::records::Stop;
use super::resume;
use super::split::Split;
use super::stored::{self, Rest};
use super::upcoming::Upcoming;
use super::window::{Piece, Window};
use crate::budget::Lease;
use crate::config::OnError;
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::segment::StoredSplit;
use crate::shards::Counts;
use crate::store::Shelf;

mod side;

use side::Side;

/// How many splits a slab has at most: opening empty files takes time too.
const GROUP_SPLITS: usize = 512;

/// How many epochs of an endless lane may give nothing, one after the other. Another deal may bring documents
/// that are not all held out or bad; so many in a row are a mistake.
const MOST_EMPTY_EPOCHS: u32 = 64;

/// Reads one lane.
#[derive(Debug)]
pub(super) struct Reader {
    grouping: Grouping,
    cached: Option<Cached>,
    lane: Lane,
    /// The numbers of the splits that are dealt to the lanes.
    splits: Range<u32>,
    shelf: Shelf,
    slab_bytes: usize,
    at: LaneCursor,
    /// The splits of epoch `dealt`.
    deal: Vec<u32>,
    dealt: Option<u64>,
    /// How many documents there were when this epoch began, unless it began before this reader.
    epoch_began: Option<u64>,
    /// How many epochs in a row gave nothing.
    empty_epochs: u32,
    /// The file that was read last, and its number.
    open: Option<(u32, Opened)>,
    begun: Option<Begun>,
    /// The splits that are read side by side, if there are several.
    side: Option<Side>,
    /// How many steps were read of splits side by side, and how many documents of text the last of them found.
    steps: u32,
    framed: usize,
}

impl Reader {
    pub(super) fn new(
        grouping: Grouping,
        lane: Lane,
        splits: Range<u32>,
        shelf: Shelf,
        slab_bytes: usize,
        start: &LaneCursor,
    ) -> Self {
        let at = start.upstream(0);
        let is_start = at.split == 0 && at.byte == 0;
        Self {
            grouping,
            cached: None,
            lane,
            splits,
            shelf,
            slab_bytes,
            at,
            deal: Vec::new(),
            dealt: None,
            epoch_began: is_start.then_some(at.documents),
            empty_epochs: 0,
            open: None,
            begun: None,
            side: None,
            steps: 0,
            framed: 0,
        }
    }

    /// Reads the splits whose tokens are kept from there, and says what it reads of the others.
    pub(super) fn with_cached(self, cached: Option<Cached>) -> Self {
        Self { cached, ..self }
    }

    /// Whether a document is read in part, so that reading must go on whatever the budget.
    pub(super) fn is_within_document(&self) -> bool {
        self.begun.is_some()
    }

    /// Reads one slab; `lease` is for its text and ids. The group may have no documents.
    pub(super) fn step(&mut self, lease: Lease) -> Group {
        let group = match self.begun.take() {
            Some(begun) if self.side.is_some() => self.go_on_abreast(begun, lease),
            Some(begun) => self.go_on(begun, lease),
            None => self.read(lease),
        };
        group.unwrap_or_else(|error| Group::empty(After::Failed(error)))
    }

    /// How many documents of this epoch were skipped.
    pub(super) fn skipped(&self) -> u64 {
        self.at.skipped
    }

    fn corpus(&self) -> &Arc<Corpus> {
        &self.grouping.corpus
    }

    /// Moves to the next split that is not read to its end; false if the lane ends there.
    fn find_split(&mut self) -> Result<bool> {
        loop {
            let Lane { lane, lanes, seed, shuffle_splits, epochs, .. } = self.lane;
            if epochs.is_some_and(|epochs| self.at.epoch >= epochs) {
                return Ok(false);
            }
            if self.dealt != Some(self.at.epoch) {
                let is_start = self.dealt.is_none();
                self.deal = deal(self.splits.clone(), shuffle_splits, seed, self.at.epoch, lane, lanes.get());
                self.dealt = Some(self.at.epoch);
                // A run's first epoch is no news, and lanes begin theirs at about the same time.
                if lane == 0 && self.at.epoch > 0 && (self.at.split, self.at.byte) == (0, 0) {
                    tracing::info!(epoch = self.at.epoch, "epoch begins");
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
                Some(_) if self.is_abreast() => return Ok(true),
                Some(split) if self.at.byte > 0 && self.at.byte >= split.end => self.leave_split(),
                Some(_) => return Ok(true),
                None => self.leave_epoch()?,
            }
        }
    }

    /// Whether splits are read side by side.
    fn is_abreast(&self) -> bool {
        self.lane.abreast > NonZeroUsize::MIN
    }

    /// Says what the lane will read, if that is of use.
    fn plan(&mut self) -> Result<()> {
        if !self.shelf.is_planned() {
            return Ok(());
        }
        let corpus = self.corpus().clone();
        let (lane, cached) = (self.lane, self.cached.clone());
        let upcoming = Upcoming::new(corpus, lane, self.splits.clone(), self.slab_bytes, self.at, cached);
        self.shelf.plan(upcoming)
    }

    /// Refuses a start that no document of this lane has behind it.
    fn check_start(&mut self) -> Result<()> {
        let (at, splits) = (self.at, self.deal.len() as u64);
        let Some(split) = self.split_at(at.split) else {
            if at.split == splits && (at.byte, at.line) == (0, 0) {
                return Ok(());
            }
            let (split, lane) = (at.split, self.lane.lane);
            return Err(Error::resume(format!("split {split} of lane {lane}, which has {splits}")));
        };
        let place = (at.byte, at.line);
        let stored = self.tokens_at(at.split).map(|tokens| (stored::problem(&tokens, place), tokens));
        let problem = match stored {
            Some((Err(error), tokens)) => {
                self.forget(&tokens, error)?;
                self.problem_in_file(split, place)?
            }
            Some((problem, _)) => problem?,
            None => self.problem_in_file(split, place)?,
        };
        let Some(problem) = problem else { return Ok(()) };
        let file = &self.corpus().files[split.file as usize];
        Err(Error::resume(format!("{} ({} {}): {problem}", file.path.display(), file.unit, at.byte)))
    }

    /// What is wrong with a place in a split's file, if anything.
    fn problem_in_file(&mut self, split: Split, place: (u64, u64)) -> Result<Option<String>> {
        Ok(match self.opened(split.file)? {
            Opened::Text(content, shape) => resume::problem(place, split, *shape, |from, n| {
                let mut bytes = Vec::new();
                content.read(from, n, &mut bytes)?;
                Ok(bytes)
            })?,
            Opened::Records(records) => records.problem(place.0)?,
        })
    }

    fn leave_split(&mut self) {
        self.leave_text(self.at.split, Counts::from(&self.at));
        self.at.split += 1;
        (self.at.byte, self.at.line) = (0, 0);
    }

    fn leave_epoch(&mut self) -> Result<()> {
        let empty = self.epoch_began == Some(self.at.documents);
        self.empty_epochs = if empty { self.empty_epochs + 1 } else { 0 };
        if self.lane.epochs.is_none() && self.empty_epochs == MOST_EMPTY_EPOCHS {
            let (lane, lanes, splits) = (self.lane.lane, self.lane.lanes, self.deal.len());
            let problem = format!(
                "{MOST_EMPTY_EPOCHS} whole epochs of lane {lane} of {lanes} ({splits} splits) gave no document; look at \
                 the files, pipeline.holdout and what was skipped, or set fewer pipeline.lanes"
            );
            return Err(Error::Corpus { problem });
        }
        if let Some(cached) = &self.cached {
            cached.ends_epoch(Counts::from(&self.at));
        }
        self.at.epoch += 1;
        (self.at.split, self.at.byte, self.at.line, self.at.skipped) = (0, 0, 0, 0);
        self.epoch_began = Some(self.at.documents);
        Ok(())
    }

    /// Reads the next slab and groups the documents that end in it.
    fn read(&mut self, lease: Lease) -> Result<Group> {
        if !self.find_split()? {
            return Ok(Group::empty(After::End));
        }
        if self.is_abreast() {
            return self.read_abreast(lease);
        }
        if self.tokens_at(self.at.split).is_some() {
            return self.read_stored(lease);
        }
        let mut window = Window::default();
        let mut failure = None;
        let mut source = None;
        let mut next = (self.at.split, Place { byte: self.at.byte, line: self.at.line });
        let (first, begun) = (next.0, Counts::from(&self.at));
        self.read_text(first, (next.1 == Place::default()).then_some(begun));
        for _ in 0..GROUP_SPLITS {
            let (ordinal, place) = next;
            let Some(split) = self.split_at(ordinal) else { break };
            let of = self.corpus().files[split.file as usize].source;
            let is_kept = || !window.pieces.is_empty() && self.tokens_at(ordinal).is_some();
            if *source.get_or_insert(of) != of || is_kept() {
                break;
            }
            match self.take(ordinal, split, place, &mut window) {
                Ok(Taken::All | Taken::Beyond(_)) => next = (ordinal + 1, Place::default()),
                Ok(Taken::Nothing) => break,
                Ok(Taken::UpTo(place)) => {
                    next = (ordinal, place);
                    break;
                }
                Ok(Taken::Beginning { framer, read }) => {
                    // Splits before it had no text.
                    let passed: Vec<_> = window.pieces.iter().map(|piece| (piece.ordinal, begun)).collect();
                    self.pass(&passed, ordinal);
                    if ordinal > first {
                        self.read_text(ordinal, Some(begun));
                    }
                    self.move_to((ordinal, framer.start()));
                    self.begun = Some(Begun::new(framer, window.bytes, read, lease));
                    return Ok(Group::empty(After::More));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        window.drop_rest();
        let mut group = self.grouping.group(window, lease, &mut self.at);
        self.pass(&group.passed, next.0);
        self.move_to(next);
        if let (After::More, Some(error)) = (&group.after, failure) {
            group.after = After::Failed(error);
        }
        Ok(group)
    }

    /// Groups the documents of the next splits, whose tokens are stored.
    fn read_stored(&mut self, lease: Lease) -> Result<Group> {
        let mut group = Group::empty(After::More);
        let mut place = Place { byte: self.at.byte, line: self.at.line };
        let mut rest = Rest::new(self.slab_bytes);
        for _ in 0..GROUP_SPLITS {
            let (ordinal, before) = (self.at.split, self.at);
            let (Some(tokens), Some(split)) = (self.tokens_at(ordinal), self.split_at(ordinal)) else {
                break;
            };
            self.shelf.reach((self.at.epoch, ordinal));
            let (room, into) = ((&mut rest, &lease), (&mut self.at, &mut group));
            let next = match stored::take(&self.grouping, &tokens, (ordinal, split), place, room, into) {
                Ok(next) => next,
                Err(error) => {
                    self.forget(&tokens, error)?;
                    self.at = before;
                    group.give_back();
                    break;
                }
            };
            self.move_to(next.map_or((ordinal + 1, Place::default()), |place| (ordinal, place)));
            place = Place::default();
            if next.is_some() {
                break;
            }
        }
        Ok(group)
    }

    /// The stored tokens of the lane's split `ordinal` of this epoch.
    fn tokens_at(&self, ordinal: u64) -> Option<StoredSplit> {
        let number = *self.deal.get(ordinal as usize)?;
        if let Some(tokens) = self.corpus().tokens(number) {
            return Some(tokens.clone());
        }
        let tokens = self.cached.as_ref()?.tokens(number)?;
        let most = self.most_skipped(ordinal);
        // Where too many may have been skipped, the text says which one it is.
        (tokens.skipped() == 0 || self.at.skipped + tokens.skipped() <= most).then_some(tokens)
    }

    /// How many documents an epoch may skip where split `ordinal` is.
    fn most_skipped(&self, ordinal: u64) -> u64 {
        let corpus = self.corpus();
        match self.deal.get(ordinal as usize).map(|&number| corpus.format(corpus.split(number).file).on_error)
        {
            Some(OnError::Skip(most)) => most,
            Some(OnError::Fail) | None => 0,
        }
    }

    /// Reads the text of a split instead of tokens that were kept by the way, and are damaged.
    fn forget(&self, tokens: &StoredSplit, error: Error) -> Result<()> {
        match &self.cached {
            Some(cached) if tokens.is_delivered() => {
                cached.forget(tokens, &error);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Tells the cache that the text of the lane's split `ordinal` is read: from its begin on, if `at` is known.
    fn read_text(&mut self, ordinal: u64, at: Option<Counts>) {
        if let (Some(cached), Some(&number)) = (&mut self.cached, self.deal.get(ordinal as usize)) {
            cached.reads(number, at);
        }
    }

    /// Tells it that this text was read to its end.
    fn leave_text(&mut self, ordinal: u64, at: Counts) {
        if let (Some(cached), Some(&number)) = (&mut self.cached, self.deal.get(ordinal as usize)) {
            cached.leaves(number, at);
        }
    }

    /// Tells it which splits were read, the first of which was begun before, and what was counted up to where each was
    /// left; the last of them goes on if it is `next`.
    fn pass(&mut self, passed: &[(u64, Counts)], next: u64) {
        for (nth, &(ordinal, at)) in passed.iter().enumerate() {
            if nth > 0 {
                self.read_text(ordinal, Some(passed[nth - 1].1));
            }
            if ordinal < next {
                self.leave_text(ordinal, at);
            }
        }
    }

    /// The lane's split `ordinal` of this epoch.
    fn split_at(&self, ordinal: u64) -> Option<Split> {
        let number = *self.deal.get(ordinal as usize)?;
        Some(self.corpus().split(number))
    }

    /// Reads a split from `place` on into the window. Byte 0 stands for the split's start, wherever that is.
    fn take(&mut self, ordinal: u64, split: Split, place: Place, window: &mut Window) -> Result<Taken> {
        let len = self.corpus().files[split.file as usize].len;
        let slab_bytes = self.slab_bytes;
        let room = slab_bytes.saturating_sub(window.bytes.len());
        let reach = framed::reach(split, len, slab_bytes).saturating_sub(place.byte.max(split.begin));
        if !window.pieces.is_empty() && reach > room as u64 {
            return Ok(Taken::Nothing);
        }
        self.shelf.reach((self.at.epoch, ordinal));
        match self.opened(split.file)? {
            Opened::Text(content, shape) => {
                let reach = framed::reach(split, content.len().unwrap_or(u64::MAX), slab_bytes);
                framed::take(content, *shape, (ordinal, split), place, (slab_bytes, reach), window)
            }
            Opened::Records(records) => {
                let (first, at) = (window.framed.len(), window.bytes.len());
                let from = place.byte.max(split.begin);
                let stop = records.take(from, split.end, room, window);
                window.pieces.push(Piece { ordinal, split, frames: first..window.framed.len(), at });
                Ok(match stop? {
                    Stop::At(next) if next < split.end => Taken::UpTo(Place::record(next)),
                    Stop::At(_) | Stop::End => Taken::All,
                })
            }
        }
    }

    /// Reads on in a document that is longer than what was read of it.
    fn go_on(&mut self, begun: Begun, lease: Lease) -> Result<Group> {
        let ordinal = self.at.split;
        let split = self.corpus().split(self.deal[ordinal as usize]);
        let (max, slab_bytes) = (self.corpus().format(split.file).max, self.slab_bytes);
        let Opened::Text(content, _) = self.opened(split.file)? else {
            unreachable!("only text has documents that are read in parts")
        };
        match begun.go_on(content, (ordinal, split), max, slab_bytes, lease)? {
            Ok(Whole { window, lease, next }) => {
                let group = self.grouping.group(window, lease, &mut self.at);
                self.pass(&group.passed, ordinal + u64::from(next.is_none()));
                self.move_to(next.map_or((ordinal + 1, Place::default()), |place| (ordinal, place)));
                Ok(group)
            }
            Err(begun) => {
                self.begun = Some(begun);
                Ok(Group::empty(After::More))
            }
        }
    }

    fn move_to(&mut self, (ordinal, place): (u64, Place)) {
        (self.at.split, self.at.byte, self.at.line) = (ordinal, place.byte, place.line);
    }

    /// File `number`, open.
    fn opened(&mut self, number: u32) -> Result<&mut Opened> {
        let open = match self.open.take() {
            Some(open) if open.0 == number => open,
            _ => (number, self.corpus().open(number, &self.shelf)?),
        };
        Ok(&mut self.open.insert(open).1)
    }
}
