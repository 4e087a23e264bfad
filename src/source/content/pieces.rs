//! Reads a file's stored bytes in pieces.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::store::Stored;

/// How much is read at a time, in bytes.
pub(super) const PIECE_BYTES: u64 = 128 << 10;

/// The current piece of a file, and how much of it is used.
#[derive(Debug)]
pub(super) struct Pieces {
    stored: Arc<dyn Stored>,
    bytes: Vec<u8>,
    used: usize,
    /// Where the piece begins in the file.
    begin: u64,
}

impl Pieces {
    pub(super) fn new(stored: Arc<dyn Stored>) -> Self {
        Self { stored, bytes: Vec::new(), used: 0, begin: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        self.stored.path()
    }

    /// The offset of the next byte in the file.
    pub(super) fn position(&self) -> u64 {
        self.begin + self.used as u64
    }

    /// Goes on at `position` instead.
    pub(super) fn go_to(&mut self, position: u64) {
        self.bytes.clear();
        (self.begin, self.used) = (position, 0);
    }

    /// Reads the next piece if the current one is used up.
    pub(super) fn fill(&mut self) -> Result<()> {
        if self.used < self.bytes.len() {
            return Ok(());
        }
        self.go_to(self.position());
        let left = self.stored.len().saturating_sub(self.begin);
        self.bytes.resize(left.min(PIECE_BYTES) as usize, 0);
        let read = self.stored.read_at(self.begin, &mut self.bytes);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }

    /// The rest of the piece; empty at the file's end.
    pub(super) fn left(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Marks the next `n` bytes as used.
    pub(super) fn take(&mut self, n: usize) {
        self.used += n;
    }
}
