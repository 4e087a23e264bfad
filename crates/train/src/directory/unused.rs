//! The batches that no step of a run used, since none of their rows had a target: `unused.jsonl`, one JSON object a line.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::RunDirectory;
use super::lines;
#[cfg(doc)]
use millstream::error::Error;
use millstream::error::Result;

/// Batches of one attempt at a step.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unused {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl RunDirectory {
    /// The batches that no step of the run used, since none of their rows had a target, in order. A last line that a kill
    /// cut off is left out.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read, or are damaged.
    pub fn unused_batches(&self) -> Result<Vec<Range<u64>>> {
        let unused: Vec<Unused> = lines::whole(&self.unused())?;
        Ok(unused.into_iter().map(|Unused { from, to }| from..to).collect())
    }
}
