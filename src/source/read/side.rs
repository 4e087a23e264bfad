//! Reading splits side by side: a step reads a little of each of them, and puts what it found in one order.

use std::ops::Range;

use super::{GROUP_SPLITS, Reader};
use crate::budget::Lease;
use crate::config::OnError;
use crate::error::{Error, Result, Unit};
use crate::segment::StoredSplit;
use crate::source::abreast::{self, Scale};
use crate::source::cached::Cached;
use crate::source::corpus::Opened;
use crate::source::framed::{Begun, Whole};
use crate::source::framing::Place;
use crate::source::gather::Gathered;
use crate::source::group::{After, Group};
use crate::source::stored::Rest;
use crate::source::strand::{Long, Next, Strand};

/// The first step of a stream reads this part of a slab, and each of the next ones twice as much, so that the first
/// documents of all lanes are there soon.
const FIRST_SHIFT: u32 = 4;

/// Splits that are read side by side.
#[derive(Debug)]
pub(super) struct Side {
    /// Which of the lane's splits of the epoch they are.
    pub(super) range: Range<u64>,
    strands: Vec<Strand>,
    /// Their files, as far as they are open.
    opened: Vec<Option<Opened>>,
    /// About how many bytes a share of one part of 2^32 of all of them takes.
    pace: f64,
    /// How many of their documents were skipped.
    skipped: u64,
    /// The split whose document is read in parts, by its place among them.
    long: usize,
    /// Those whose tokens turned out to be damaged before any of their documents were delivered.
    turned: Vec<usize>,
}

impl Side {
    fn is_read(&self) -> bool {
        self.strands.iter().all(|strand| strand.next == Next::End)
    }

    /// How many documents were skipped when those were stored whose tokens are read.
    fn stored_skipped(&self) -> u64 {
        self.strands.iter().filter_map(Strand::tokens).map(StoredSplit::skipped).sum()
    }

    /// How far the last of them was read.
    fn share(&self) -> u64 {
        self.strands.iter().filter_map(Strand::key).min().map_or(u64::MAX, |key| key.share)
    }
}

impl Reader {
    /// Reads the next slab of the splits that stand side by side.
    pub(super) fn read_abreast(&mut self, lease: Lease) -> Result<Group> {
        let mut gathered = Gathered::default();
        let carried = self.side.as_ref().map_or(0, |side| side.skipped);
        let (mut closed, mut notes) = (Vec::new(), Vec::new());
        let mut rest = Rest::new(self.slab_bytes);
        let (mut splits, mut failure) = (0, None);
        loop {
            if self.side.is_none() {
                if self.at.split as usize >= self.deal.len() || splits >= GROUP_SPLITS {
                    break;
                }
                match self.open_side() {
                    Ok(side) => {
                        self.side = Some(side);
                        self.begin_texts(&mut notes);
                    }
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
            let Some(side) = &self.side else { break };
            let is_begun = splits > 0 && gathered.has(side.range.start);
            if !is_begun {
                side.strands.iter().for_each(|strand| gathered.begin(strand, side.range.start));
                splits += side.strands.len();
            }
            let found = gathered.len();
            match self.round(&mut gathered, &mut rest) {
                Ok(None) => {}
                Ok(Some((nth, (framer, read)))) => {
                    if let Some(side) = &mut self.side {
                        side.long = nth;
                    }
                    // Nothing was delivered that would have counted what was skipped.
                    if !closed.is_empty() {
                        self.at.skipped += carried + closed.iter().sum::<u64>();
                    }
                    let mut ends: Vec<_> =
                        notes.iter().map(|note: &Noted| (note.group, self.at.documents)).collect();
                    ends.dedup();
                    self.note(self.at.documents, &ends, &[], notes);
                    self.begun = Some(Begun::new(framer, gathered.window.bytes, read, lease));
                    return Ok(Group::empty(After::More));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
            self.begin_turned(&mut notes);
            self.end_texts(&mut notes);
            let is_read = self.side.as_ref().is_some_and(Side::is_read);
            if is_read && let Some(side) = self.side.take() {
                closed.push(side.stored_skipped());
                self.at.split = side.range.end;
            }
            let is_full = gathered.window.is_full()
                || gathered.window.bytes.len() > self.slab_bytes / 2
                || rest.ids() < self.slab_bytes / 2;
            // How many may yet be skipped is known once these are delivered.
            let counts = self.cached.is_some() && self.most_skipped(self.at.split) > 0;
            if is_full || !is_read && gathered.len() == found || self.steps < FIRST_SHIFT || is_read && counts
            {
                break;
            }
        }
        self.steps += 1;
        self.framed = gathered.window.framed.len();
        let begun = self.at.documents;
        let delivered = gathered.deliver(&self.grouping, lease, &mut self.at, carried);
        match &mut self.side {
            Some(side) if splits > 0 => side.skipped = delivered.skipped,
            Some(_) => {}
            None => self.at.skipped += delivered.skipped + closed.last().unwrap_or(&0),
        }
        self.count(&delivered.counts);
        self.note(begun, &delivered.ends, &delivered.skips, notes);
        let mut group = delivered.group;
        if let (After::More, Some(error)) = (&group.after, failure) {
            group.after = After::Failed(error);
        }
        Ok(group)
    }

    /// Goes on with a document that is longer than what was read of it.
    pub(super) fn go_on_abreast(&mut self, begun: Begun, lease: Lease) -> Result<Group> {
        let slab_bytes = self.slab_bytes;
        let corpus = self.corpus().clone();
        let Some(side) = &mut self.side else { return Ok(Group::empty(After::More)) };
        let strand = &mut side.strands[side.long];
        let max = corpus.format(strand.split.file).max;
        let Some(Opened::Text(content, _)) = &mut side.opened[side.long] else {
            unreachable!("only text has documents that are read in parts")
        };
        match begun.go_on(content, (strand.ordinal, strand.split), max, slab_bytes, lease)? {
            Ok(Whole { window, lease, next }) => {
                match next {
                    Some(place) => strand.go_on(place),
                    None => strand.next = Next::End,
                }
                let mut gathered = Gathered::default();
                side.strands.iter().for_each(|strand| gathered.begin(strand, side.range.start));
                gathered.window = window;
                gathered.settle(&mut side.strands);
                let carried = side.skipped;
                let begun = self.at.documents;
                let delivered = gathered.deliver(&self.grouping, lease, &mut self.at, carried);
                side.skipped = delivered.skipped;
                self.count(&delivered.counts);
                self.note(begun, &delivered.ends, &delivered.skips, Vec::new());
                Ok(delivered.group)
            }
            Err(begun) => {
                self.begun = Some(begun);
                Ok(Group::empty(After::More))
            }
        }
    }

    /// Begins with the splits that `at` is in, or goes on in them.
    fn open_side(&mut self) -> Result<Side> {
        let (at, corpus) = (self.at, self.corpus().clone());
        let range = abreast::group(self.deal.len() as u64, self.lane.abreast.get(), at.split);
        if at.byte == 0 && at.split != range.start {
            let problem =
                format!("split {} is read together with others, from split {} on", at.split, range.start);
            return Err(Error::resume(problem));
        }
        let mut strands = Vec::with_capacity((range.end - range.start) as usize);
        for ordinal in range.clone() {
            let number = self.deal[ordinal as usize];
            let split = corpus.split(number);
            let scale = Scale::new(split, corpus.split_len(number));
            let next = Next::First;
            strands.push(Strand { ordinal, number, split, scale, next, stored: None, passed: None });
        }
        let passed = (at.byte > 0).then(|| strands[(at.split - range.start) as usize].key_of(at.start));
        let mut bytes = 0.0;
        // Where too many may have been skipped, the text says which one it is.
        let tokens: Vec<_> = range.clone().map(|ordinal| self.tokens_at(ordinal)).collect();
        let skipped: u64 = tokens.iter().flatten().map(StoredSplit::skipped).sum();
        let is_within =
            tokens.iter().all(Option::is_some) && at.skipped + skipped <= self.most_skipped(range.start);
        for (strand, tokens) in strands.iter_mut().zip(tokens) {
            strand.passed = passed;
            bytes += corpus.stored_len(strand.number) as f64;
            let is_good = |tokens: &StoredSplit| is_within || !tokens.is_delivered() || tokens.skipped() == 0;
            if let Some(tokens) = tokens.filter(is_good) {
                if let Err(error) = strand.read_stored(tokens.clone()) {
                    self.forget(&tokens, error)?;
                    strand.turn_to_text();
                }
                continue;
            }
            // Rows can be gone to. Those that were skipped have to be counted again.
            let file = &corpus.files[strand.split.file as usize];
            let is_gone_to =
                file.unit == Unit::Row && corpus.format(strand.split.file).on_error == OnError::Fail;
            if let Some(passed) = passed.filter(|_| is_gone_to) {
                let mut row = strand.scale.place(passed.share);
                while strand.key_of(row) <= passed {
                    row += 1;
                }
                strand.go_on(Place::record(row));
            }
        }
        self.shelf.reach((at.epoch, range.start));
        (self.at.split, self.at.byte, self.at.line, self.at.start) = (range.start, 0, 0, 0);
        let opened = strands.iter().map(|_| None).collect();
        let pace = (bytes / 2_f64.powi(32)).max(f64::MIN_POSITIVE);
        Ok(Side { range, strands, opened, pace, skipped: 0, long: 0, turned: Vec::new() })
    }

    /// Reads a little of each split, those first that are behind. If nothing is gathered and not even one document
    /// fits, that one is given back, with its split's place.
    fn round(&mut self, gathered: &mut Gathered, rest: &mut Rest) -> Result<Option<(usize, Long)>> {
        let (slab_bytes, corpus) = (self.slab_bytes, self.corpus().clone());
        let Some(side) = &mut self.side else { return Ok(None) };
        let share = side.share();
        let (bytes, ids) = (gathered.window.bytes.len(), rest.ids());
        let has_text = side.strands.iter().any(|strand| strand.stored.is_none());
        let room = match has_text {
            true => (slab_bytes / 4 * 3).saturating_sub(bytes),
            false => ids.saturating_mul(3),
        };
        let room = room >> FIRST_SHIFT.saturating_sub(self.steps);
        if has_text && gathered.is_empty() {
            // A step finds about as much as the one before.
            gathered.window.bytes.reserve(room);
            gathered.window.framed.reserve(self.framed);
        }
        let step = (room as f64 / side.pace) as u64;
        let until = share.saturating_add(step.max(1));
        let mut order: Vec<usize> = (0..side.strands.len()).collect();
        order.sort_by_key(|&nth| side.strands[nth].key());
        for nth in order {
            let strand = &mut side.strands[nth];
            if strand.key().is_none_or(|key| key.share >= until) {
                continue;
            }
            if strand.stored.is_some() {
                let (tokens, ordinal) = (strand.tokens().cloned(), strand.ordinal);
                let add = |entry, begin, place| gathered.add_stored(ordinal, entry, begin, place);
                if let (Err(error), Some(tokens)) = (strand.gather_stored(until, rest, add), tokens) {
                    match &self.cached {
                        Some(cached) if tokens.is_delivered() => cached.forget(&tokens, &error),
                        _ => return Err(error),
                    }
                    strand.turn_to_text();
                    gathered.turn_to_text(strand);
                    side.turned.push(nth);
                }
                continue;
            }
            let opened = match &mut side.opened[nth] {
                Some(opened) => opened,
                closed => closed.insert(corpus.open(strand.split.file, &self.shelf)?),
            };
            if let Some(long) = strand.gather_text(opened, until, slab_bytes, &mut gathered.window)? {
                if gathered.is_empty() {
                    return Ok(Some((nth, long)));
                }
                gathered.window.drop_rest();
                break;
            }
            if strand.next == Next::End {
                side.opened[nth] = None;
            }
            if gathered.window.is_full() || gathered.window.bytes.len() >= slab_bytes {
                break;
            }
        }
        gathered.settle(&mut side.strands);
        let taken = gathered.window.bytes.len() - bytes + (ids - rest.ids()) * size_of::<u32>();
        let advanced = side.share().min(until).saturating_sub(share);
        if taken > 0 && advanced > 0 {
            side.pace = taken as f64 / advanced as f64;
        }
        Ok(None)
    }

    /// Notes the splits whose text is read from its begin on.
    fn begin_texts(&mut self, notes: &mut Vec<Noted>) {
        let (Some(cached), Some(side)) = (&mut self.cached, &self.side) else { return };
        cached.reads_group();
        for strand in side.strands.iter().filter(|strand| strand.stored.is_none()) {
            notes.extend(Noted::begin(cached, side.range.start, strand));
        }
    }

    /// Notes those that are read instead of damaged tokens.
    fn begin_turned(&mut self, notes: &mut Vec<Noted>) {
        let (Some(cached), Some(side)) = (&mut self.cached, &mut self.side) else { return };
        for nth in std::mem::take(&mut side.turned) {
            notes.extend(Noted::begin(cached, side.range.start, &side.strands[nth]));
        }
    }

    /// Notes the splits whose text is read to its end.
    fn end_texts(&mut self, notes: &mut Vec<Noted>) {
        let (Some(cached), Some(side)) = (&mut self.cached, &self.side) else { return };
        let group = side.range.start;
        for strand in side.strands.iter().filter(|strand| strand.next == Next::End && strand.stored.is_none())
        {
            let Strand { number, ordinal, .. } = *strand;
            if cached.leaves_abreast(number) {
                notes.push(Noted { group, number, ordinal, is_begin: false });
            }
        }
    }

    /// Tells the cache how many documents of each split were delivered.
    fn count(&mut self, counts: &[(u64, u64)]) {
        let Some(cached) = &mut self.cached else { return };
        counts.iter().for_each(|&(ordinal, delivered)| cached.counts(ordinal, delivered));
    }

    /// Tells it which splits were begun and which were read to their end, and of which documents were skipped, each
    /// beside how many documents the lane had delivered: `begun` before them all, and so many behind each group.
    fn note(&mut self, begun: u64, ends: &[(u64, u64)], skips: &[(u64, u64)], notes: Vec<Noted>) {
        let Some(cached) = &mut self.cached else { return };
        let (mut documents, mut skips) = (begun, skips.iter().peekable());
        for (nth, &(group, behind)) in ends.iter().enumerate() {
            let of_group =
                |is_begin| notes.iter().filter(move |note| note.group == group && note.is_begin == is_begin);
            for &Noted { number, ordinal, .. } in of_group(true) {
                cached.begin_abreast(number, ordinal, ordinal - group, documents);
            }
            let next = ends.get(nth + 1).map_or(u64::MAX, |(next, _)| *next);
            while let Some(&(ordinal, before)) = skips.next_if(|(ordinal, _)| *ordinal < next) {
                cached.skip_abreast(ordinal, before);
            }
            for &Noted { number, ordinal, .. } in of_group(false) {
                cached.end_abreast(number, ordinal, behind);
            }
            documents = behind;
        }
    }
}

/// A split whose text was begun, or read to its end.
#[derive(Clone, Copy, Debug)]
struct Noted {
    group: u64,
    number: u32,
    ordinal: u64,
    is_begin: bool,
}

impl Noted {
    /// The note that a split is read as text, if it is read from its begin on and is to be recorded.
    fn begin(cached: &mut Cached, group: u64, strand: &Strand) -> Option<Self> {
        let &Strand { number, ordinal, passed, .. } = strand;
        let is_recorded = cached.reads_abreast(number, passed.is_none());
        is_recorded.then_some(Self { group, number, ordinal, is_begin: true })
    }
}
