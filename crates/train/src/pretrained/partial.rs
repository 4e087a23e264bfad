//! A directory that gets its name when all of its files are written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::files::{ADAPTER, CONFIG};
use millstream::atomic::{self, sync};
use millstream::error::{Error, Result};

/// The prefix of the names of such directories.
const PREFIX: &str = ".exporting-";

/// A hidden directory that is being filled. It is removed if it is dropped before [`finish`](Self::finish).
#[derive(Debug)]
pub(super) struct Partial {
    directory: TempDir,
    /// The final path, and whether an empty directory is there, which gets the files.
    target: PathBuf,
    is_there: bool,
    /// Tells other processes that this one fills it.
    _lock: Option<File>,
}

impl Partial {
    /// Creates a hidden directory beside `target`, or in it if it exists. Removes those that killed processes have left.
    pub(super) fn new(target: &Path) -> Result<Self> {
        let failed = |e| Error::io(target, "create the directory", e);
        // So that `.` has a parent too.
        let target = atomic::directory(&std::path::absolute(target).map_err(failed)?)?;
        let is_there = target.is_dir();
        let within = if is_there { &target } else { target.parent().unwrap_or(&target) };
        fs::create_dir_all(within).map_err(failed)?;
        sweep(within);
        let directory = temporary().tempdir_in(within).map_err(failed)?;
        let lock = lock(directory.path()).ok();
        Ok(Self { directory, target, is_there, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Puts the files in place, in an existing directory `config.json` last, or that of an adapter: without it there is no
    /// model.
    pub(super) fn finish(self) -> Result<()> {
        let failed = |e| Error::io(&self.target, "put the model in place", e);
        sync(self.path())?;
        if !self.is_there {
            fs::rename(self.path(), &self.target).map_err(failed)?;
            let _ = self.directory.keep();
            return sync(self.target.parent().unwrap_or(&self.target));
        }
        let mut names = entries(self.path()).map_err(failed)?;
        names.sort_by_key(|name| [CONFIG, ADAPTER].map(Path::new).contains(&name.as_path()));
        for name in names {
            fs::rename(self.path().join(&name), self.target.join(&name)).map_err(failed)?;
        }
        self.directory.close().map_err(|e| Error::io(&self.target, "put the model in place", e))?;
        sync(&self.target)
    }
}

/// Whether a directory holds nothing but the hidden directories of exports.
pub(super) fn is_empty(directory: &Path) -> io::Result<bool> {
    Ok(entries(directory)?.iter().all(|name| is_partial(name)))
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name().into())).collect()
}

fn is_partial(name: &Path) -> bool {
    name.as_os_str().as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Removes hidden directories that no process fills any more. One that cannot be removed does no harm.
fn sweep(within: &Path) {
    for name in entries(within).unwrap_or_default().iter().filter(|name| is_partial(name)) {
        let left = within.join(name);
        if let Ok(_lock) = lock(&left) {
            let _ = fs::remove_dir_all(&left);
        }
    }
}

/// Locks a hidden directory, until the process ends.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    file.try_lock()?;
    Ok(file)
}

/// The builder of hidden directories. The umask decides who may read them.
fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    builder
}
