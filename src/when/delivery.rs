//! Which pieces are of one delivery of a document: a lane delivers it once in an epoch, in one piece or several.

use std::collections::{BTreeSet, HashMap};

/// A document, by its file and the byte where it begins, in a lane.
pub(super) type Key = (u32, u64, usize);

/// The last delivery of each document in each lane.
#[derive(Debug, Default)]
pub(super) struct Deliveries(HashMap<Key, Delivery>);

#[derive(Debug)]
struct Delivery {
    epoch: Option<u64>,
    offsets: BTreeSet<u32>,
    /// Where the last piece begins in the document, and whether the next row repeats all of it.
    last: u32,
    is_tail: bool,
}

impl Deliveries {
    /// If the piece that begins at `offset` of the document is of the last delivery, the epoch of that. `is_repeated` says
    /// that it begins among the ids that a row repeats from the one before, and `is_tail` that the next row repeats it.
    pub(super) fn same(
        &mut self,
        key: Key,
        offset: u32,
        is_repeated: bool,
        is_tail: bool,
    ) -> Option<Option<u64>> {
        let delivery = self.0.get_mut(&key)?;
        let is_again = delivery.is_tail && is_repeated && delivery.last == offset;
        // A delivery has each offset once, but for repetitions.
        if !delivery.offsets.insert(offset) && !is_again {
            return None;
        }
        (delivery.last, delivery.is_tail) = (offset, is_tail);
        Some(delivery.epoch)
    }

    /// The epoch of the last delivery, if there was one.
    pub(super) fn last(&self, key: Key) -> Option<Option<u64>> {
        self.0.get(&key).map(|delivery| delivery.epoch)
    }

    pub(super) fn begin(&mut self, key: Key, offset: u32, is_tail: bool, epoch: Option<u64>) {
        self.0.insert(key, Delivery { epoch, offsets: BTreeSet::from([offset]), last: offset, is_tail });
    }
}
