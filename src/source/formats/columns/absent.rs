//! Columns of `where` that files lack: such a column is null in that file, and an error if no file has it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The columns that no file so far has, and the problem of the first file that lacks them.
#[derive(Debug, Default)]
pub(super) struct Absent(Mutex<Option<BTreeMap<String, String>>>);

impl Absent {
    /// Notes the columns that one file lacks.
    pub(super) fn note(&self, absent: BTreeMap<String, String>) {
        let mut all = self.lock();
        match &mut *all {
            None => *all = Some(absent),
            Some(all) => all.retain(|name, _| absent.contains_key(name)),
        }
    }

    /// Refuses a column that no file has.
    pub(super) fn check(&self) -> Result<()> {
        match self.lock().iter().flatten().next() {
            None => Ok(()),
            Some((_, problem)) => Err(Error::Corpus { problem: problem.clone() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<String, String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
