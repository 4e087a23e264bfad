//! Finished rows, looked up together.
//!
//! A row is a number in its group: nothing is made for it, and its ids stay in place until a batch has them. Its parts
//! are made only if a stage asks for them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::{Arena, Part, Position};
use crate::files::Files;

/// Some finished rows of one width.
#[derive(Debug, Default)]
pub(crate) struct FinishedRows {
    rows: Vec<PlacedRow>,
    /// The pieces of all rows.
    pieces: Vec<FinishedPiece>,
    width: usize,
}

/// Where a row is.
#[derive(Debug)]
struct PlacedRow {
    /// The arena of its ids, and where they begin there.
    arena: Arc<Arena>,
    at: usize,
    /// How many ids it has, without padding.
    len: usize,
    /// Where its pieces end among those of the group.
    pieces_end: usize,
}

/// A part of a document in a finished row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedPiece {
    /// How many ids of the document the row has, from which of its ids on.
    pub(crate) len: u32,
    pub(crate) offset: u32,
    /// How many ids the whole document has, and the bytes of its text.
    pub(crate) document: (u32, u32),
    pub(crate) position: Position,
}

impl FinishedRows {
    /// No rows yet, of `width` ids each, and room for `rows`.
    pub(crate) fn with_room(rows: usize, width: usize) -> Self {
        Self { rows: Vec::with_capacity(rows), pieces: Vec::with_capacity(4 * rows), width }
    }

    /// Appends a piece of the next row. Its length counts.
    pub(crate) fn piece(&mut self, piece: FinishedPiece) {
        self.pieces.push(piece);
    }

    /// How many pieces there are.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Appends a row. Its pieces are those before `pieces_end` that no earlier row has. Its ids begin at `at` in
    /// `arena`.
    pub(crate) fn row(&mut self, arena: Arc<Arena>, at: usize, pieces_end: usize) {
        let begin = self.rows.last().map_or(0, |row| row.pieces_end);
        let len = self.pieces[begin..pieces_end].iter().map(|piece| piece.len as usize).sum();
        assert!(len <= self.width, "the pieces of a row are {len} ids long, and it holds {}", self.width);
        self.rows.push(PlacedRow { arena, at, len, pieces_end });
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Tells the processor that the ids of row `nth` will be copied soon, if there is one.
    pub(crate) fn soon(&self, nth: usize) {
        if let Some(PlacedRow { arena, at, len, .. }) = self.rows.get(nth) {
            arena.soon(*at..at + len);
        }
    }
}

/// One of some finished rows.
#[derive(Clone, Debug)]
pub(crate) struct FinishedRow {
    all: Arc<FinishedRows>,
    nth: usize,
    /// Its parts, once they were asked for.
    parts: OnceLock<Vec<Part>>,
}

impl FinishedRow {
    /// Row `nth`, which must be one of them.
    pub(super) fn new(all: Arc<FinishedRows>, nth: usize) -> Self {
        Self { all, nth, parts: OnceLock::new() }
    }

    fn place(&self) -> &PlacedRow {
        &self.all.rows[self.nth]
    }

    /// How many ids it has, without padding, and how many with it.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.place().len, self.all.width)
    }

    /// Its pieces, in order.
    pub(crate) fn pieces(&self) -> &[FinishedPiece] {
        let begin = self.nth.checked_sub(1).map_or(0, |before| self.all.rows[before].pieces_end);
        &self.all.pieces[begin..self.place().pieces_end]
    }

    /// The files that its documents are in.
    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.place().arena.files
    }

    /// Appends its ids. Those of the lane's next row come from the memory while these are used.
    pub(crate) fn append_to(&self, ids: &mut Vec<u32>) {
        let PlacedRow { arena, at, len, .. } = self.place();
        arena.append(&(*at..at + len), 0, *len, ids);
        self.all.soon(self.nth + 1);
    }

    /// Its parts.
    pub(super) fn parts(&self) -> &[Part] {
        self.parts.get_or_init(|| {
            let PlacedRow { arena, at, .. } = self.place();
            let mut end = *at;
            let part = |piece: &FinishedPiece| {
                let ids: Range<usize> = end..end + piece.len as usize;
                end = ids.end;
                let (all, bytes) = piece.document;
                let document = (all as usize, bytes as usize);
                Part::stored(arena.clone(), ids, piece.offset as usize, document, piece.position)
            };
            self.pieces().iter().map(part).collect()
        })
    }
}
