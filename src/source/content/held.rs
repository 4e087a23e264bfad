//! Decompressed text that may be read again, in chunks.

use std::collections::VecDeque;
use std::ops::Range;

/// The length of a chunk, in bytes.
const CHUNK_BYTES: usize = 128 << 10;

/// Chunks of text, one after the other.
#[derive(Debug, Default)]
pub(super) struct HeldText {
    chunks: VecDeque<Chunk>,
    begin: u64,
    end: u64,
    /// Chunks to be reused.
    free: Vec<Chunk>,
}

/// A piece of text, or room for one.
#[derive(Debug)]
pub(super) struct Chunk {
    bytes: Box<[u8]>,
    len: usize,
}

impl Chunk {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.bytes.len()
    }

    /// The room for more text.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    /// Marks `n` bytes of the room as text.
    pub(super) fn fill(&mut self, n: usize) {
        self.len += n;
    }
}

impl HeldText {
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns room for the next chunk.
    pub(super) fn chunk(&mut self) -> Chunk {
        self.free.pop().unwrap_or_else(|| Chunk { bytes: vec![0; CHUNK_BYTES].into(), len: 0 })
    }

    pub(super) fn push(&mut self, chunk: Chunk) {
        self.end += chunk.len as u64;
        self.chunks.push_back(chunk);
    }

    /// Drops the chunks that end at or before `text`.
    pub(super) fn forget_before(&mut self, text: u64) {
        while let Some(first) = self.chunks.front().filter(|first| self.begin + first.len as u64 <= text) {
            self.begin += first.len as u64;
            let chunk = self.chunks.pop_front().into_iter();
            self.free.extend(chunk.map(|chunk| Chunk { len: 0, ..chunk }));
        }
    }

    /// Drops everything, and goes on at `text`.
    pub(super) fn restart(&mut self, text: u64) {
        self.free.extend(self.chunks.drain(..).map(|chunk| Chunk { len: 0, ..chunk }));
        (self.begin, self.end) = (text, text);
    }

    /// Appends the held part of `range`, which must begin in the held text.
    pub(super) fn copy(&self, range: Range<u64>, into: &mut Vec<u8>) {
        let n = self.end.min(range.end).saturating_sub(range.start);
        into.reserve_exact(n as usize);
        let mut at = self.begin;
        for chunk in &self.chunks {
            let within = |text: u64| text.saturating_sub(at).min(chunk.len as u64) as usize;
            into.extend_from_slice(&chunk.bytes[within(range.start)..within(range.end)]);
            at += chunk.len as u64;
        }
    }
}
