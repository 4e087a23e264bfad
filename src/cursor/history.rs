//! What a run was told on the way, and would have to be told again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Something that changed the stream at a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// From a batch on the sources have these shares, in parts of their sum; sources of no share are left out.
    Weights {
        /// The first batch.
        batch: u64,
        /// Its first row.
        row: u64,
        /// The shares by the sources' names.
        shares: BTreeMap<String, u32>,
    },
    /// The batches `from..to` were read and not delivered.
    ExcludedBatches {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// These documents are left out from a batch on.
    ExcludedDocuments {
        /// The batch that the stream was resumed at with them.
        batch: u64,
        /// The documents.
        documents: Vec<ExcludedDocument>,
    },
}

/// A document, as `inspect` names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExcludedDocument {
    /// Its file, as the paths of its source name it.
    pub path: PathBuf,
    /// Where it begins in the file, in bytes.
    pub byte: u64,
}

/// How long a finite stream is, so that no rank has to count again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Census {
    /// All that it depends on beside the fingerprint.
    pub(crate) of: String,
    /// How many turns each lane has.
    pub(crate) rounds: u64,
}
