//! `[exclude]`: batches and documents that a run reads but does not deliver.

use serde::{Deserialize, Serialize};

use crate::cursor::ExcludedDocument;
use crate::error::{Error, Result};

/// What is read but not delivered, for example after a loss spike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ExcludeConfig {
    /// Ranges of batches, `[from, to)`, by their numbers in the whole stream. Later batches keep their
    /// numbers.
    pub batches: Vec<(u64, u64)>,
    /// Documents that give no ids, from the place where the stream is opened.
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
                        "must be a first batch and one after the last, behind the ranges before it, not [{from}, {to}]"
                    ),
                ));
            }
            end = to;
        }
        Ok(())
    }
}
