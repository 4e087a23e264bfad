//! Decompressed text that may be read again.

use std::ops::Range;

/// A stretch of text.
#[derive(Debug, Default)]
pub(super) struct HeldText {
    /// The text, and room for more.
    bytes: Vec<u8>,
    len: usize,
    begin: u64,
}

impl HeldText {
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    pub(super) fn end(&self) -> u64 {
        self.begin + self.len as u64
    }

    /// The room for what follows, up to `end`.
    pub(super) fn room(&mut self, end: u64) -> &mut [u8] {
        let full = self.len + end.saturating_sub(self.end()) as usize;
        if self.bytes.len() < full {
            self.bytes.resize(full, 0);
        }
        &mut self.bytes[self.len..full]
    }

    /// Marks `n` bytes of the room as text.
    pub(super) fn fill(&mut self, n: usize) {
        self.len += n;
    }

    /// Drops what is before `text`.
    pub(super) fn forget_before(&mut self, text: u64) {
        let n = text.min(self.end()).saturating_sub(self.begin);
        self.bytes.copy_within(n as usize..self.len, 0);
        self.begin += n;
        self.len -= n as usize;
    }

    /// Drops everything, and goes on at `text`.
    pub(super) fn restart(&mut self, text: u64) {
        (self.begin, self.len) = (text, 0);
    }

    /// Appends the held part of `range`, which must begin in the held text.
    pub(super) fn copy(&self, range: Range<u64>, into: &mut Vec<u8>) {
        let within = |text: u64| (text.min(self.end()) - self.begin) as usize;
        let text = &self.bytes[within(range.start)..within(range.end)];
        into.reserve_exact(text.len());
        into.extend_from_slice(text);
    }
}
