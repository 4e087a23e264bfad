//! One lane's part of a cursor.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ByValue, Digest, LaneCursor, Omitted, RowAccount, SourceLedger, is_zero};

/// Where one lane is: the place in each of its sources, and a digest of what it has delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneState {
    /// Rows that the lane has taken from its sources, including padding rows at its end. If batches have a
    /// token budget: the rows before the window that is being delivered.
    pub rows: u64,
    /// Groups of that window that were delivered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// The digest of all rows that were delivered.
    pub digest: Digest,
    /// Targets that are missing in its rows of padding; in the first lane of a rank, also in those that fill the last batch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub padding: u64,
    /// The place in each source.
    pub sources: Vec<SourceState>,
}

/// Where one lane is in one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceState {
    /// Rows that came from it.
    pub rows: u64,
    /// Where its next row begins.
    pub at: LaneCursor,
    /// After how many epochs it began again, if it did: `pipeline.uneven = "wrap"` has the lane keep step with longer ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapped_after: Option<u64>,
    /// What became of what it gave.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ledger: SourceLedger,
    /// The same by the values of `pipeline.ledger_by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<Arc<ByValue>>,
}

/// How one turn advances a lane.
#[derive(Clone, Debug)]
pub(crate) enum LaneStep {
    Pad,
    /// A row of a source, and the place where it leaves that source.
    Row {
        source: usize,
        at: LaneCursor,
        wrapped_after: Option<u64>,
    },
    /// A group of the window that begins at `anchor`. `skip` of the window's groups are delivered by now. The
    /// anchor's digest and ledgers are not used.
    Window {
        anchor: Arc<LaneState>,
        skip: u64,
    },
}

impl LaneState {
    /// A lane before its first row.
    pub(crate) fn start(sources: usize) -> Self {
        Self { sources: vec![SourceState::default(); sources], ..Self::default() }
    }

    /// Whether one of its sources has begun again.
    pub(crate) fn has_wrapped(&self) -> bool {
        self.sources.iter().any(|source| source.wrapped_after.is_some())
    }

    /// Adds a row that was delivered to the ledger.
    #[inline]
    pub(super) fn add_row(&mut self, row: RowAccount) {
        let Some(source) = row.source else {
            self.padding += u64::from(row.padding);
            return;
        };
        let ledger = &mut self.sources[source as usize].ledger;
        ledger.documents += u64::from(row.documents);
        ledger.learned += u64::from(row.learned);
        ledger.masked += u64::from(row.masked);
        ledger.first += u64::from(row.first);
        ledger.padding += u64::from(row.padding);
    }

    /// Adds what a source gave and no row delivers. A row of padding has no source, and was not delivered.
    #[inline]
    pub(super) fn leave_out(&mut self, source: Option<u32>, left_out: Option<&Omitted>) {
        if let (Some(source), Some(left_out)) = (source, left_out) {
            self.sources[source as usize].ledger += left_out.all;
            if let Some(values) = &left_out.values {
                self.add_values(source, values.iter());
            }
        }
    }

    /// Adds what became of some ids of a source.
    #[cold]
    pub(super) fn add_values(
        &mut self,
        source: u32,
        values: impl IntoIterator<Item = (impl AsRef<str>, SourceLedger)>,
    ) {
        let own = Arc::make_mut(self.sources[source as usize].values.get_or_insert_default());
        values.into_iter().for_each(|(value, ledger)| own.add_within_bounds(value.as_ref(), ledger));
    }

    pub(crate) fn advance(&mut self, step: LaneStep) {
        match step {
            LaneStep::Pad => self.rows += 1,
            LaneStep::Row { source, at, wrapped_after } => {
                self.rows += 1;
                let source = &mut self.sources[source];
                source.rows += 1;
                (source.at, source.wrapped_after) = (at, wrapped_after);
            }
            LaneStep::Window { anchor, skip } => {
                self.rows = anchor.rows;
                for (source, before) in self.sources.iter_mut().zip(&anchor.sources) {
                    (source.rows, source.at) = (before.rows, before.at);
                    source.wrapped_after = before.wrapped_after;
                }
                self.skip = skip;
            }
        }
    }
}
