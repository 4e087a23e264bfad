//! Where an input becomes a file, and a reader runs.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Memory as a file system, where there is one: a target writes a file for each input.
const SHARED_MEMORY: &str = "/dev/shm";

thread_local! {
    static DESK: RefCell<Desk> = RefCell::new(Desk::new());
}

/// A directory of this thread's, and a runtime.
pub(crate) struct Desk {
    directory: TempDir,
    runtime: Runtime,
}

impl Desk {
    fn new() -> Self {
        let memory = Path::new(SHARED_MEMORY);
        let directory = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let directory = directory.expect("a directory for the inputs");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { directory, runtime }
    }

    /// Gives this thread's desk to `work`.
    pub(crate) fn with<T>(work: impl FnOnce(&Self) -> T) -> T {
        DESK.with_borrow(work)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file in place of the one of the input before.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        let parent = path.parent().expect("a directory");
        std::fs::create_dir_all(parent).expect("a directory");
        std::fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    }

    /// Removes what a target wrote.
    pub(crate) fn clear(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() {
            std::fs::remove_dir_all(path).expect("removed");
        }
    }

    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// Cuts an input of two files: the first one's length comes first, in two bytes.
pub(crate) fn two_files(input: &[u8]) -> (&[u8], &[u8]) {
    match input.split_first_chunk() {
        Some((length, rest)) => rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length)))),
        None => (&[], &[]),
    }
}
