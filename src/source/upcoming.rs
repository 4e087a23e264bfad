//! What a lane will read: its splits, epoch after epoch, as ranges of stored bytes.
//!
//! It walks ahead of the [`Reader`](super::read::Reader), whose order it has, so that files of stores are asked for
//! before they are needed. Held in memory: the numbers of the lane's splits of one epoch.

use std::ops::Range;
use std::sync::Arc;

use super::Lane;
use super::cached::Cached;
use super::corpus::Corpus;
use super::deal::deal;
use crate::cursor::LaneCursor;
use crate::store::{Planned, Turn};

/// The ranges of a lane's splits, from a cursor on.
#[derive(Debug)]
pub(super) struct Upcoming {
    corpus: Arc<Corpus>,
    lane: Lane,
    splits: Range<u32>,
    slab_bytes: usize,
    next: Turn,
    /// Where reading goes on in the next split, if it has begun.
    from: u64,
    /// The splits of the next split's epoch.
    deal: Vec<u32>,
    /// What need not be fetched.
    cached: Option<Cached>,
}

impl Upcoming {
    pub(super) fn new(
        corpus: Arc<Corpus>,
        lane: Lane,
        splits: Range<u32>,
        slab_bytes: usize,
        at: LaneCursor,
        cached: Option<Cached>,
    ) -> Self {
        let (next, from, deal) = ((at.epoch, at.split), at.byte, Vec::new());
        let mut upcoming = Self { corpus, lane, splits, slab_bytes, next, from, deal, cached };
        upcoming.deal(at.epoch);
        upcoming
    }

    fn deal(&mut self, epoch: u64) {
        let Lane { lane, lanes, seed, shuffle_splits, .. } = self.lane;
        self.deal = deal(self.splits.clone(), shuffle_splits, seed, epoch, lane, lanes.get());
    }
}

impl Iterator for Upcoming {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let (epoch, ordinal) = self.next;
        if ordinal as usize >= self.deal.len() {
            let epoch = epoch + 1;
            if self.deal.is_empty() || self.lane.epochs.is_some_and(|epochs| epoch >= epochs) {
                return None;
            }
            self.deal(epoch);
            (self.next, self.from) = ((epoch, 0), 0);
        }
        let turn = self.next;
        let number = *self.deal.get(turn.1 as usize)?;
        let (file, mut range) =
            self.corpus.stored_range(number, std::mem::take(&mut self.from), self.slab_bytes);
        if self.cached.as_ref().is_some_and(|cached| cached.tokens(number).is_some()) {
            range = 0..0;
        }
        self.next.1 += 1;
        Some(Planned { turn, file, range })
    }
}
