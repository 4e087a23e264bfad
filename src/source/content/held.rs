//! Decompressed text that may be read again.

use std::ops::Range;

/// A stretch of text.
#[derive(Debug, Default)]
pub(super) struct HeldText {
    /// What is not held any more, the text, and room for more.
    bytes: Vec<u8>,
    /// Where the text is in `bytes`.
    at: Range<usize>,
    begin: u64,
}

impl HeldText {
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    pub(super) fn end(&self) -> u64 {
        self.begin + self.at.len() as u64
    }

    /// The room for what follows, up to `end`.
    pub(super) fn room(&mut self, end: u64) -> &mut [u8] {
        if self.at.start > 0 {
            self.bytes.copy_within(self.at.clone(), 0);
            self.at = 0..self.at.len();
        }
        let full = self.at.end + end.saturating_sub(self.end()) as usize;
        if self.bytes.len() < full {
            self.bytes.resize(full, 0);
        }
        &mut self.bytes[self.at.end..full]
    }

    /// Marks `n` bytes of the room as text.
    pub(super) fn fill(&mut self, n: usize) {
        self.at.end += n;
    }

    /// Drops what is before `text`.
    pub(super) fn forget_before(&mut self, text: u64) {
        let n = text.min(self.end()).saturating_sub(self.begin);
        self.begin += n;
        self.at.start += n as usize;
    }

    /// Drops everything, and goes on at `text`.
    pub(super) fn restart(&mut self, text: u64) {
        (self.begin, self.at) = (text, 0..0);
    }

    /// Appends the held part of `range`, which must begin in the held text.
    pub(super) fn copy(&self, range: Range<u64>, into: &mut Vec<u8>) {
        let within = |text: u64| self.at.start + (text.min(self.end()) - self.begin) as usize;
        let text = &self.bytes[within(range.start)..within(range.end)];
        into.reserve_exact(text.len());
        into.extend_from_slice(text);
    }
}
