//! The splits that a lane reads side by side, one or several: a step reads a little of each, and puts the documents
//! into one order.

use std::ops::Range;

use super::super::framed::{Begun, Whole};
use super::super::gather::Gathered;
use super::super::group::{Group, GroupEnd};
use super::super::open_split::{Long, Next, OpenSplit};
use super::super::stored::{self, StepRoom};
use super::{GROUP_SPLITS, Reader};
use crate::budget::Lease;
use crate::document::SplitEvent;
use crate::error::{Error, Result, Unit};
use crate::shards::{StoredSplit, TokenCache};
use crate::source::formats::Opened;
use crate::source::interleave::{self, DocumentKey};
use crate::source::layout::Layout;
use crate::store::ReadTurn;

/// The first step of a stream reads `1 / 2^FIRST_SHIFT` of a slab, and each of the next ones twice as much, so that the
/// first documents of all lanes come soon.
const FIRST_SHIFT: u32 = 4;

/// The first steps of a split that is read alone read at least this much, in bytes.
const LEAST_FIRST: usize = 1 << 10;

/// Splits that are read side by side.
#[derive(Debug)]
pub(super) struct OpenGroup {
    /// Their ordinals among the lane's splits of the epoch.
    range: Range<u64>,
    splits: Vec<OpenSplit>,
    /// Their files, where they are open.
    opened: Vec<Option<Opened>>,
    /// About how many bytes all of them together take for a share of 2^-32 of each split.
    pace: f64,
    /// The index of the split whose document is being read in parts.
    long: usize,
}

impl OpenGroup {
    fn is_read(&self) -> bool {
        self.splits.iter().all(|split| split.next == Next::End)
    }

    /// The share up to which all of them have been read.
    fn share(&self) -> u64 {
        self.splits.iter().filter_map(OpenSplit::key).min().map_or(u64::MAX, |key| key.share)
    }

    /// Notes the splits whose text has been read to its end.
    fn note_ends(&mut self, gathered: &mut Gathered) {
        for split in self.splits.iter_mut().filter(|split| split.is_recorded && split.next == Next::End) {
            split.is_recorded = false;
            gathered.note(SplitEvent::End { split: split.ordinal });
        }
    }
}

impl Reader {
    /// Reads the next slab, from the open splits and those after them.
    pub(super) fn read_splits(&mut self, lease: Lease) -> Result<Group> {
        let mut gathered = self.gathered();
        let mut rest = StepRoom::new(self.slab_bytes);
        let mut failure = None;
        loop {
            match self.open_next(&mut gathered) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
            let found = gathered.len();
            match self.round(&mut gathered, &mut rest) {
                Ok(None) => {}
                Ok(Some((nth, (framer, read)))) => {
                    if let Some(group) = &mut self.group {
                        group.long = nth;
                    }
                    self.begun =
                        Some(Begun::new(framer, std::mem::take(&mut gathered.window.bytes), read, lease));
                    return Ok(gathered.deliver(&self.grouper, Lease::none(), &mut self.at));
                }
                Err(error) => {
                    if let Some(group) = &mut self.group {
                        gathered.order_found(&mut group.splits);
                    }
                    failure = Some(error);
                    break;
                }
            }
            let is_read = self.leave_if_read(&mut gathered);
            let is_full = gathered.window.is_full()
                || gathered.window.bytes.len() > self.step_bytes() / 2
                || rest.ids() < self.slab_bytes / 2;
            if is_full || !is_read && gathered.len() == found || self.steps < FIRST_SHIFT || self.waits() {
                break;
            }
        }
        self.steps += 1;
        self.framed = gathered.window.framed.len();
        let read = gathered.window.bytes.len();
        let mut group = gathered.deliver(&self.grouper, lease, &mut self.at);
        self.growth = group.text_len().checked_div(read).map_or(self.growth, |growth| growth.max(1));
        if let (GroupEnd::More, Some(error)) = (&group.after, failure) {
            group.after = GroupEnd::Failed(error);
        }
        Ok(group)
    }

    /// Goes on with a document that has been read in part.
    pub(super) fn go_on(&mut self, begun: Begun, lease: Lease) -> Result<Group> {
        let slab_bytes = self.slab_bytes;
        let corpus = self.corpus().clone();
        let mut gathered = self.gathered();
        let Some(group) = &mut self.group else { return Ok(Group::empty(GroupEnd::More)) };
        let split = &mut group.splits[group.long];
        let max = corpus.format(split.split.file).max;
        let Some(Opened::Text(content, _)) = &mut group.opened[group.long] else {
            unreachable!("only text has documents that are read in parts")
        };
        match begun.go_on(content, split.dealt(), max, slab_bytes, lease)? {
            Ok(Whole { window, lease, next }) => {
                match next {
                    Some(boundary) => split.go_on(boundary),
                    None => split.next = Next::End,
                }
                gathered.window = window;
                gathered.order_found(&mut group.splits);
                self.leave_if_read(&mut gathered);
                Ok(gathered.deliver(&self.grouper, lease, &mut self.at))
            }
            Err(begun) => {
                self.begun = Some(begun);
                Ok(Group::empty(GroupEnd::More))
            }
        }
    }

    /// Nothing yet, of the open splits.
    fn gathered(&mut self) -> Gathered {
        let mut gathered = Gathered::default();
        if std::mem::take(&mut self.epoch_ended) {
            gathered.note(SplitEvent::EpochEnd);
        }
        self.group.iter().flat_map(|group| &group.splits).for_each(|split| gathered.begin(split));
        gathered
    }

    /// Opens the next splits, unless some are open. Returns false if there are none, or this step takes no more.
    fn open_next(&mut self, gathered: &mut Gathered) -> Result<bool> {
        if self.group.is_some() {
            return Ok(true);
        }
        let Some(number) = self.deal.get(self.next as usize) else { return Ok(false) };
        let source = |file: u32| self.corpus().files[file as usize].source;
        let is_other =
            gathered.file().is_some_and(|file| source(file) != source(self.corpus().split(*number).file));
        if is_other || gathered.splits() >= GROUP_SPLITS {
            return Ok(false);
        }
        let group = self.open_group()?;
        for split in &group.splits {
            gathered.begin(split);
            self.note_begin(split, gathered);
        }
        self.group = Some(group);
        Ok(true)
    }

    /// Closes the open splits if all have been read to their ends.
    fn leave_if_read(&mut self, gathered: &mut Gathered) -> bool {
        let Some(group) = &mut self.group else { return false };
        group.note_ends(gathered);
        let is_read = group.is_read();
        if is_read {
            self.next = group.range.end;
            self.group = None;
        }
        is_read
    }

    /// Whether the documents that were found have to be delivered before more are read: standard input may not have more
    /// for a long time, and only delivered documents tell how many more an epoch may skip.
    fn waits(&self) -> bool {
        let Some(number) = self.deal.get(self.next as usize) else { return false };
        let file = self.corpus().split(*number).file;
        self.corpus().is_stdin(file)
            || self.cache.is_some() && self.group.is_none() && self.most_skipped(file) > 0
    }

    /// Opens the next splits that are read side by side.
    fn open_group(&mut self) -> Result<OpenGroup> {
        let corpus = self.corpus().clone();
        let range = interleave::group(self.deal.len() as u64, self.lane.interleave, self.next);
        self.opener.reach(ReadTurn { epoch: self.at.epoch, split: range.start });
        let passed = self.passed.take();
        let tokens: Vec<_> = range
            .clone()
            .map(|ordinal| self.tokens_at(self.deal[ordinal as usize]))
            .collect::<Result<_>>()?;
        // If too many may have been skipped, the text must show which document was one too many.
        let skipped: u64 = tokens.iter().flatten().map(StoredSplit::skipped).sum();
        let file = corpus.split(self.deal[range.start as usize]).file;
        let is_within =
            tokens.iter().all(Option::is_some) && self.at.skipped + skipped <= self.most_skipped(file);
        let mut bytes = 0.0;
        let mut splits = Vec::with_capacity(tokens.len());
        for (ordinal, tokens) in range.clone().zip(tokens) {
            let number = self.deal[ordinal as usize];
            let is_good = |tokens: &StoredSplit| is_within || !tokens.is_delivered() || tokens.skipped() == 0;
            let tokens = tokens.filter(is_good);
            // If the guess is too low, the first step has no room for the last splits, and its reads of the others are
            // repeated.
            bytes += tokens
                .as_ref()
                .map_or(corpus.stored_len(number) as f64, |tokens| stored::step_bytes(tokens) as f64);
            splits.push(self.open_split(ordinal, number, tokens, passed)?);
        }
        let opened = splits.iter().map(|_| None).collect();
        let pace = (bytes / 2_f64.powi(32)).max(f64::MIN_POSITIVE);
        Ok(OpenGroup { range, splits, opened, pace, long: 0 })
    }

    /// Opens one of the lane's splits, from the first document after `passed` on.
    fn open_split(
        &self,
        ordinal: u64,
        number: u32,
        tokens: Option<StoredSplit>,
        passed: Option<DocumentKey>,
    ) -> Result<OpenSplit> {
        let (split, scale) = (self.corpus().split(number), self.corpus().scale(number));
        let next = Next::From(split.begin);
        let (stored, is_recorded) = (None, false);
        let mut split = OpenSplit { ordinal, split, scale, next, stored, passed, is_recorded };
        if let Some(tokens) = tokens {
            match split.read_stored(tokens.clone()) {
                Ok(()) => return Ok(split),
                Err(error @ Error::Resume { .. }) => return Err(error),
                Err(error) => give_up(self.cache.as_deref(), &tokens, error)?,
            }
        }
        self.read_text(&mut split);
        Ok(split)
    }

    fn read_text(&self, split: &mut OpenSplit) {
        let file = split.split.file;
        split.is_recorded = self.cache.is_some() && split.passed.is_none();
        if split.passed.is_some() && self.corpus().is_one_document(file) {
            (split.stored, split.next) = (None, Next::End);
            return;
        }
        let corpus = self.corpus();
        let is_text = corpus.format(file).format.is_sought(corpus.files.path(file));
        let is_whole = is_text && !matches!(corpus.layouts[file as usize], Layout::Frames(_));
        let is_row = corpus.files[file as usize].unit == Unit::Row;
        // Where damage may have been passed over, only reading from the beginning passes it in the same place.
        split.read_text(is_whole || (is_text || is_row) && self.most_skipped(file) == 0);
    }

    /// Reads a little of each split, starting with those furthest behind. If nothing has been gathered and not even one
    /// document fits, returns the index of its split and its scan.
    fn round(&mut self, gathered: &mut Gathered, rest: &mut StepRoom) -> Result<Option<(usize, Long)>> {
        let (slab_bytes, corpus) = (self.step_bytes(), self.corpus().clone());
        let Some(group) = &self.group else { return Ok(None) };
        let share = group.share();
        let (bytes, ids) = (gathered.window.bytes.len(), rest.ids());
        let has_text = group.splits.iter().any(|split| split.stored.is_none());
        let room = match has_text {
            true => (slab_bytes / 4 * 3).saturating_sub(bytes),
            false => ids.saturating_mul(3),
        };
        let room = room >> FIRST_SHIFT.saturating_sub(self.steps);
        if has_text && gathered.is_empty() {
            // A step finds about as much as the previous one. A buffer that has to grow gets twice as long.
            gathered.window.bytes.reserve(room + room / 3);
            gathered.window.framed.reserve(self.framed);
        }
        let is_alone = group.splits.len() == 1;
        let first = slab_bytes >> FIRST_SHIFT.saturating_sub(self.steps);
        let slab_bytes = if is_alone { first.max(slab_bytes.min(LEAST_FIRST)) } else { slab_bytes };
        let until = match is_alone {
            true => u64::MAX,
            false => share.saturating_add(((room as f64 / group.pace) as u64).max(1)),
        };
        let mut order: Vec<usize> = (0..group.splits.len()).collect();
        order.sort_by_key(|&nth| group.splits[nth].key());
        for nth in order {
            let Some(group) = &mut self.group else { return Ok(None) };
            let split = &mut group.splits[nth];
            if split.key().is_none_or(|key| until < u64::MAX && key.share >= until) {
                continue;
            }
            if split.stored.is_some() {
                let (tokens, ordinal) = (split.tokens().cloned(), split.ordinal);
                let add = |found| gathered.add_stored(ordinal, found);
                if let (Err(error), Some(tokens)) = (split.gather_stored(until, rest, add), tokens) {
                    give_up(self.cache.as_deref(), &tokens, error)?;
                    self.turn_to_text(nth, gathered);
                }
                continue;
            }
            let file = split.split.file;
            let opened = match &mut group.opened[nth] {
                Some(opened) => opened,
                closed => closed.insert(match self.last.take_if(|(last, _)| *last == file) {
                    Some((_, opened)) => opened,
                    None => corpus.open(file, &self.opener)?,
                }),
            };
            let path = corpus.files.path(file);
            if let Some(long) = split.gather_text(opened, path, until, slab_bytes, &mut gathered.window)? {
                if gathered.is_empty() {
                    return Ok(Some((nth, long)));
                }
                gathered.window.drop_rest();
                break;
            }
            if split.next == Next::End {
                let opened = group.opened[nth].take();
                self.last = opened.filter(|_| is_alone).map(|opened| (file, opened));
            }
            if gathered.window.is_full() || gathered.window.bytes.len() >= slab_bytes {
                break;
            }
        }
        let Some(group) = &mut self.group else { return Ok(None) };
        gathered.order_found(&mut group.splits);
        let taken = gathered.window.bytes.len() - bytes + (ids - rest.ids()) * size_of::<u32>();
        let advanced = group.share().min(until).saturating_sub(share);
        if taken > 0 && advanced > 0 {
            group.pace = taken as f64 / advanced as f64;
        }
        Ok(None)
    }

    /// Reads the text of an open split instead of its tokens, which turned out to be damaged.
    fn turn_to_text(&mut self, nth: usize, gathered: &mut Gathered) {
        let Some(mut group) = self.group.take() else { return };
        let split = &mut group.splits[nth];
        self.read_text(split);
        gathered.turn_to_text(split);
        self.note_begin(split, gathered);
        self.group = Some(group);
    }

    /// The stored tokens of split `number`, in token shards or in the cache.
    pub(super) fn tokens_at(&self, number: u32) -> Result<Option<StoredSplit>> {
        let stored = self.corpus().open_tokens(number, &self.opener)?;
        let carried = &self.corpus().format(self.corpus().split(number).file).carried;
        if let Some(tokens) = stored {
            return Ok(Some(tokens.with_columns(carried.of_shards().cloned())));
        }
        // What is cached was filtered.
        let cached = self.cache.as_ref().and_then(|cache| cache.tokens(number - self.splits.start));
        Ok(cached.map(|tokens| tokens.with_columns(carried.come_along().cloned())))
    }

    /// How many documents an epoch may skip, in the source of a file.
    fn most_skipped(&self, file: u32) -> u64 {
        self.corpus().format(file).on_error.most()
    }

    /// Notes that a split is read as text from its beginning, if it is recorded.
    fn note_begin(&self, split: &OpenSplit, gathered: &mut Gathered) {
        if split.is_recorded {
            let number = self.deal[split.ordinal as usize] - self.splits.start;
            gathered.note(SplitEvent::Begin { split: split.ordinal, number });
        }
    }
}

/// Discards damaged tokens from the cache, so that the text is read instead. Token shards have no text, so theirs fail.
fn give_up(cache: Option<&TokenCache>, tokens: &StoredSplit, error: Error) -> Result<()> {
    match cache {
        Some(cache) if tokens.is_delivered() => {
            cache.forget(tokens, &error);
            Ok(())
        }
        _ => Err(error),
    }
}
