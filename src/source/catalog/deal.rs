//! Which splits of an epoch a lane reads, and in which order.

use std::ops::Range;

use crate::order::permutation;

/// The splits that `lane` of `lanes` reads in `epoch`, in order, out of `splits`.
///
/// Together, all lanes read each split once. The epoch's order is a permutation keyed by seed and epoch; lane l takes
/// its places l, l + lanes, l + 2 lanes and so on.
pub(crate) fn deal(
    splits: Range<u32>,
    shuffle: bool,
    seed: u64,
    epoch: u64,
    lane: usize,
    lanes: usize,
) -> Vec<u32> {
    if shuffle {
        let order = permutation("millstream splits", &[seed, epoch], splits.len());
        order.into_iter().skip(lane).step_by(lanes).map(|place| splits.start + place).collect()
    } else {
        splits.skip(lane).step_by(lanes).collect()
    }
}

/// The lane that reads `split` in `epoch`, and the split's ordinal among the lane's, from 0: the place that it has in
/// [`deal`].
pub(crate) fn dealt_to(
    splits: Range<u32>,
    split: u32,
    shuffle: bool,
    seed: u64,
    epoch: u64,
    lanes: usize,
) -> (usize, u64) {
    let nth = split - splits.start;
    let place = match shuffle {
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

    #[test]
    fn lanes_take_turns_in_the_epochs_order() {
        assert_eq!(deal(0..5, false, 1, 0, 0, 2), [0, 2, 4]);
        assert_eq!(deal(7..12, false, 1, 9, 1, 2), [8, 10]);
        assert_eq!(deal(0..1, false, 1, 0, 1, 2), [0; 0]);
        let order = permutation("millstream splits", &[1, 3], 5);
        assert_eq!(deal(0..5, true, 1, 3, 0, 2), [order[0], order[2], order[4]]);
        assert_eq!(deal(7..12, true, 1, 3, 1, 2), [7 + order[1], 7 + order[3]]);
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let order = |seed, epoch| deal(0..50, true, seed, epoch, 0, 1);
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
                (0..lanes).map(|lane| deal(first..first + n, shuffle, seed, epoch, lane, lanes)).collect();
            let even = n as usize / lanes;
            prop_assert!(deals.iter().all(|deal| deal.len() == even || deal.len() == even + 1));
            for split in (first..first + n).step_by(1 + n as usize / 3) {
                let (lane, ordinal) = dealt_to(first..first + n, split, shuffle, seed, epoch, lanes);
                prop_assert_eq!(deals[lane][ordinal as usize], split);
            }
            let mut dealt = deals.concat();
            dealt.sort_unstable();
            prop_assert!(dealt.into_iter().eq(first..first + n));
        }
    }
}
