//! All rows of a source whose documents are already packed, in one order for each epoch.
//!
//! The order is a permutation keyed by seed and epoch, and lane l takes its places l, l + lanes, l + 2 lanes and so on.
//! Nothing is held per row.

use std::ops::Range;

use crate::order::Scatter;
use crate::source::lane::Lane;

/// The domain of the permutation, besides the seed and the epoch.
const DOMAIN: &str = "millstream rows";

/// One lane's rows of an epoch.
#[derive(Debug)]
pub(crate) struct RowPlaces {
    rows: u64,
    lane: u64,
    lanes: u64,
    epoch: u64,
    /// None if the rows come in the order in which they are stored.
    scatter: Option<Scatter>,
}

impl RowPlaces {
    /// The order of `epoch`, where there are `rows` rows.
    pub(crate) fn new(rows: u64, lane: Lane, epoch: u64, is_shuffled: bool) -> Self {
        let scatter = is_shuffled.then(|| Scatter::new(DOMAIN, &[lane.seed, epoch], rows));
        Self { rows, lane: lane.lane as u64, lanes: lane.lanes as u64, epoch, scatter }
    }

    /// The epoch that it is the order of.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many rows the lane has in an epoch.
    pub(crate) fn len(&self) -> u64 {
        of_lane(self.rows, self.lane, self.lanes)
    }

    /// The lane's rows at some places, which must be less than the length.
    pub(crate) fn at(&self, places: Range<u64>) -> Vec<u64> {
        let mut rows: Vec<u64> = places.map(|place| self.lane + place * self.lanes).collect();
        self.scatter.iter().for_each(|scatter| scatter.at_each(&mut rows));
        rows
    }
}

/// How many of `rows` rows a lane has in an epoch.
pub(crate) fn of_lane(rows: u64, lane: u64, lanes: u64) -> u64 {
    (rows + lanes - 1 - lane) / lanes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(rows: u64, lane: usize, lanes: usize, seed: u64, epoch: u64, is_shuffled: bool) -> Vec<u64> {
        let places = RowPlaces::new(rows, Lane { lane, lanes, seed, ..Lane::default() }, epoch, is_shuffled);
        places.at(0..places.len())
    }

    /// The order for a seed is public behaviour: changing these numbers breaks every cursor.
    #[test]
    fn the_order_is_the_same_for_ever() {
        assert_eq!(all(8, 0, 1, 42, 0, true), GOLDEN);
        assert_eq!(all(8, 1, 2, 42, 0, true), [GOLDEN[1], GOLDEN[3], GOLDEN[5], GOLDEN[7]]);
        assert_ne!(all(8, 0, 1, 42, 1, true), GOLDEN);
        assert_eq!(all(4, 0, 1, 42, 0, false), [0, 1, 2, 3]);
    }

    const GOLDEN: [u64; 8] = [6, 3, 7, 4, 5, 0, 1, 2];

    proptest! {
        #[test]
        fn each_row_comes_to_one_lane(rows in 0_u64..300, lanes in 1_usize..20, seed: u64, epoch: u64, is_shuffled: bool) {
            let of = |lane| all(rows, lane, lanes, seed, epoch, is_shuffled);
            let mut found: Vec<u64> = (0..lanes).flat_map(of).collect();
            found.sort_unstable();
            prop_assert!(found.into_iter().eq(0..rows));
        }
    }
}
