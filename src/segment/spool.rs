//! What follows the ids of a split under way: its index and its masked ranges. Long ones go to a file without a name, so
//! that memory does not grow with the split.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// How much is held in memory, in bytes.
const HELD_BYTES: usize = 1 << 20;

/// The bytes so far.
#[derive(Debug, Default)]
pub(super) struct Spool {
    held: Vec<u8>,
    file: Option<File>,
    in_file: u64,
}

impl Spool {
    /// Appends bytes. When memory is full, they go to a file in `directory`.
    pub(super) fn push(&mut self, bytes: impl IntoIterator<Item = u8>, directory: &Path) -> io::Result<()> {
        self.held.extend(bytes);
        if self.held.len() < HELD_BYTES {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile_in(directory)?),
        };
        file.write_all(&self.held)?;
        self.in_file += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// How long it is, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.in_file + self.held.len() as u64
    }

    /// Passes its bytes to `each`, in order, piece by piece.
    pub(super) fn read(self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if let Some(mut file) = self.file {
            file.rewind()?;
            let mut bytes = vec![0; HELD_BYTES];
            let mut left = self.in_file;
            while left > 0 {
                let n = left.min(HELD_BYTES as u64) as usize;
                file.read_exact(&mut bytes[..n])?;
                each(&bytes[..n])?;
                left -= n as u64;
            }
        }
        each(&self.held)
    }
}
