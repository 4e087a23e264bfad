//! All documents of a source whose tokens are stored, in one order for each epoch.
//!
//! The order is a permutation keyed by seed and epoch, and lane l takes its places l, l + lanes, l + 2 lanes and so on.
//! Nothing is held per document: a place gives the document's number, and the number of documents up to the end of each
//! split gives its split.

use std::sync::Arc;

use crate::order::Scatter;
use crate::source::lane::Lane;

/// The domain of the permutation, besides the seed and the epoch.
const DOMAIN: &str = "millstream documents";

/// One lane's documents of an epoch.
#[derive(Debug)]
pub(crate) struct DocumentOrder {
    /// For each split, how many documents there are up to its end.
    ends: Arc<[u64]>,
    lane: u64,
    lanes: u64,
    epoch: u64,
    scatter: Scatter,
}

/// A document: the number of its split in the source, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DocumentNumber {
    pub(crate) split: u32,
    pub(crate) nth: usize,
}

impl DocumentOrder {
    /// The order of `epoch`, where `ends` says how many documents there are up to the end of each split.
    pub(crate) fn new(ends: Arc<[u64]>, lane: Lane, epoch: u64) -> Self {
        let scatter = Scatter::new(DOMAIN, &[lane.seed, epoch], ends.last().copied().unwrap_or_default());
        Self { ends, lane: lane.lane as u64, lanes: lane.lanes as u64, epoch, scatter }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many documents the lane has in an epoch.
    pub(crate) fn len(&self) -> u64 {
        (self.scatter.len() + self.lanes - 1 - self.lane) / self.lanes
    }

    /// The lane of a document, and the document's place in that lane's order.
    pub(crate) fn find(&self, DocumentNumber { split, nth }: DocumentNumber) -> (usize, u64) {
        let before = (split as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        let place = self.scatter.place_of(before + nth as u64);
        ((place % self.lanes) as usize, place / self.lanes)
    }

    /// The lane's document at `place`, which must be less than the length.
    pub(crate) fn at(&self, place: u64) -> DocumentNumber {
        let document = self.scatter.at(self.lane + place * self.lanes);
        let split = self.ends.partition_point(|&end| end <= document);
        let before = split.checked_sub(1).map_or(0, |before| self.ends[before]);
        DocumentNumber { split: split as u32, nth: (document - before) as usize }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn orders(documents: &[u64], lanes: usize, seed: u64, epoch: u64) -> Vec<DocumentOrder> {
        let mut sum = 0;
        let end = |documents: &u64| {
            sum += documents;
            sum
        };
        let ends: Arc<[u64]> = documents.iter().map(end).collect();
        let lane = |lane| Lane { lane, lanes, seed, ..Lane::default() };
        (0..lanes).map(|number| DocumentOrder::new(ends.clone(), lane(number), epoch)).collect()
    }

    fn all(order: &DocumentOrder) -> Vec<(u32, usize)> {
        (0..order.len()).map(|place| order.at(place)).map(|found| (found.split, found.nth)).collect()
    }

    #[test]
    fn epochs_and_seeds_differ_and_lanes_take_turns() {
        let one = |seed, epoch| all(&orders(&[20, 0, 30], 1, seed, epoch)[0]);
        assert_ne!(one(1, 0), one(1, 1));
        assert_ne!(one(1, 0), one(2, 0));
        let two = orders(&[20, 0, 30], 2, 1, 0);
        let turns = all(&two[0]).into_iter().zip(all(&two[1])).flat_map(|(a, b)| [a, b]);
        assert!(turns.eq(one(1, 0)));
    }

    proptest! {
        #[test]
        fn each_document_comes_to_one_lane(
            documents in prop::collection::vec(0_u64..40, 0..30),
            lanes in 1_usize..20,
            seed: u64,
            epoch: u64,
        ) {
            let orders = orders(&documents, lanes, seed, epoch);
            for (lane, order) in orders.iter().enumerate() {
                let places = (0..order.len()).map(|place| (lane, place));
                prop_assert!((0..order.len()).map(|place| orders[0].find(order.at(place))).eq(places));
            }
            let mut found = orders.iter().flat_map(all).collect::<Vec<_>>();
            found.sort_unstable();
            let expected = (0..).zip(&documents).flat_map(|(split, &n)| (0..n as usize).map(move |nth| (split, nth)));
            prop_assert!(found.into_iter().eq(expected));
        }
    }
}
