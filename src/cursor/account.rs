//! The ledger of a cursor: the sum over its lanes.

use super::{Cursor, Ledger, SourceLedger};

impl Cursor {
    /// What became of every document and id up to this cursor, since the run began. A rank's cursor counts what its own
    /// lanes delivered; [merged](Cursor::merge), they count all.
    ///
    /// Documents that were skipped while they were read, or by a window of the shuffle that is being delivered, are
    /// counted when the window has been delivered.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger {
            sources: self.sources().iter().map(|name| (name.clone(), SourceLedger::default())).collect(),
            padding: 0,
        };
        self.count_into(&mut ledger);
        ledger
    }

    /// Puts the numbers of this cursor's ledger into one of the same sources.
    pub(crate) fn count_into(&self, ledger: &mut Ledger) {
        ledger.padding = self.lanes.iter().flatten().map(|lane| lane.padding).sum();
        for (nth, (_, all)) in ledger.sources.iter_mut().enumerate() {
            // This is done for each batch: one sum, which is written once, takes the least time.
            let mut sum = SourceLedger::default();
            for source in self.lanes.iter().flatten().filter_map(|lane| lane.sources.get(nth)) {
                sum += source.ledger;
                sum.skipped += source.at.all_skipped();
            }
            *all = sum;
        }
    }
}
