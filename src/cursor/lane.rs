//! One lane's part of a cursor.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Digest, LaneCursor, is_zero};

/// Where one lane is: the place in each of its sources, and a digest of what it gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneState {
    /// Rows that the lane took from its sources, padding rows at its end among them. Where rows are gathered
    /// to batches of a token budget, those before the window that is being handed out.
    pub rows: u64,
    /// Groups of that window that were handed out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// The digest of all rows that were handed out.
    pub digest: Digest,
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
}

/// How one turn moves a lane on.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A row of padding.
    Pad,
    /// A row of a source, which is left at a place.
    Row { source: usize, at: LaneCursor },
    /// A group of a window that begins at `anchor`, whose digest is not looked at: `skip` of its groups are
    /// handed out now.
    Window { anchor: Arc<LaneState>, skip: u64 },
}

impl LaneState {
    /// A lane before its first row.
    pub(crate) fn start(sources: usize) -> Self {
        Self { sources: vec![SourceState::default(); sources], ..Self::default() }
    }

    pub(crate) fn advance(&mut self, step: Step) {
        match step {
            Step::Pad => self.rows += 1,
            Step::Row { source, at } => {
                self.rows += 1;
                let source = &mut self.sources[source];
                source.rows += 1;
                source.at = at;
            }
            Step::Window { anchor, skip } => {
                self.rows = anchor.rows;
                self.sources.clone_from(&anchor.sources);
                self.skip = skip;
            }
        }
    }
}
