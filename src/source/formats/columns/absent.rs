//! Columns that no file so far has.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::source::carried::is_partition;
use crate::threads::lock;

/// The wanted columns that neither a file so far nor its path has, and the problem of the first file that lacks them.
#[derive(Debug, Default)]
pub(super) struct Absent(Mutex<Option<BTreeMap<String, String>>>);

impl Absent {
    /// Notes those of `names` that neither the file at `path` nor its path has. `find` gives the message of a column that
    /// the file lacks.
    pub(super) fn note<'a>(
        &self,
        path: &Path,
        names: impl Iterator<Item = &'a String>,
        find: impl Fn(&str) -> Result<()>,
    ) {
        let names = names.filter(|name| !is_partition(path, name));
        let absent: BTreeMap<String, String> =
            names.filter_map(|name| Some((name.clone(), find(name).err()?.to_string()))).collect();
        let mut all = lock(&self.0);
        match &mut *all {
            None => *all = Some(absent),
            Some(all) => all.retain(|name, _| absent.contains_key(name)),
        }
    }

    /// Refuses a column that no file has.
    pub(super) fn check(&self) -> Result<()> {
        match lock(&self.0).iter().flatten().next() {
            None => Ok(()),
            Some((_, problem)) => Err(Error::Corpus { problem: problem.clone() }),
        }
    }
}
