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
