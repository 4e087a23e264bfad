//! The name of an engine.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which engine encodes, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Engine {
    /// `fastokens`, with the feature of that name: it gave the reference's ids for every text that was tried.
    Fastokens,
    /// `tokenizers` 1.0: it gave the reference's ids for every text that was tried.
    Fast,
    /// `tokenizers` 0.23.
    Reference {
        /// The refusal of the fast engine, or where its ids differed.
        reason: String,
    },
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fastokens => f.write_str("fastokens"),
            Self::Fast => f.write_str("tokenizers 1.0"),
            Self::Reference { reason } => write!(f, "tokenizers 0.23 (reference): {reason}"),
        }
    }
}
