//! `[exclude]`: what a run leaves out of what it would have read.

use serde::{Deserialize, Serialize};

use crate::cursor::ExcludedDocument;
use crate::error::{Error, Result};

/// What is read and not delivered: after a loss that rose at once, say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExcludeConfig {
    /// Ranges of batches, `[from, to)`, by their numbers in the whole stream. The batches behind them keep theirs.
    pub batches: Vec<(u64, u64)>,
    /// Documents, from where the stream is opened on; they give no ids.
    pub documents: Vec<ExcludedDocument>,
}

impl ExcludeConfig {
    pub(super) fn validate(&self) -> Result<()> {
        let mut end = 0;
        for (index, &(from, to)) in self.batches.iter().enumerate() {
            if from >= to || from < end {
                return Err(Error::config(
                    format!("exclude.batches.{index}"),
                    format!(
                        "[{from}, {to}] must be a first batch and one after the last, behind the ranges before it"
                    ),
                ));
            }
            end = to;
        }
        Ok(())
    }
}
