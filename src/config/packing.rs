//! How documents fill rows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The rule by which documents fill rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PackRule {
    /// Documents are concatenated and cut every `seq_len` ids.
    #[default]
    Concat,
    /// Each document begins a new row, and continues in the next if it is longer. Rows are padded.
    Pad,
    /// Documents are placed into rows window by window, best fit first. A document that fits a row is never
    /// cut; a longer one is cut into full rows and a rest. Rows are padded.
    BestFit,
}

impl fmt::Display for PackRule {
    /// Writes the name that configs use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Everything that packing depends on. Every number is at least 1.
///
/// A row is `seq_len + ahead` ids wide: `seq_len` inputs, each with the `ahead` ids that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The rule by which documents fill rows.
    pub mode: PackRule,
    /// How many inputs a row has.
    pub seq_len: usize,
    /// How many ids ahead of each input are its targets. A document that continues in the next row repeats
    /// that many ids there.
    pub ahead: usize,
    /// How many documents, or parts of documents, a row holds at most; as many as fit if absent.
    pub max_segments: Option<usize>,
    /// How many documents are placed together; [`PackRule::BestFit`] only.
    pub window: usize,
}

impl Packing {
    /// The default window, in documents.
    pub const WINDOW: usize = 256;

    /// Returns rows of `seq_len` inputs with one target each, which hold as many documents as fit, and
    /// windows of [`WINDOW`](Self::WINDOW) documents.
    pub fn new(mode: PackRule, seq_len: usize) -> Self {
        Self { mode, seq_len, ahead: 1, max_segments: None, window: Self::WINDOW }
    }

    /// How wide a row is, in ids: `seq_len + ahead`.
    pub fn width(&self) -> usize {
        self.seq_len + self.ahead
    }
}
