//! The changes of a stream during a run, which a repetition of the run must make too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Something that changed the stream at a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// From this batch on, the sources have these shares, in parts of their sum. Sources without a share are
    /// left out.
    Weights {
        /// The first batch.
        batch: u64,
        /// Its first row.
        row: u64,
        /// The shares by the sources' names.
        shares: BTreeMap<String, u32>,
    },
    /// The batches `from..to` were read but not delivered.
    ExcludedBatches {
        /// The first excluded batch.
        from: u64,
        /// The batch after the last excluded one.
        to: u64,
    },
    /// From this batch on, these documents are left out.
    ExcludedDocuments {
        /// The batch at which the stream was resumed without them.
        batch: u64,
        /// The documents.
        documents: Vec<ExcludedDocument>,
        /// Where they are, by the names of the sources that have them: the number of the file in its source, and the byte.
        /// It holds wherever the corpus moves.
        places: BTreeMap<String, Vec<(u32, u64)>>,
    },
}

/// A document, as `inspect` names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExcludedDocument {
    /// Its file, spelled as its source's paths spell it.
    pub path: PathBuf,
    /// Where it begins in the file, in bytes.
    pub byte: u64,
}
