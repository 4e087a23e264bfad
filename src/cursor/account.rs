//! The ledger of a cursor: the sum over its lanes.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Cursor, Ledger, RowAccount, SourceLedger};

impl Cursor {
    /// What became of every document and id up to this cursor, since the run began. A rank's cursor counts what its own
    /// lanes delivered; [merged](Cursor::merge), they count all.
    ///
    /// Documents that were skipped while they were read, or by a window of the shuffle that is being delivered, are
    /// counted when the window has been delivered. Those behind the last document of a lane are in no cursor: they are
    /// counted by [`Loader::ledger`](crate::Loader::ledger) once the stream has ended.
    pub fn ledger(&self) -> Ledger {
        let lanes = || self.lanes.iter().flatten();
        let mut ledger = Ledger {
            sources: self.sources().iter().map(|name| (name.clone(), SourceLedger::default())).collect(),
            padding: lanes().map(|lane| lane.padding).sum(),
            ..Ledger::default()
        };
        for lane in lanes() {
            for ((_, sum), source) in ledger.sources.iter_mut().zip(&lane.sources) {
                *sum += source.ledger;
                sum.skipped += source.at.all_skipped();
            }
            for (name, source) in self.sources.iter().zip(&lane.sources) {
                source.values.iter().for_each(|values| ledger.add_values(name, values));
            }
        }
        ledger
    }

    /// The column by whose values the ledger counts, `pipeline.ledger_by`.
    pub fn ledger_by(&self) -> Option<&str> {
        self.ledger_by.as_deref()
    }

    /// Counts by the values of a column from here on; the cursor is that of a stream's beginning.
    pub(crate) fn count_by(&mut self, column: Option<&str>) {
        self.ledger_by = column.map(Arc::from);
    }

    /// Adds targets that rows of padding lack, which no lane gave: they count in the first lane that is known.
    pub(crate) fn add_padding(&mut self, targets: u64) {
        if let Some(lane) = self.lanes.iter_mut().flatten().next() {
            lane.padding += targets;
        }
    }

    /// Adds what a row of `lane` holds of each value of the column that the ledger counts by, if there is one. A row that
    /// is excluded is made and not delivered.
    #[inline]
    pub(crate) fn add_row_values<'a>(
        &mut self,
        lane: usize,
        row: RowAccount,
        is_excluded: bool,
        values: impl FnOnce(&str) -> Vec<(Cow<'a, str>, SourceLedger)>,
    ) {
        if let Some((column, source)) = self.ledger_by.clone().zip(row.source) {
            let mut values = values(&column);
            if is_excluded {
                values.iter_mut().for_each(|(_, ledger)| *ledger = ledger.as_excluded());
            }
            self.known(lane).add_values(source, values);
        }
    }
}
