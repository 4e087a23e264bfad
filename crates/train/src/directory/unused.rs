//! The batches that no step of a run used, since none of their rows had a target: `unused.jsonl`, one JSON object a line.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::RunDirectory;
use super::lines::{self, Lines};
use millstream::error::{Error, Result};

/// Batches of one attempt at a step.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unused {
    from: u64,
    to: u64,
}

/// The open file of a session. It is made with the first unused batch.
#[derive(Debug)]
pub(super) struct UnusedLog {
    directory: RunDirectory,
    lines: Option<Lines>,
}

impl UnusedLog {
    /// Opens the file of a session whose data continues at `batch`.
    pub(super) fn open(directory: &RunDirectory, batch: u64) -> Result<Self> {
        lines::cut(&directory.unused(), |unused: &Unused| unused.to <= batch)?;
        Ok(Self { directory: directory.clone(), lines: None })
    }

    pub(super) fn write(&mut self, batches: Range<u64>) -> Result<()> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => none.insert(Lines::open(self.directory.unused())?),
        };
        lines.write(&Unused { from: batches.start, to: batches.end })
    }
}

impl RunDirectory {
    /// The batches that no step of the run used, since none of their rows had a target, in order. A last line that a kill
    /// cut off is left out.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read, or are damaged.
    pub fn unused_batches(&self) -> Result<Vec<Range<u64>>> {
        let (path, parse) = (self.unused(), serde_json::from_str::<Unused>);
        let text = lines::read(&path)?;
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let range = |line| parse(line).map(|Unused { from, to }| from..to);
        whole.map(|line| range(line).map_err(|e| Error::io(&path, "read", e.into()))).collect()
    }
}
