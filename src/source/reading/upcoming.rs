//! The future reads of a lane: its splits, epoch after epoch, as ranges of stored bytes.
//!
//! It walks ahead of the [`Reader`](super::reader::Reader), in the same order, so that files in stores are requested
//! before they are needed. Held in memory: the numbers of the lane's splits of one epoch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::shards::TokenCache;
use crate::source::catalog::corpus::Corpus;
use crate::source::interleave::{self, DocumentKey};
use crate::source::lane::Lane;
use crate::store::{Planned, ReadTurn};

/// The ranges of a lane's splits, from a cursor on.
#[derive(Debug)]
pub(crate) struct Upcoming {
    corpus: Arc<Corpus>,
    lane: Lane,
    splits: Range<u32>,
    slab_bytes: usize,
    next: ReadTurn,
    /// The document after which reading goes on, if the next splits have begun.
    passed: Option<DocumentKey>,
    /// The splits of the next split's epoch.
    deal: Vec<u32>,
    /// The file that will be open when the next split is read, if splits are read one after the other.
    open: Option<u32>,
    /// The remaining ranges of the last split.
    ranges: VecDeque<Planned>,
    /// Cached tokens, whose text need not be fetched.
    cache: Option<Arc<TokenCache>>,
}

impl Upcoming {
    pub(crate) fn new(
        corpus: Arc<Corpus>,
        lane: Lane,
        splits: Range<u32>,
        slab_bytes: usize,
        epoch: u64,
        passed: Option<DocumentKey>,
        cache: Option<Arc<TokenCache>>,
    ) -> Self {
        let next = ReadTurn { epoch, split: passed.map_or(0, |passed| passed.ordinal) };
        let (deal, open, ranges) = (Vec::new(), None, VecDeque::new());
        let mut upcoming = Self { corpus, lane, splits, slab_bytes, next, passed, deal, open, ranges, cache };
        upcoming.deal(epoch);
        upcoming
    }

    fn deal(&mut self, epoch: u64) {
        self.deal = self.lane.deal(self.splits.clone(), epoch);
    }
}

impl Iterator for Upcoming {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if let Some(planned) = self.ranges.pop_front() {
            return Some(planned);
        }
        let ReadTurn { epoch, split } = self.next;
        if split as usize >= self.deal.len() {
            let epoch = epoch + 1;
            if self.deal.is_empty() || self.lane.epochs.is_some_and(|epochs| epoch >= epochs) {
                return None;
            }
            self.deal(epoch);
            self.next = ReadTurn { epoch, split: 0 };
        }
        // Splits that are read side by side are one turn.
        let (splits, first) = (self.deal.len() as u64, self.next.split);
        let group = interleave::group(splits, self.lane.interleave, first);
        let turn = ReadTurn { split: group.start, ..self.next };
        let passed = self.passed.take();
        for ordinal in group.clone() {
            let number = self.deal[ordinal as usize];
            let split = self.corpus.split(number);
            let nth = number - self.splits.start;
            if self.cache.as_ref().is_some_and(|cache| cache.tokens(nth).is_some()) {
                continue;
            }
            let is_alone = group.end - group.start == 1;
            let is_open = self.open.replace(split.file) == Some(split.file) && is_alone;
            let scale = self.corpus.scale(number);
            let from = passed.map_or(0, |passed| scale.place(passed.share));
            let (file, ranges) = self.corpus.planned_ranges(number, from, is_open, self.slab_bytes);
            self.ranges.extend(ranges.into_iter().map(|range| Planned { turn, file, range }));
        }
        self.next.split = group.end;
        let file = self.corpus.split(self.deal[first as usize]).file;
        // Return even if nothing is known about any split, so that the walk does not go on for ever.
        Some(self.ranges.pop_front().unwrap_or(Planned { turn, file, range: 0..0 }))
    }
}
