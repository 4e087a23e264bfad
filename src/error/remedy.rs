//! What to do about an error, as a value.

use std::fmt;
use std::path::PathBuf;

use super::Error;

/// What to do about an error besides changing a value. Each program has its own words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Resume the run that is there.
    Resume(ResumeFrom),
    /// Say which of several parts to prepare.
    NamePart,
    /// Merge the cursors of all ranks.
    MergeCursors,
    /// Export the model of the run in this directory.
    ExportModel(PathBuf),
}

/// Where a run can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeFrom {
    /// The run's directory.
    pub run: PathBuf,
    /// The step of the checkpoint; `None` for the newest one.
    pub step: Option<u64>,
    /// What to change in its config, each `key=value`.
    pub settings: Vec<String>,
}

impl fmt::Display for ResumeFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resume {}", self.run.display())?;
        if let Some(step) = self.step {
            write!(f, " from step {step}")?;
        }
        if !self.settings.is_empty() {
            write!(f, " with {}", self.settings.join(" and "))?;
        }
        Ok(())
    }
}

impl Error {
    /// The [`Error::Corpus`] of a prepared file that is gone, or is another than it should be. Preparing makes it anew.
    pub(crate) fn prepare_again(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self::Corpus { problem: format!("{place}: {problem}; prepare again") }
    }

    /// The [`Error::Corpus`] of a damaged prepared file. Preparing makes it anew only once it is removed.
    pub(crate) fn remove_and_prepare_again(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self::Corpus { problem: format!("{place}: {problem}; remove the file, and prepare again") }
    }
}
