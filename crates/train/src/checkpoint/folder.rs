//! The folder with the checkpoints of a run: their names, whether they are complete, and their removal.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::file_names::{CHECKPOINTS, CONFIG};
use millstream::error::{Error, Result};

/// The file with the digests of a checkpoint's others, which is written last.
pub(crate) const DIGESTS: &str = "blake3.txt";

/// The name prefix of checkpoints.
const NAME: &str = "step-";

/// The name prefix of directories that are not complete.
const PARTIAL: &str = ".partial-";

/// The name prefix of checkpoints that a run set aside when it went back.
const ASIDE: &str = "aside-";

/// Where the checkpoint after `step` is.
pub(crate) fn path(parent: &Path, step: u64) -> PathBuf {
    parent.join(format!("{NAME}{step:08}"))
}

/// Where the checkpoint after `step` is written. Leftovers of an earlier save that cannot be removed keep their names.
pub(super) fn partial(parent: &Path, step: u64) -> PathBuf {
    free(parent, &format!("{PARTIAL}{step:08}"))
}

/// The path of this name, or of the name and a number if it is taken.
fn free(parent: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|number: u64| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.to_owned()).chain(numbered).map(|name| parent.join(name));
    paths.find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
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

/// Whether all files of the checkpoint at `path` were written: the digests come last.
pub(super) fn is_complete(path: &Path) -> bool {
    path.join(DIGESTS).is_file()
}

/// Renames the checkpoints after `step` and returns their new paths. A run that continues at `step` makes others.
pub(crate) fn set_aside_after(parent: &Path, step: u64) -> Result<Vec<PathBuf>> {
    let later = steps(parent)?.into_iter().filter(|&later| later > step);
    later.map(|later| set_aside(&path(parent, later))).collect()
}

fn set_aside(path: &Path) -> Result<PathBuf> {
    let aside = free(parent(path), &format!("{ASIDE}{}", name(path)));
    let failed = |e| Error::io(path, "set the checkpoint aside", e);
    match std::fs::rename(path, &aside) {
        // A directory of a lower layer of an overlay, as in a container's image, cannot be renamed.
        Err(e) if e.kind() == ErrorKind::CrossesDevices => {
            copy(path, &aside).map_err(failed)?;
            remove_in_place(path).map_err(failed)?;
        }
        renamed => renamed.map_err(failed)?,
    }
    Ok(aside)
}

/// Copies the files of a checkpoint. The copy has its name when all of them are there.
fn copy(path: &Path, to: &Path) -> std::io::Result<()> {
    let partial = free(parent(path), &format!("{PARTIAL}{}", name(path)));
    std::fs::create_dir(&partial)?;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        std::fs::copy(entry.path(), partial.join(entry.file_name()))?;
    }
    std::fs::rename(partial, to)
}

/// Gives a new checkpoint its name. An existing one of that name is renamed for [`remove_partial`] to remove.
pub(super) fn put(partial: &Path, path: &Path) -> Result<()> {
    if path.exists() {
        if exchange(partial, path) {
            return Ok(());
        }
        discard(path)?;
    }
    std::fs::rename(partial, path).map_err(|e| Error::io(path, "put the checkpoint in place", e))
}

/// Swaps two directories in one step, so that a kill always leaves one of them in place; false where that is not
/// possible.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn exchange(one: &Path, other: &Path) -> bool {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE).is_ok()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn exchange(_: &Path, _: &Path) -> bool {
    false
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Removes a checkpoint. It is renamed in one step for [`remove_partial`] to remove, which takes time and may be
/// interrupted. If it cannot be renamed, it is removed in place.
fn discard(path: &Path) -> Result<()> {
    let aside = free(parent(path), &format!("{PARTIAL}old-{}", name(path)));
    match std::fs::rename(path, aside) {
        Ok(()) => Ok(()),
        Err(_) => remove_in_place(path).map_err(|e| Error::io(path, "remove the checkpoint", e)),
    }
}

/// Removes a checkpoint. Its digests go first: without them it is not complete.
fn remove_in_place(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path.join(DIGESTS)) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    std::fs::remove_dir_all(path)
}

/// Removes leftovers, and complete checkpoints older than the newest `keep`. One that cannot be removed stays, with a
/// warning, until the next time: a file system with other readers may refuse it for a while.
pub(super) fn remove_all_but(parent: &Path, keep: usize) -> Result<()> {
    let complete = complete(parent)?;
    let oldest = complete.get(complete.len().saturating_sub(keep.max(1)));
    for step in steps(parent)?.into_iter().take_while(|step| Some(step) < oldest) {
        warn_of(discard(&path(parent, step)));
    }
    remove_partial(parent)
}

/// Removes the leftovers of interrupted saves, as far as possible.
pub(crate) fn remove_partial(parent: &Path) -> Result<()> {
    for path in entries(parent)? {
        if name(&path).starts_with(PARTIAL) {
            warn_of(std::fs::remove_dir_all(&path).map_err(|e| Error::io(&path, "remove the directory", e)));
        }
    }
    Ok(())
}

/// A failed removal is no reason to end a run.
fn warn_of(removed: Result<()>) {
    if let Err(error) = removed {
        tracing::warn!("{}; the run goes on, and the next checkpoint tries again", error.chain());
    }
}

fn entries(parent: &Path) -> Result<Vec<PathBuf>> {
    let read = match std::fs::read_dir(parent) {
        Ok(read) => read,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(parent, "list the checkpoints", e)),
    };
    read.map(|entry| Ok(entry.map_err(|e| Error::io(parent, "list the checkpoints", e))?.path())).collect()
}
