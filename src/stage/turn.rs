//! The turns and rows that lanes give, one after the other.

use crate::cursor::{LaneCursor, LaneStep, Tracked};
use crate::document::Sequence;

/// A lane's output at its turn: one row or one group of rows, and the step that advances the lane.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(super) rows: Rows,
    pub(super) step: LaneStep,
    /// Whether it belongs to the lane's own epochs, and does not just keep step with longer lanes.
    pub(super) is_own: bool,
}

/// The rows of a turn.
#[derive(Clone, Debug)]
pub(super) enum Rows {
    One(Sequence),
    Many(Vec<Sequence>),
}

impl Turn {
    pub(super) fn new(row: Sequence, step: LaneStep, is_own: bool) -> Self {
        Self { rows: Rows::One(row), step, is_own }
    }

    /// Whether it belongs to the lane's own epochs.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// A turn of a lane that has ended: a row of padding, `width` ids long.
    pub(super) fn padding(width: usize) -> Self {
        Self::new(Sequence::new(Vec::new(), width), LaneStep::Pad, false)
    }
}

impl From<Tracked<Sequence>> for Turn {
    /// A turn of a lane of one source.
    fn from(Tracked { value, cursor }: Tracked<Sequence>) -> Self {
        Self::new(value, LaneStep::Row { source: 0, at: cursor }, true)
    }
}

/// A turn and its lane.
#[derive(Clone, Debug)]
pub struct Row {
    pub(super) lane: usize,
    pub(super) turn: Turn,
}

impl Row {
    /// Returns a row of `lane`, with the cursor to resume that lane's only source after it.
    pub fn new(lane: usize, sequence: Sequence, cursor: LaneCursor) -> Self {
        Self { lane, turn: Tracked::new(sequence, cursor).into() }
    }
}

impl From<Tracked<Sequence>> for Row {
    /// A row of the only lane.
    fn from(row: Tracked<Sequence>) -> Self {
        Self { lane: 0, turn: row.into() }
    }
}
