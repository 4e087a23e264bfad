//! The token formats of other programs.

use serde::Serialize;

/// A format of prepared tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFormat {
    /// Ids and nothing else, little-endian, as in nanoGPT's `.bin`. One special id ends each document.
    NanoGpt,
    /// Megatron's `.bin` with an `.idx` of the same name beside it.
    Megatron,
}

/// The counts of an import or export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exchanged {
    /// How many documents.
    pub documents: u64,
    /// How many ids, without those that end documents.
    pub tokens: u64,
}
