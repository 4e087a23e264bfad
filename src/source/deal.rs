//! Which splits of an epoch a lane reads, and in which order. A split is one file.

use crate::order::permutation;

/// The files that `lane` of `lanes` reads in `epoch`, in order, out of `files`.
///
/// All lanes together read each file once. The epoch's order is a permutation keyed by seed and epoch,
/// and lane l takes its places l, l + lanes, l + 2 lanes and so on.
pub(super) fn deal(
    files: usize,
    shuffle: bool,
    seed: u64,
    epoch: u64,
    lane: usize,
    lanes: usize,
) -> Vec<u32> {
    if shuffle {
        permutation("millstream splits", &[seed, epoch], files)
            .into_iter()
            .skip(lane)
            .step_by(lanes)
            .collect()
    } else {
        (0..files as u32).skip(lane).step_by(lanes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_take_turns_in_the_epochs_order() {
        assert_eq!(deal(5, false, 1, 0, 0, 2), [0, 2, 4]);
        assert_eq!(deal(5, false, 1, 9, 1, 2), [1, 3]);
        assert_eq!(deal(1, false, 1, 0, 1, 2), [0; 0]);
        let order = permutation("millstream splits", &[1, 3], 5);
        assert_eq!(deal(5, true, 1, 3, 0, 2), [order[0], order[2], order[4]]);
        assert_eq!(deal(5, true, 1, 3, 1, 2), [order[1], order[3]]);
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let order = |seed, epoch| deal(50, true, seed, epoch, 0, 1);
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }
}
