//! What the trainer gets.

use std::path::Path;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::files::{Files, Position};

mod build;
mod mixing;
mod targets;

pub use build::BatchBuilder;
pub use mixing::Mixing;
pub use targets::Targets;

/// A run of one document inside a row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The row.
    pub row: u32,
    /// Where in the row it begins.
    pub from: u32,
    /// Where in the row it ends, exclusive.
    pub to: u32,
    /// Which of the document's ids it begins with; 0 where the document starts.
    pub offset: u32,
    /// Where the document begins in its file.
    pub position: Position,
    /// Which of the batch's lists of files the position numbers.
    corpus: u32,
}

/// Rows of ids, `[rows, seq_len + ahead]`, row-major, where they came from, and the cursor after them.
///
/// Inputs are the ids `0..seq_len` of a row and targets the ids `1..=seq_len`: two views of one row. `ahead`
/// is 1 unless several ids ahead are to be predicted; consecutive rows of one lane overlap by `ahead` ids.
/// `rows` is `batch_size`, but for the last batch of a finite stream, which holds what is left. A row
/// that its documents do not fill is padded at its end, or wholly; [`lengths`](Batch::lengths) says how
/// far it counts.
#[derive(Clone, Debug)]
pub struct Batch {
    ids: Vec<u32>,
    width: usize,
    ahead: usize,
    lengths: Vec<u32>,
    pieces: Vec<Piece>,
    text_bytes: u64,
    text_bytes_within_documents: u64,
    corpora: Vec<Arc<Files>>,
    number: u64,
    cursor: Cursor,
}

impl Batch {
    /// A batch of plain rows, `[rows, seq_len + 1]`, each one document from no file: for tests and for
    /// training on arrays.
    ///
    /// # Panics
    /// If `width` is zero, or does not divide the number of ids.
    pub fn from_ids(ids: Vec<u32>, width: usize) -> Self {
        assert!(width > 0 && ids.len().is_multiple_of(width), "{} ids are no rows of {width}", ids.len());
        let rows = ids.len() / width;
        let whole = |row| Piece {
            row,
            from: 0,
            to: width as u32,
            offset: 0,
            position: Position::default(),
            corpus: 0,
        };
        Self {
            ids,
            width,
            lengths: vec![width as u32; rows],
            pieces: (0..rows as u32).map(whole).collect(),
            ..Self::empty(1)
        }
    }

    fn empty(ahead: usize) -> Self {
        Self {
            ids: Vec::new(),
            width: 0,
            ahead,
            lengths: Vec::new(),
            pieces: Vec::new(),
            text_bytes: 0,
            text_bytes_within_documents: 0,
            corpora: Vec::new(),
            number: 0,
            cursor: Cursor::default(),
        }
    }

    /// All ids, row-major, `[rows, seq_len + ahead]`.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// `seq_len + ahead`; 0 if there are no rows.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many ids ahead the rows have targets for.
    pub fn ahead(&self) -> usize {
        self.ahead
    }

    /// How many inputs a row has.
    pub fn seq_len(&self) -> usize {
        self.width.saturating_sub(self.ahead)
    }

    /// The ids of one row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.ids[row * self.width..][..self.width]
    }

    /// How many ids of each row count; what follows is padding.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Whether any row is padded.
    pub fn is_padded(&self) -> bool {
        self.lengths.iter().any(|&len| len as usize != self.width)
    }

    /// How many targets one id ahead there are, padding aside: what a model can learn from this batch, in
    /// tokens. What lies beyond belongs to the next row.
    pub fn tokens(&self) -> usize {
        let targets = |&len: &u32| (len as usize).saturating_sub(1).min(self.seq_len());
        self.lengths.iter().map(targets).sum()
    }

    /// The length of the text that the targets stand for, in bytes: what a loss is divided by to give
    /// bits per byte. Where a document is cut, its bytes are shared out evenly among its ids.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Where each run of ids came from, by row and then by place; none is empty.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The file that a piece came from; empty if it came from none.
    pub fn path(&self, piece: &Piece) -> &Path {
        self.corpora.get(piece.corpus as usize).map_or(Path::new(""), |files| files.path(piece.position.file))
    }

    /// The line that a piece's document begins on, from 1; 0 if it is not known, or lines mean nothing. It may
    /// read the file: see [`Files::line`].
    pub fn line(&self, piece: &Piece) -> u64 {
        self.corpora.get(piece.corpus as usize).map_or(0, |files| files.line_or_none(piece.position))
    }

    /// Which batch of the stream it is, from 0, excluded ones counted.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where to resume for what follows this batch.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// A digest of the shape and the ids (BLAKE3): equal for equal batches.
    pub fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.width as u64).to_le_bytes());
        for len in &self.lengths {
            hasher.update(&len.to_le_bytes());
        }
        for row in self.ids.chunks(self.width.max(1)) {
            let bytes: Vec<u8> = row.iter().flat_map(|id| id.to_le_bytes()).collect();
            hasher.update(&bytes);
        }
        hasher.finalize()
    }

    /// The place of `files` among the batch's lists.
    fn corpus(&mut self, files: &Arc<Files>) -> u32 {
        let known = self.corpora.iter().position(|corpus| Arc::ptr_eq(corpus, files));
        known.unwrap_or_else(|| {
            self.corpora.push(files.clone());
            self.corpora.len() - 1
        }) as u32
    }
}
