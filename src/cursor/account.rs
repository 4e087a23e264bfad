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
        let mut ledger = Ledger {
            sources: self.sources().iter().map(|name| (name.clone(), SourceLedger::default())).collect(),
            ..Ledger::default()
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
        if self.ledger_by.is_some() {
            self.count_values_into(ledger);
        }
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

    /// Adds what a row of `lane` holds of each value.
    #[cold]
    pub(crate) fn add_row_values(
        &mut self,
        lane: usize,
        row: RowAccount,
        values: Vec<(Cow<'_, str>, SourceLedger)>,
    ) {
        if let Some(source) = row.source {
            self.known(lane).add_values(source, values);
        }
    }

    /// Adds what a row of `lane` holds of each value if it is made and not delivered.
    #[cold]
    pub(crate) fn exclude_row_values(
        &mut self,
        lane: usize,
        row: RowAccount,
        mut values: Vec<(Cow<'_, str>, SourceLedger)>,
    ) {
        values.iter_mut().for_each(|(_, ledger)| *ledger = ledger.as_excluded());
        self.add_row_values(lane, row, values);
    }

    /// Puts the numbers of the values into a ledger of the same sources.
    #[cold]
    fn count_values_into(&self, ledger: &mut Ledger) {
        ledger.values.clear();
        for lane in self.lanes.iter().flatten() {
            for (name, values) in self.sources.iter().zip(lane.sources.iter().map(|source| &source.values)) {
                values.iter().for_each(|values| ledger.add_values(name, values));
            }
        }
    }
}
