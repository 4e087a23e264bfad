//! The places of each row of a segment: its ids, and its pieces of documents.
//!
//! The ids of the rows follow each other, and all rows have the same length. The index has the pieces of all rows and,
//! after them, a u64 for each row: how many pieces there are up to its end.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::StoredPiece;
use crate::document::Arena;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::segment::{ENTRY, StoredIds, Width};
use crate::shards::StoredSplit;

/// How many ends of rows fill an entry of the index.
pub(crate) const ENDS: usize = ENTRY;

/// The length of an end, in bytes.
const END: usize = 8;

/// The rows of a segment.
#[derive(Debug)]
pub(crate) struct RowSegment {
    tokens: StoredSplit,
    rows: usize,
    stride: usize,
    width: Width,
    /// The number of the first file among those of the source, and how many there are.
    first_file: u32,
    files: usize,
    arena: OnceLock<Arc<Arena>>,
}

impl RowSegment {
    /// The rows of `tokens`, `stride` ids each. They were made of `files` files, the first of which is number
    /// `first_file` of the source.
    pub(super) fn new(
        tokens: StoredSplit,
        stride: usize,
        width: Width,
        first_file: u32,
        files: usize,
    ) -> Self {
        Self { rows: tokens.ids() / stride, tokens, stride, width, first_file, files, arena: OnceLock::new() }
    }

    pub(crate) fn tokens(&self) -> &StoredSplit {
        &self.tokens
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Where the ids of row `nth` are, in bytes from the split's beginning.
    pub(crate) fn ids(&self, nth: usize) -> Range<usize> {
        let row = self.stride * self.width.bytes();
        nth * row..(nth + 1) * row
    }

    /// Where the ids of row `nth` begin in the segment's file, counted in ids, if that is on this machine.
    pub(crate) fn first_id(&self, nth: usize) -> usize {
        self.tokens.first_id() + nth * self.stride
    }

    /// The ids of the segment's file, if it is on this machine, as parts of documents of `files`. `files` has all files
    /// of the corpus and is the same at each call.
    pub(crate) fn arena(&self, files: &Arc<Files>) -> Option<&Arc<Arena>> {
        let segment = self.tokens.segment()?;
        Some(self.arena.get_or_init(|| Arena::rows(StoredIds::Mapped(segment.clone()), files.clone())))
    }

    /// Where the end of the pieces of row `nth` is and, if there is one, that of the row before it.
    pub(crate) fn ends(&self, nth: usize) -> Range<usize> {
        let ends = self.ends_begin();
        ends + END * nth.saturating_sub(1)..ends + END * (nth + 1)
    }

    /// Where the pieces of row `nth` are, given the bytes of its [`ends`](Self::ends).
    ///
    /// # Errors
    /// [`Error::Corpus`] if that is impossible.
    pub(crate) fn pieces(&self, nth: usize, ends: &[u8]) -> Result<Range<usize>> {
        let mut numbers = ends.as_chunks().0.iter().map(|end| u64::from_le_bytes(*end));
        let (begin, end) = match (nth, numbers.next(), numbers.next()) {
            (0, Some(end), None) => (0, end),
            (_, Some(begin), Some(end)) if nth > 0 => (begin, end),
            _ => return Err(self.wrong(nth)),
        };
        let index = self.tokens.index_bytes();
        let most = ((self.ends_begin() - index.start) / StoredPiece::BYTES) as u64;
        // A piece has at least one id.
        if begin > end || end > most || end - begin > self.stride as u64 {
            return Err(self.wrong(nth));
        }
        let at = |piece: u64| index.start + piece as usize * StoredPiece::BYTES;
        Ok(at(begin)..at(end))
    }

    /// Passes on the pieces that some bytes hold, which are those of row `nth`. Their files are numbered as in the source.
    ///
    /// # Errors
    /// [`Error::Corpus`] if they are impossible.
    pub(crate) fn pieces_in(
        &self,
        nth: usize,
        bytes: &[u8],
        mut each: impl FnMut(StoredPiece),
    ) -> Result<()> {
        let mut left = self.stride;
        for bytes in bytes.as_chunks().0 {
            let piece = StoredPiece::from_bytes(bytes);
            let rest = left.checked_sub(piece.len as usize).filter(|_| piece.is_possible(self.files));
            left = rest.ok_or_else(|| self.wrong(nth))?;
            each(StoredPiece { file: self.first_file + piece.file, ..piece });
        }
        Ok(())
    }

    /// Where the ends begin, in bytes from the split's beginning.
    fn ends_begin(&self) -> usize {
        self.tokens.index_bytes().end - self.rows.div_ceil(ENDS) * StoredPiece::BYTES
    }

    fn wrong(&self, nth: usize) -> Error {
        let problem = format!(
            "{}: the documents of row {nth} are wrong; remove the file, and prepare again",
            self.tokens.path().display()
        );
        Error::Corpus { problem }
    }
}
