//! One lane's part of a cursor.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Digest, LaneCursor, SourceLedger, is_zero};

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
    /// Targets that are missing in its rows of padding.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub padding: u64,
    /// The place in each source.
    pub sources: Vec<SourceState>,
}

/// Where one lane is in one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceState {
    /// Rows that came from it.
    pub rows: u64,
    /// Where its next row begins.
    pub at: LaneCursor,
    /// What became of what it gave.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ledger: SourceLedger,
}

/// How one turn advances a lane.
#[derive(Clone, Debug)]
pub(crate) enum LaneStep {
    Pad,
    /// A row of a source, and the place where it leaves that source.
    Row {
        source: usize,
        at: LaneCursor,
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

    /// Adds a row of a source, and what was left out before it, to the ledger.
    #[inline]
    pub(super) fn account(
        &mut self,
        source: Option<u32>,
        row: &SourceLedger,
        left_out: Option<&SourceLedger>,
    ) {
        let Some(source) = source else {
            self.padding += row.padding;
            return;
        };
        let ledger = &mut self.sources[source as usize].ledger;
        *ledger += *row;
        if let Some(left_out) = left_out {
            *ledger += *left_out;
        }
    }

    pub(crate) fn advance(&mut self, step: LaneStep) {
        match step {
            LaneStep::Pad => self.rows += 1,
            LaneStep::Row { source, at } => {
                self.rows += 1;
                let source = &mut self.sources[source];
                source.rows += 1;
                source.at = at;
            }
            LaneStep::Window { anchor, skip } => {
                self.rows = anchor.rows;
                for (source, before) in self.sources.iter_mut().zip(&anchor.sources) {
                    (source.rows, source.at) = (before.rows, before.at);
                }
                self.skip = skip;
            }
        }
    }
}
