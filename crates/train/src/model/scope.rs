//! Says which ids of a batch are targets.

use std::ops::Range;

use crate::config::TrainConfig;
use millstream::batch::{Batch, Piece};

/// The ids that the model sees as one text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// A row, whichever documents it is packed from: every id but the first is a target, unless it is masked.
    #[default]
    Row,
    /// A document in a row: no place sees another document, positions begin at 0 in each document, and a document's
    /// first id is not a target. Nor is an id that is masked.
    Document,
}

impl Scope {
    /// Returns the scope that `train.mask_documents` sets.
    pub fn from_config(config: &TrainConfig) -> Self {
        if config.mask_documents { Self::Document } else { Self::Row }
    }

    /// The targets of `batch`: rows and ranges of places in them, without empty ranges.
    pub fn targets(self, batch: &Batch) -> Vec<(usize, Range<usize>)> {
        let end = |length: u32| (length as usize).min(batch.seq_len() + 1);
        match self {
            Self::Row => {
                let rows = batch.lengths().iter().enumerate();
                let targets = rows.map(|(row, &length)| (row, batch.learned_in(row, 1..end(length))));
                targets.flat_map(|(row, targets)| targets.map(move |ids| (row, ids))).collect()
            }
            Self::Document => batch.targets_within_documents().collect(),
        }
    }

    /// The places of the targets in one of the pieces of `batch`, without empty ranges.
    pub fn targets_in(self, batch: &Batch, piece: &Piece) -> impl Iterator<Item = Range<usize>> {
        let first = match self {
            Self::Row => piece.from.max(1),
            Self::Document => piece.from + 1,
        };
        let end = (piece.to as usize).min(batch.seq_len() + 1);
        batch.learned_in(piece.row as usize, first as usize..end)
    }

    /// The number of targets.
    pub fn tokens(self, batch: &Batch) -> usize {
        self.targets(batch).iter().map(|(_, ids)| ids.len()).sum()
    }

    /// The length of the text that the targets stand for, in bytes.
    pub fn text_bytes(self, batch: &Batch) -> u64 {
        match self {
            Self::Row => batch.text_bytes(),
            Self::Document => batch.text_bytes_within_documents(),
        }
    }
}
