//! Reads splits side by side: a step reads a little of each, and puts the documents into one order.

use std::ops::Range;

use super::super::cached;
use super::super::framed::{Begun, Whole};
use super::super::gather::Gathered;
use super::super::group::{Group, GroupEnd};
use super::super::open_split::{Long, Next, OpenSplit};
use super::super::split_recorder::{GroupCount, Noted};
use super::super::stored::{self, StepRoom};
use super::{GROUP_SPLITS, Reader};
use crate::budget::Lease;
use crate::config::OnError;
use crate::error::{Error, Result, Unit};
use crate::shards::StoredSplit;
use crate::source::formats::Opened;
use crate::source::framing::Boundary;
use crate::source::interleave::{self, Scale};
use crate::store::ReadTurn;

/// The first step of a stream reads `1 / 2^FIRST_SHIFT` of a slab, and each of the next ones twice as much, so that the
/// first documents of all lanes come soon.
const FIRST_SHIFT: u32 = 4;

/// Splits that are read side by side.
#[derive(Debug)]
pub(super) struct Interleaved {
    /// Their ordinals among the lane's splits of the epoch.
    pub(super) range: Range<u64>,
    splits: Vec<OpenSplit>,
    /// Their files, where they are open.
    opened: Vec<Option<Opened>>,
    /// About how many bytes all of them together take for a share of 2^-32 of each split.
    pace: f64,
    /// How many of their documents have been skipped.
    skipped: u64,
    /// The index of the split whose document is being read in parts.
    long: usize,
    /// The splits whose tokens turned out to be damaged, and none of whose documents has been delivered.
    turned: Vec<usize>,
}

impl Interleaved {
    fn is_read(&self) -> bool {
        self.splits.iter().all(|split| split.next == Next::End)
    }

    /// How many documents were skipped when the tokens that are read were stored.
    fn stored_skipped(&self) -> u64 {
        self.splits.iter().filter_map(OpenSplit::tokens).map(StoredSplit::skipped).sum()
    }

    /// The share up to which all of them have been read.
    fn share(&self) -> u64 {
        self.splits.iter().filter_map(OpenSplit::key).min().map_or(u64::MAX, |key| key.share)
    }
}

impl Reader {
    /// Reads the next slab of the splits that are read side by side.
    pub(super) fn read_interleaved(&mut self, lease: Lease) -> Result<Group> {
        let mut gathered = Gathered::default();
        let carried = self.interleaved.as_ref().map_or(0, |side| side.skipped);
        let (mut closed, mut notes) = (Vec::new(), Vec::new());
        let mut rest = StepRoom::new(self.slab_bytes);
        let (mut splits, mut failure) = (0, None);
        loop {
            if self.interleaved.is_none() {
                if self.at.split as usize >= self.deal.len() || splits >= GROUP_SPLITS {
                    break;
                }
                match self.open_interleaved() {
                    Ok(side) => {
                        let side = self.interleaved.insert(side);
                        self.split_recorder.begins_group(side.range.start, &side.splits, &mut notes);
                    }
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
            let Some(side) = &self.interleaved else { break };
            let is_begun = splits > 0 && gathered.has(side.range.start);
            if !is_begun {
                side.splits.iter().for_each(|split| gathered.begin(split, side.range.start));
                splits += side.splits.len();
            }
            let found = gathered.len();
            match self.round(&mut gathered, &mut rest) {
                Ok(None) => {}
                Ok(Some((nth, (framer, read)))) => {
                    if let Some(side) = &mut self.interleaved {
                        side.long = nth;
                    }
                    // No document was delivered that would have counted the skipped ones.
                    if !closed.is_empty() {
                        self.at.skipped += carried + closed.iter().sum::<u64>();
                    }
                    let documents = self.at.documents;
                    let end = |note: &Noted| GroupCount { group: note.group, documents };
                    let mut ends: Vec<_> = notes.iter().map(end).collect();
                    ends.dedup();
                    self.split_recorder.tell(documents, &ends, &[], &notes);
                    self.begun = Some(Begun::new(framer, gathered.window.bytes, read, lease));
                    return Ok(Group::empty(GroupEnd::More));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
            if let Some(side) = &mut self.interleaved {
                for nth in std::mem::take(&mut side.turned) {
                    self.split_recorder.turns(side.range.start, &side.splits[nth], &mut notes);
                }
                self.split_recorder.ends_texts(side.range.start, &side.splits, &mut notes);
            }
            let is_read = self.interleaved.as_ref().is_some_and(Interleaved::is_read);
            if is_read && let Some(side) = self.interleaved.take() {
                closed.push(side.stored_skipped());
                self.at.split = side.range.end;
            }
            let is_full = gathered.window.is_full()
                || gathered.window.bytes.len() > self.slab_bytes / 2
                || rest.ids() < self.slab_bytes / 2;
            // Only after these are delivered is the remaining number of skips known.
            let counts = self.split_recorder.is_recording() && self.most_skipped(self.at.split) > 0;
            if is_full || !is_read && gathered.len() == found || self.steps < FIRST_SHIFT || is_read && counts
            {
                break;
            }
        }
        self.steps += 1;
        self.framed = gathered.window.framed.len();
        let begun = self.at.documents;
        let delivered = gathered.deliver(&self.grouper, lease, &mut self.at, carried);
        match &mut self.interleaved {
            Some(side) if splits > 0 => side.skipped = delivered.skipped,
            Some(_) => {}
            None => self.at.skipped += delivered.skipped + closed.last().unwrap_or(&0),
        }
        self.split_recorder.counts(&delivered.counts);
        self.split_recorder.tell(begun, &delivered.ends, &delivered.skips, &notes);
        let mut group = delivered.group;
        if let (GroupEnd::More, Some(error)) = (&group.after, failure) {
            group.after = GroupEnd::Failed(error);
        }
        Ok(group)
    }

    /// Goes on with a document that has been read in part.
    pub(super) fn go_on_interleaved(&mut self, begun: Begun, lease: Lease) -> Result<Group> {
        let slab_bytes = self.slab_bytes;
        let corpus = self.corpus().clone();
        let Some(side) = &mut self.interleaved else { return Ok(Group::empty(GroupEnd::More)) };
        let split = &mut side.splits[side.long];
        let max = corpus.format(split.split.file).max;
        let Some(Opened::Text(content, _)) = &mut side.opened[side.long] else {
            unreachable!("only text has documents that are read in parts")
        };
        match begun.go_on(content, split.dealt(), max, slab_bytes, lease)? {
            Ok(Whole { window, lease, next }) => {
                match next {
                    Some(boundary) => split.go_on(boundary),
                    None => split.next = Next::End,
                }
                let mut gathered = Gathered::default();
                side.splits.iter().for_each(|split| gathered.begin(split, side.range.start));
                gathered.window = window;
                gathered.order_found(&mut side.splits);
                let carried = side.skipped;
                let begun = self.at.documents;
                let delivered = gathered.deliver(&self.grouper, lease, &mut self.at, carried);
                side.skipped = delivered.skipped;
                self.split_recorder.counts(&delivered.counts);
                self.split_recorder.tell(begun, &delivered.ends, &delivered.skips, &[]);
                Ok(delivered.group)
            }
            Err(begun) => {
                self.begun = Some(begun);
                Ok(Group::empty(GroupEnd::More))
            }
        }
    }

    /// Begins the group of splits that contains `at`, or goes on in it.
    fn open_interleaved(&mut self) -> Result<Interleaved> {
        let (at, corpus) = (self.at, self.corpus().clone());
        let range = interleave::group(self.deal.len() as u64, self.lane.interleave, at.split);
        if at.byte == 0 && at.split != range.start {
            let problem =
                format!("split {} is read together with others, from split {} on", at.split, range.start);
            return Err(Error::resume(problem));
        }
        self.opener.reach(ReadTurn { epoch: at.epoch, split: range.start });
        let mut splits = Vec::with_capacity((range.end - range.start) as usize);
        for ordinal in range.clone() {
            let number = self.deal[ordinal as usize];
            let split = corpus.split(number);
            let scale = Scale::new(split, corpus.split_len(number));
            let next = Next::First;
            splits.push(OpenSplit { ordinal, number, split, scale, next, stored: None, passed: None });
        }
        let passed = (at.byte > 0).then(|| splits[(at.split - range.start) as usize].key_of(at.start));
        let mut bytes = 0.0;
        // If too many may have been skipped, the text must show which document was one too many.
        let tokens: Vec<_> = range.clone().map(|ordinal| self.tokens_at(ordinal)).collect::<Result<_>>()?;
        let skipped: u64 = tokens.iter().flatten().map(StoredSplit::skipped).sum();
        let is_within =
            tokens.iter().all(Option::is_some) && at.skipped + skipped <= self.most_skipped(range.start);
        for (split, tokens) in splits.iter_mut().zip(tokens) {
            split.passed = passed;
            let is_good = |tokens: &StoredSplit| is_within || !tokens.is_delivered() || tokens.skipped() == 0;
            let tokens = tokens.filter(is_good);
            // If the guess is too low, the first step has no room for the last splits, and its reads of the others are
            // repeated.
            bytes += tokens
                .as_ref()
                .map_or(corpus.stored_len(split.number) as f64, |tokens| stored::step_bytes(tokens) as f64);
            if let Some(tokens) = tokens {
                if let Err(error) = split.read_stored(tokens.clone()) {
                    cached::give_up(self.cached.as_ref(), &tokens, error)?;
                    split.turn_to_text();
                }
                continue;
            }
            // Rows can be sought. Where documents may be skipped, the skipped ones have to be counted again.
            let file = &corpus.files[split.split.file as usize];
            let is_gone_to =
                file.unit == Unit::Row && corpus.format(split.split.file).on_error == OnError::Fail;
            if let Some(passed) = passed.filter(|_| is_gone_to) {
                let mut row = split.scale.place(passed.share);
                while split.key_of(row) <= passed {
                    row += 1;
                }
                split.go_on(Boundary::record(row));
            }
        }
        (self.at.split, self.at.byte, self.at.line, self.at.start) = (range.start, 0, 0, 0);
        let opened = splits.iter().map(|_| None).collect();
        let pace = (bytes / 2_f64.powi(32)).max(f64::MIN_POSITIVE);
        Ok(Interleaved { range, splits, opened, pace, skipped: 0, long: 0, turned: Vec::new() })
    }

    /// Reads a little of each split, starting with those furthest behind. If nothing has been gathered and not even one
    /// document fits, returns the index of its split and its scan.
    fn round(&mut self, gathered: &mut Gathered, rest: &mut StepRoom) -> Result<Option<(usize, Long)>> {
        let (slab_bytes, corpus) = (self.slab_bytes, self.corpus().clone());
        let Some(side) = &mut self.interleaved else { return Ok(None) };
        let share = side.share();
        let (bytes, ids) = (gathered.window.bytes.len(), rest.ids());
        let has_text = side.splits.iter().any(|split| split.stored.is_none());
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
        let step = (room as f64 / side.pace) as u64;
        let until = share.saturating_add(step.max(1));
        let mut order: Vec<usize> = (0..side.splits.len()).collect();
        order.sort_by_key(|&nth| side.splits[nth].key());
        for nth in order {
            let split = &mut side.splits[nth];
            if split.key().is_none_or(|key| key.share >= until) {
                continue;
            }
            if split.stored.is_some() {
                let (tokens, ordinal) = (split.tokens().cloned(), split.ordinal);
                let add = |entry, begin, place| gathered.add_stored(ordinal, entry, begin, place);
                if let (Err(error), Some(tokens)) = (split.gather_stored(until, rest, add), tokens) {
                    cached::give_up(self.cached.as_ref(), &tokens, error)?;
                    split.turn_to_text();
                    gathered.turn_to_text(split);
                    side.turned.push(nth);
                }
                continue;
            }
            let opened = match &mut side.opened[nth] {
                Some(opened) => opened,
                closed => closed.insert(corpus.open(split.split.file, &self.opener)?),
            };
            if let Some(long) = split.gather_text(opened, until, slab_bytes, &mut gathered.window)? {
                if gathered.is_empty() {
                    return Ok(Some((nth, long)));
                }
                gathered.window.drop_rest();
                break;
            }
            if split.next == Next::End {
                side.opened[nth] = None;
            }
            if gathered.window.is_full() || gathered.window.bytes.len() >= slab_bytes {
                break;
            }
        }
        gathered.order_found(&mut side.splits);
        let taken = gathered.window.bytes.len() - bytes + (ids - rest.ids()) * size_of::<u32>();
        let advanced = side.share().min(until).saturating_sub(share);
        if taken > 0 && advanced > 0 {
            side.pace = taken as f64 / advanced as f64;
        }
        Ok(None)
    }
}
