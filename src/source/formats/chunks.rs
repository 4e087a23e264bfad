//! The text of a file, a chunk at a time, for formats that read it from front to back.

use crate::error::Result;
use crate::source::content::{Content, ReadEnd};
use crate::source::problem::Problem;

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 64 << 10;

/// An open file, and the chunk of its text that is held.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) content: Content,
    held: Vec<u8>,
    held_from: u64,
    after: ReadEnd,
}

impl Chunks {
    pub(super) fn new(content: Content) -> Self {
        Self { content, held: Vec::new(), held_from: 0, after: ReadEnd::More }
    }

    /// The held bytes from `at` on: none where the text ends or breaks off.
    pub(super) fn from(&mut self, at: u64) -> Result<&[u8]> {
        let held_to = self.held_from + self.held.len() as u64;
        if !(self.held_from..held_to).contains(&at) && (at != held_to || self.after == ReadEnd::More) {
            self.held.clear();
            self.after = self.content.read(at, READ_BYTES, &mut self.held)?;
            self.held_from = at;
        }
        Ok(&self.held[(at - self.held_from) as usize..])
    }

    /// Why nothing follows the held bytes, if the text does not end there.
    pub(super) fn broken(&self) -> Option<Problem> {
        if let ReadEnd::Broken(broken) = &self.after { Some(broken.clone().into()) } else { None }
    }
}
