//! A batch in; what of it is a target out.

use std::ops::Range;

use crate::batch::Batch;
use crate::config::TrainConfig;

/// What the model sees as one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A row, whatever documents it is packed of: each id but the first is a target.
    Row,
    /// A document in a row: no place sees another document, positions begin at 0 in each, and a
    /// document's first id is no target.
    Document,
}

impl Scope {
    /// What `train.mask_documents` says.
    pub fn of(config: &TrainConfig) -> Self {
        if config.mask_documents { Self::Document } else { Self::Row }
    }

    /// The targets of `batch`: rows, and places in them, without empty ones.
    pub fn targets(self, batch: &Batch) -> Vec<(usize, Range<usize>)> {
        let end = |length: u32| (length as usize).min(batch.seq_len() + 1);
        let mut targets: Vec<_> = match self {
            Self::Row => batch.lengths().iter().map(|&length| 1..end(length)).enumerate().collect(),
            Self::Document => batch.targets_within_documents().collect(),
        };
        targets.retain(|(_, ids)| !ids.is_empty());
        targets
    }

    /// How many targets there are.
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
