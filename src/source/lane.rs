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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lane: usize, lanes: usize, shuffle_splits: bool, seed: u64) -> Lane {
        Lane { lane, lanes, seed, shuffle_splits, ..Lane::default() }
    }

    #[test]
    fn lanes_take_turns_in_the_epochs_order() {
        assert_eq!(of(0, 2, false, 1).deal(0..5, 0), [0, 2, 4]);
        assert_eq!(of(1, 2, false, 1).deal(7..12, 9), [8, 10]);
        assert_eq!(of(1, 2, false, 1).deal(0..1, 0), [0; 0]);
        let order = permutation("millstream splits", &[1, 3], 5);
        assert_eq!(of(0, 2, true, 1).deal(0..5, 3), [order[0], order[2], order[4]]);
        assert_eq!(of(1, 2, true, 1).deal(7..12, 3), [7 + order[1], 7 + order[3]]);
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let order = |seed, epoch| of(0, 1, true, seed).deal(0..50, epoch);
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }

    proptest! {
        #[test]
        fn each_split_comes_to_one_lane(
            first in 0_u32..1000,
            n in 0_u32..3000,
            lanes in 1_usize..70,
            shuffle in any::<bool>(),
            seed in any::<u64>(),
            epoch in any::<u64>(),
        ) {
            let deals: Vec<_> =
                (0..lanes).map(|lane| of(lane, lanes, shuffle, seed).deal(first..first + n, epoch)).collect();
            let even = n as usize / lanes;
            prop_assert!(deals.iter().all(|deal| deal.len() == even || deal.len() == even + 1));
            for split in (first..first + n).step_by(1 + n as usize / 3) {
                let (lane, ordinal) = of(0, lanes, shuffle, seed).dealt_to(first..first + n, split, epoch);
                prop_assert_eq!(deals[lane][ordinal as usize], split);
            }
            let mut dealt = deals.concat();
            dealt.sort_unstable();
            prop_assert!(dealt.into_iter().eq(first..first + n));
        }
    }
}
