//! The directory that holds the checkpoints of a run: their names, which are complete, and what leaves it.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::digests::DIGESTS;
use crate::error::{Error, Result};
use crate::train::layout::{CHECKPOINTS, CONFIG};

/// The name prefix of checkpoints.
const NAME: &str = "step-";

/// The name prefix of directories that are not complete.
const PARTIAL: &str = ".partial-";

/// The name prefix of checkpoints that a run went back behind.
const ASIDE: &str = "aside-";

/// The file with a run's numbers.
pub(super) const STATE: &str = "state.json";

/// The last version of the checkpoint format that had no digests.
pub(super) const WITHOUT_DIGESTS: u32 = 1;

/// Where the checkpoint after `step` is.
pub(super) fn path(parent: &Path, step: u64) -> PathBuf {
    parent.join(format!("{NAME}{step:08}"))
}

/// Where the checkpoint after `step` is written.
pub(super) fn partial(parent: &Path, step: u64) -> PathBuf {
    parent.join(format!("{PARTIAL}{step:08}"))
}

/// The step of the checkpoint at `path`, if it has the name of one.
pub(super) fn step(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix(NAME)?.parse().ok()
}

/// The run's directory that has `parent` as its checkpoints, if it is one.
pub(super) fn run(parent: &Path) -> Option<&Path> {
    let is_run = |root: &&Path| root.join(CONFIG).is_file();
    (parent.file_name()? == CHECKPOINTS).then(|| parent.parent()).flatten().filter(is_run)
}

/// The steps of all complete checkpoints under `parent`, ascending.
pub(super) fn complete(parent: &Path) -> Result<Vec<u64>> {
    let mut steps = steps(parent)?;
    steps.retain(|&step| is_complete(&path(parent, step)));
    Ok(steps)
}

/// The steps of all checkpoints under `parent`, ascending, unfinished ones too.
pub(super) fn steps(parent: &Path) -> Result<Vec<u64>> {
    let mut steps: Vec<u64> = entries(parent)?.iter().filter_map(|path| step(path)).collect();
    steps.sort_unstable();
    Ok(steps)
}

/// Whether all files of the checkpoint at `path` were written: the digests come last. An older version wrote none, and
/// its state came last.
pub(super) fn is_complete(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let version = || serde_json::from_slice::<Version>(&std::fs::read(path.join(STATE)).ok()?).ok();
    path.join(DIGESTS).is_file() || version().is_some_and(|state| state.version <= WITHOUT_DIGESTS)
}

/// Renames the checkpoints after `step` and returns their new paths. A run that continues at `step` makes others.
pub(super) fn set_aside_after(parent: &Path, step: u64) -> Result<Vec<PathBuf>> {
    let later = steps(parent)?.into_iter().filter(|&later| later > step);
    later.map(|later| set_aside(&path(parent, later))).collect()
}

fn set_aside(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let free = |number: u64| {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        Some(path.with_file_name(format!("{ASIDE}{name}{number}"))).filter(|aside| !aside.exists())
    };
    let aside = (1..).find_map(free).unwrap_or_default();
    std::fs::rename(path, &aside).map_err(|e| Error::io(path, "set the checkpoint aside", e))?;
    Ok(aside)
}

/// Renames a checkpoint in one step to what [`remove_partial`] removes, which takes time and may be interrupted.
pub(super) fn discard(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("{PARTIAL}old-{name}"));
    std::fs::rename(path, aside).map_err(|e| Error::io(path, "remove the checkpoint", e))
}

/// Removes all but the newest `keep` complete checkpoints, and what was left behind.
pub(super) fn remove_all_but(parent: &Path, keep: usize) -> Result<()> {
    let all = complete(parent)?;
    for step in &all[..all.len().saturating_sub(keep.max(1))] {
        discard(&path(parent, *step))?;
    }
    remove_partial(parent)
}

/// Removes what saves that were interrupted left behind.
pub(super) fn remove_partial(parent: &Path) -> Result<()> {
    for path in entries(parent)? {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PARTIAL)) {
            std::fs::remove_dir_all(&path).map_err(|e| Error::io(&path, "remove the directory", e))?;
        }
    }
    Ok(())
}

fn entries(parent: &Path) -> Result<Vec<PathBuf>> {
    let read = match std::fs::read_dir(parent) {
        Ok(read) => read,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(parent, "list the checkpoints", e)),
    };
    read.map(|entry| Ok(entry.map_err(|e| Error::io(parent, "list the checkpoints", e))?.path())).collect()
}
