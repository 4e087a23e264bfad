//! Columns of `where` that files lack: in a file that has no such column it is null, and one that no file has is an error.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The columns that none of the files so far has, and what is wrong where the first of them lacks them.
#[derive(Debug, Default)]
pub(super) struct Absent(Mutex<Option<BTreeMap<String, String>>>);

impl Absent {
    /// Notes what one file lacks.
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
