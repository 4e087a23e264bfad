//! Text that was decompressed and may be asked for again, in chunks.

use std::collections::VecDeque;
use std::ops::Range;

/// The length of a chunk, in bytes.
const CHUNK_BYTES: usize = 128 << 10;

/// Chunks of text that follow each other.
#[derive(Debug, Default)]
pub(super) struct Held {
    chunks: VecDeque<Chunk>,
    begin: u64,
    end: u64,
    /// Chunks to be filled again.
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

    /// Where more text goes.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    /// Notes that so much of the room is text now.
    pub(super) fn fill(&mut self, n: usize) {
        self.len += n;
    }
}

impl Held {
    /// Where what is held begins in the text.
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Room for the next chunk.
    pub(super) fn chunk(&mut self) -> Chunk {
        self.free.pop().unwrap_or_else(|| Chunk { bytes: vec![0; CHUNK_BYTES].into(), len: 0 })
    }

    /// Holds one chunk more.
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.end += chunk.len as u64;
        self.chunks.push_back(chunk);
    }

    /// Holds no chunk any more that ends at or before `text`.
    pub(super) fn forget_before(&mut self, text: u64) {
        while let Some(first) = self.chunks.front().filter(|first| self.begin + first.len as u64 <= text) {
            self.begin += first.len as u64;
            let chunk = self.chunks.pop_front().into_iter();
            self.free.extend(chunk.map(|chunk| Chunk { len: 0, ..chunk }));
        }
    }

    /// Holds nothing, and goes on at `text`.
    pub(super) fn restart(&mut self, text: u64) {
        self.free.extend(self.chunks.drain(..).map(|chunk| Chunk { len: 0, ..chunk }));
        (self.begin, self.end) = (text, text);
    }

    /// Appends what is held of `range`, which begins in it.
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
