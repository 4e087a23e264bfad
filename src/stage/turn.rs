//! The turns and rows that lanes give, one after the other.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::RowBlock;
use crate::cursor::{LaneCursor, LaneStep, Tracked};
use crate::document::Sequence;
use crate::files::Position;

/// A lane's output at its turn: one row or one group of rows, and the step that advances the lane.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(super) rows: Rows,
    pub(super) step: LaneStep,
    /// Whether it belongs to the lane's own epochs, and does not just keep step with longer lanes.
    pub(super) is_own: bool,
}

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

    /// Takes `documents` out of its rows: the numbers of their files, and the bytes where they begin. A batch has targets for
    /// so many ids `ahead`. What is left out counts by the values of a column, too.
    pub(crate) fn without(
        self,
        documents: &HashSet<(u32, u64)>,
        ahead: usize,
        ledger_by: Option<&str>,
    ) -> Self {
        let is_excluded = |document: &Position| documents.contains(&(document.file, document.byte));
        let without = |row: Sequence| row.without(is_excluded, ahead, ledger_by);
        let rows = match self.rows {
            Rows::One(row) => Rows::One(without(row)),
            Rows::Many(rows) => Rows::Many(rows.into_iter().map(without).collect()),
        };
        Self { rows, ..self }
    }
}

impl Rows {
    pub(super) fn as_slice(&self) -> &[Sequence] {
        match self {
            Self::One(row) => std::slice::from_ref(row),
            Self::Many(rows) => rows,
        }
    }
}

/// A turn on its way into a batch. The ids of its rows are still with their documents, or in a block of the lane.
#[derive(Clone, Debug)]
pub struct DealtTurn {
    pub(super) rows: DealtRows,
    pub(super) step: LaneStep,
    pub(super) is_own: bool,
}

#[derive(Clone, Debug)]
pub(super) enum DealtRows {
    Uncopied(Rows),
    Copied(Arc<RowBlock>, Range<usize>),
}

impl DealtRows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Uncopied(rows) => rows.as_slice().len(),
            Self::Copied(_, rows) => rows.len(),
        }
    }
}

impl DealtTurn {
    /// A turn of a lane that has ended: a row of padding, `width` ids long.
    pub(super) fn padding(width: usize) -> Self {
        let row = Sequence::new(Vec::new(), width).of_source(None);
        Turn::new(row, LaneStep::Pad, false).into()
    }
}

impl From<Turn> for DealtTurn {
    fn from(Turn { rows, step, is_own }: Turn) -> Self {
        Self { rows: DealtRows::Uncopied(rows), step, is_own }
    }
}

impl From<Tracked<Sequence>> for DealtTurn {
    /// A turn of a lane of one source.
    fn from(Tracked { value, cursor }: Tracked<Sequence>) -> Self {
        Turn::new(value, LaneStep::Row { source: 0, at: cursor, wrapped_after: None }, true).into()
    }
}

/// A turn and its lane.
#[derive(Clone, Debug)]
pub struct Row {
    pub(super) lane: usize,
    pub(super) turn: DealtTurn,
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
