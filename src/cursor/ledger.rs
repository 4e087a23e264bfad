//! What became of every id, up to a cursor.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};

use serde::{Deserialize, Serialize};

use super::is_zero;

/// What became of the documents and ids of one source: each is in exactly one of these numbers.
///
/// Ids are counted where they are packed: with those that the tokenizer or a chat's template put around the text, and as
/// a custom stage for tokens left them. What a custom stage leaves out is in no number. What was read and is not yet in
/// a batch is in none either: it is not yet reached.
///
/// ```
/// use millstream::cursor::{LeftOut, SourceLedger};
///
/// let cut = LeftOut { documents: 1, ids: 70 };
/// let ledger = SourceLedger { documents: 2, learned: 30, masked: 9, first: 1, cut, ..SourceLedger::default() };
/// assert_eq!(ledger.ids(), 30 + 9 + 1 + 70);
/// assert_eq!(ledger.all_documents(), 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceLedger {
    /// Documents whose first id was delivered.
    #[serde(skip_serializing_if = "is_zero")]
    pub documents: u64,
    /// Ids that were delivered as targets. With several targets for each input, those one id ahead count.
    #[serde(skip_serializing_if = "is_zero")]
    pub learned: u64,
    /// Ids that were delivered and are masked: inputs, and no targets.
    #[serde(skip_serializing_if = "is_zero")]
    pub masked: u64,
    /// Ids that were delivered only as the first input of a row, where no id comes before them.
    #[serde(skip_serializing_if = "is_zero")]
    pub first: u64,
    /// What does not fit a row, and may not be cut in two.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: LeftOut,
    /// What `pipeline.exclude` leaves out.
    #[serde(skip_serializing_if = "is_zero")]
    pub excluded: LeftOut,
    /// Documents that have no ids: they could not be read or tokenized and `on_error` let them be skipped, their task or
    /// their length leaves them out, or nothing of them would be learned from.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Targets that the rows of the source lack, which padding takes the place of: also that of excluded documents. No ids
    /// of the source.
    #[serde(skip_serializing_if = "is_zero")]
    pub padding: u64,
}

/// Documents that are left out, and their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// The number of documents.
    pub documents: u64,
    /// The number of ids.
    pub ids: u64,
}

/// What became of every document and id of a stream, by source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The sources by name, in the order of the config.
    pub sources: Vec<(String, SourceLedger)>,
    /// Targets that are missing in rows of padding, which no source made: those of lanes that have ended before others, and
    /// those that `pipeline.last = "pad"` adds to the last batch.
    pub padding: u64,
    /// The same by the values of the column that `pipeline.ledger_by` names, of each source by name; empty if it names none.
    /// The values of a source add up to its own numbers, but for `skipped` and `padding`: these are of no value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, BTreeMap<String, SourceLedger>>,
}

/// What a row holds, for the ledger.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowAccount {
    /// `None` for a row of padding, which no source gave.
    pub(crate) source: Option<u32>,
    pub(crate) documents: u32,
    pub(crate) learned: u32,
    pub(crate) masked: u32,
    pub(crate) first: u32,
    pub(crate) padding: u32,
}

impl RowAccount {
    /// What becomes of it if the row is not delivered.
    pub(crate) fn excluded(self) -> SourceLedger {
        let ids = u64::from(self.learned) + u64::from(self.masked) + u64::from(self.first);
        LeftOut { documents: self.documents.into(), ids }.as_excluded()
    }

    /// The places of the row whose ids count in it, and in no other row that they are also in.
    pub(crate) fn counted_places(self) -> Range<usize> {
        let (learned, masked, first) = (self.learned as usize, self.masked as usize, self.first as usize);
        1 - first..learned + masked + 1
    }
}

impl LeftOut {
    /// As a ledger of what is excluded.
    pub(crate) fn as_excluded(self) -> SourceLedger {
        SourceLedger { excluded: self, ..SourceLedger::default() }
    }
}

impl SourceLedger {
    /// All ids that are counted here.
    pub fn ids(&self) -> u64 {
        self.delivered() + self.cut.ids + self.excluded.ids
    }

    /// The ids that were delivered: each once, though rows overlap.
    pub fn delivered(&self) -> u64 {
        self.learned + self.masked + self.first
    }

    /// All documents that are counted here.
    pub fn all_documents(&self) -> u64 {
        self.documents + self.cut.documents + self.excluded.documents + self.skipped
    }

    /// What was delivered, as what is excluded.
    pub(super) fn as_excluded(&self) -> Self {
        LeftOut { documents: self.documents, ids: self.delivered() }.as_excluded()
    }

    /// The numbers by name: of ids, but for those whose names begin with "documents".
    pub fn numbers(&self) -> [(&'static str, u64); 10] {
        let Self { documents, learned, masked, first, cut, excluded, skipped, padding } = *self;
        [
            ("documents", documents),
            ("learned", learned),
            ("masked", masked),
            ("first", first),
            ("cut", cut.ids),
            ("excluded", excluded.ids),
            ("documents_cut", cut.documents),
            ("documents_excluded", excluded.documents),
            ("documents_skipped", skipped),
            ("padding", padding),
        ]
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, Self { documents, ids }: Self) {
        self.documents += documents;
        self.ids += ids;
    }
}

impl AddAssign for SourceLedger {
    fn add_assign(&mut self, other: Self) {
        let Self { documents, learned, masked, first, cut, excluded, skipped, padding } = other;
        self.documents += documents;
        self.learned += learned;
        self.masked += masked;
        self.first += first;
        self.cut += cut;
        self.excluded += excluded;
        self.skipped += skipped;
        self.padding += padding;
    }
}
