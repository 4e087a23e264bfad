//! The files of a corpus, in their fixed order, and writing a file whole or not at all.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tempfile::NamedTempFile;

use crate::document::Position;
use crate::error::{Error, Result, Unit};
use crate::store::is_url;

mod lines;

use lines::Lines;

/// One file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is: a path, or a URL.
    pub path: PathBuf,
    /// Its length in bytes when the corpus was opened.
    pub len: u64,
    /// What its store called its content then: its etag, or else when it was last changed. None of a local file.
    pub etag: Option<String>,
    /// Which `[[source]]` it belongs to, from 0.
    pub source: usize,
    /// What positions in it are counted in.
    pub unit: Unit,
}

/// The files of a corpus. A [`Position`] names one by its place in this list.
#[derive(Debug, Default)]
pub struct Files {
    files: Vec<File>,
    lines: Lines,
}

impl Files {
    /// The files, in the order in which positions number them.
    pub fn new(files: Vec<File>) -> Self {
        Self { files, lines: Lines::default() }
    }

    /// The files of what came from no file.
    pub(crate) fn none() -> Arc<Self> {
        static NONE: OnceLock<Arc<Files>> = OnceLock::new();
        NONE.get_or_init(Arc::default).clone()
    }

    /// The path of file `file`; empty for a document that came from no file.
    pub fn path(&self, file: u32) -> &Path {
        self.files.get(file as usize).map_or(Path::new(""), |file| &file.path)
    }

    /// What positions in file `file` are counted in.
    pub(crate) fn unit(&self, file: u32) -> Unit {
        self.files.get(file as usize).map_or(Unit::Byte, |file| file.unit)
    }

    /// The line of its file that `position` is on, from 1; 0 where lines mean nothing, and in remote files where it is
    /// not counted from the file's start.
    ///
    /// For a position whose line is not counted from the file's start it reads the file as far as the
    /// position's `from`, and blocks meanwhile. What was counted is kept: many look-ups in one file read it
    /// once, and at most 1 MiB more each.
    ///
    /// # Errors
    /// The system's, and one for a file that is shorter now.
    pub fn line(&self, position: Position) -> io::Result<u64> {
        let Position { file, line, from, .. } = position;
        let path = self.path(file);
        if line == 0 || from > 0 && is_url(&path.to_string_lossy()) {
            return Ok(0);
        }
        Ok(self.lines.before(file, path, from)? + line)
    }

    /// As [`line`](Files::line), and 0 for a line that cannot be counted any more.
    pub(crate) fn line_or_none(&self, position: Position) -> u64 {
        self.line(position).unwrap_or(0)
    }
}

impl std::ops::Deref for Files {
    type Target = [File];

    fn deref(&self) -> &[File] {
        &self.files
    }
}

/// Makes files that get their own name later, readable by whom the system's mask lets.
pub(crate) fn temporary(prefix: &str) -> tempfile::Builder<'_, '_> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Writes `bytes` to `path` so that a reader, or a kill, finds the old content or the new and nothing between.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        written(path, bytes)?.persist(path)?;
        Ok(())
    };
    write().map_err(|e| Error::io(path, "write", e))
}

/// Writes `bytes` to `path` likewise; false if something is there already, which stays.
pub(crate) fn create_atomically(path: &Path, bytes: &[u8]) -> Result<bool> {
    let create = || match written(path, bytes)?.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(e.error),
    };
    create().map_err(|e| Error::io(path, "write", e))
}

/// A file beside `path` that holds `bytes`, as safe as the disk can keep them.
fn written(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory)?;
    let mut file = temporary(".tmp").tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}
