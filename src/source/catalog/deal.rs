//! Which splits of an epoch a lane reads, and in which order.

use std::ops::Range;

use crate::order::permutation;
use crate::source::lane::Lane;

/// The splits that a lane reads in `epoch`, in order, out of `splits`.
///
/// Together, all lanes read each split once. The epoch's order is a permutation keyed by seed and epoch; lane l takes
/// its places l, l + lanes, l + 2 lanes and so on.
pub(crate) fn deal(splits: Range<u32>, lane: &Lane, epoch: u64) -> Vec<u32> {
    let &Lane { lane, lanes, seed, shuffle_splits, .. } = lane;
    if shuffle_splits {
        let order = permutation("millstream splits", &[seed, epoch], splits.len());
        order.into_iter().skip(lane).step_by(lanes).map(|place| splits.start + place).collect()
    } else {
        splits.skip(lane).step_by(lanes).collect()
    }
}

/// The lane that reads `split` in `epoch`, and the split's ordinal among the lane's, from 0: the place that it has in
/// [`deal`]. All lanes are like `lane`.
pub(crate) fn dealt_to(splits: Range<u32>, split: u32, lane: &Lane, epoch: u64) -> (usize, u64) {
    let &Lane { lanes, seed, shuffle_splits, .. } = lane;
    let nth = split - splits.start;
    let place = match shuffle_splits {
        true => permutation("millstream splits", &[seed, epoch], splits.len())
            .into_iter()
            .position(|place| place == nth)
            .expect("a split among those that are dealt"),
        false => nth as usize,
    };
    (place % lanes, (place / lanes) as u64)
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
        assert_eq!(deal(0..5, &of(0, 2, false, 1), 0), [0, 2, 4]);
        assert_eq!(deal(7..12, &of(1, 2, false, 1), 9), [8, 10]);
        assert_eq!(deal(0..1, &of(1, 2, false, 1), 0), [0; 0]);
        let order = permutation("millstream splits", &[1, 3], 5);
        assert_eq!(deal(0..5, &of(0, 2, true, 1), 3), [order[0], order[2], order[4]]);
        assert_eq!(deal(7..12, &of(1, 2, true, 1), 3), [7 + order[1], 7 + order[3]]);
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let order = |seed, epoch| deal(0..50, &of(0, 1, true, seed), epoch);
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
                (0..lanes).map(|lane| deal(first..first + n, &of(lane, lanes, shuffle, seed), epoch)).collect();
            let even = n as usize / lanes;
            prop_assert!(deals.iter().all(|deal| deal.len() == even || deal.len() == even + 1));
            for split in (first..first + n).step_by(1 + n as usize / 3) {
                let (lane, ordinal) = dealt_to(first..first + n, split, &of(0, lanes, shuffle, seed), epoch);
                prop_assert_eq!(deals[lane][ordinal as usize], split);
            }
            let mut dealt = deals.concat();
            dealt.sort_unstable();
            prop_assert!(dealt.into_iter().eq(first..first + n));
        }
    }
}
