//! Directories that one process at a time writes to.
//!
//! The lock is the system's, on a file in the directory. It ends with its process, however that ends, so a kill leaves
//! nothing to clean up. The file stays, and means nothing by itself: it has the number of the process that took the
//! lock last, for the error of the next process.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// The file that is locked, unless another one is named.
const LOCK: &str = ".lock";

/// More bytes than the number of a process has.
const NUMBER: u64 = 32;

/// The right to write to a directory. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the lock ends when it is dropped"]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Makes the directory if it is missing, and takes its lock. `what` completes "another process …", for
    /// the one that comes second: what this process does there.
    ///
    /// On a file system without locks, the log says so, and nothing is locked.
    ///
    /// # Errors
    /// [`Error::Busy`] if the directory is locked already, also by this process; [`Error::Io`].
    pub fn take(directory: &Path, what: &'static str) -> Result<Self> {
        Self::take_file(directory, LOCK, what)
    }

    /// As [`take`](Self::take), for a part of the work there: the file `name` is locked.
    pub fn take_file(directory: &Path, name: &str, what: &'static str) -> Result<Self> {
        std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
        let path = directory.join(name);
        // The file's content is of use while another process holds the lock.
        let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|e| Error::io(&path, "write", e))?;
        match file.try_lock() {
            Ok(()) => {
                // The lock is what counts. Without the number, the error of another process says less.
                let _ = sign(&mut file);
            }
            Err(TryLockError::WouldBlock) => {
                let pid = said(&mut file).ok().and_then(|text| text.trim().parse().ok());
                return Err(Error::Busy { path: directory.to_owned(), what, pid });
            }
            Err(TryLockError::Error(error)) => {
                let path = directory.display();
                tracing::warn!(%path, %error, "cannot lock the directory: let no other process write to it");
            }
        }
        Ok(Self { _file: file })
    }
}

/// Writes the number of this process into the file. A file with any other content belongs to a user who gave it, or a
/// link to it, this name: it is left alone.
fn sign(file: &mut File) -> io::Result<()> {
    let text = said(file)?;
    if text.len() as u64 == NUMBER || !text.trim().bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}

/// The beginning of a regular file.
fn said(file: &mut File) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(NUMBER).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_until_the_first_ends() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("new");
        let first = DirLock::take(&directory, "writes there").expect("it is free");
        let second = DirLock::take(&directory, "reads there").expect_err("it is taken").to_string();
        let directory_name = directory.display();
        let pid = std::process::id();
        assert_eq!(
            second,
            format!(
                "{directory_name}: another process (pid {pid}) reads there; wait until it ends, or use another directory"
            )
        );
        drop(first);
        drop(DirLock::take(&directory, "writes there").expect("it is free again"));
    }

    #[test]
    fn what_a_file_says_locks_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(LOCK), "12345678901234567890\n").expect("a file");
        let lock = DirLock::take(directory.path(), "writes there").expect("nobody holds it");
        let text = std::fs::read_to_string(directory.path().join(LOCK)).expect("a file");
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(lock);
    }

    #[test]
    fn a_file_of_somebody_else_is_locked_and_not_written_to() {
        for text in ["precious\n", "12 and more\n", "1234567890123456789012345678901234567890"] {
            let directory = tempfile::tempdir().expect("a directory");
            std::fs::write(directory.path().join("file"), text).expect("a file");
            #[cfg(unix)]
            std::os::unix::fs::symlink("file", directory.path().join(LOCK)).expect("a link");
            #[cfg(not(unix))]
            std::fs::hard_link(directory.path().join("file"), directory.path().join(LOCK)).expect("a link");
            let lock = DirLock::take(directory.path(), "writes there").expect("nobody holds it");
            drop(DirLock::take(directory.path(), "writes there").expect_err("it is taken"));
            drop(lock);
            let left = std::fs::read_to_string(directory.path().join("file")).expect("a file");
            assert_eq!(left, text);
        }
    }
}
