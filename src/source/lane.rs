//! The part of a corpus that a stream reads: which splits of an epoch, and in which order.

use std::ops::Range;

use super::catalog::holdout::Holdout;
use crate::order::permutation;

/// The part of the corpus that a stream reads, and its order.
///
/// The default is all of it once, in file order: lane 0 of 1, no shuffle, one epoch, nothing held out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// Which lane, from 0.
    pub lane: usize,
    /// How many lanes the splits are dealt to, at least 1.
    pub lanes: usize,
    /// The seed of each epoch's order of splits, and of its sample of weighted documents.
    pub seed: u64,
    /// Whether each epoch reads the splits in another order; if not, in file order.
    pub shuffle_splits: bool,
    /// Whether all documents of the corpus come in one order of the epoch, as if they were shuffled together. Their
    /// tokens have to be stored in token shards.
    pub shuffle_global: bool,
    /// How many splits are read side by side, so that neighbouring documents come from different places; 1 reads one
    /// split after the other. [`Source::interleave`](super::Source::interleave) gives a good number.
    pub interleave: usize,
    /// How many times the corpus is read; endless if `None`.
    pub epochs: Option<u64>,
    /// Which documents are left out.
    pub holdout: Holdout,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            lane: 0,
            lanes: 1,
            seed: 0,
            shuffle_splits: false,
            shuffle_global: false,
            interleave: 1,
            epochs: Some(1),
            holdout: Holdout::default(),
        }
    }
}

impl Lane {
    /// The splits that the lane reads in `epoch`, in order, out of `splits`.
    ///
    /// Together, all lanes read each split once. The epoch's order is a permutation keyed by seed and epoch; lane l takes
    /// its places l, l + lanes, l + 2 lanes and so on.
    pub(crate) fn deal(&self, splits: Range<u32>, epoch: u64) -> Vec<u32> {
        let order = self.order(splits.len(), epoch);
        let mine = |place: u32| splits.start + order.as_ref().map_or(place, |order| order[place as usize]);
        (0..splits.len() as u32).skip(self.lane).step_by(self.lanes).map(mine).collect()
    }

    /// The lane that reads `split` in `epoch`, and the split's ordinal among the lane's, from 0: the place that it has in
    /// [`deal`](Self::deal). All lanes are like this one.
    pub(crate) fn dealt_to(&self, splits: Range<u32>, split: u32, epoch: u64) -> (usize, u64) {
        let nth = split - splits.start;
        let place = match self.order(splits.len(), epoch) {
            Some(order) => {
                order.into_iter().position(|place| place == nth).expect("a split among those that are dealt")
            }
            None => nth as usize,
        };
        (place % self.lanes, (place / self.lanes) as u64)
    }

    /// The epoch's order of so many splits; `None` if it is that of the files.
    fn order(&self, splits: usize, epoch: u64) -> Option<Vec<u32>> {
        self.shuffle_splits.then(|| permutation("millstream splits", &[self.seed, epoch], splits))
    }
}
