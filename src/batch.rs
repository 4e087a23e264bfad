//! What the trainer gets.

use std::path::Path;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::document::{Position, Sequence};
use crate::files::Files;

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

/// Rows of ids, `[rows, seq_len + 1]`, row-major, where they came from, and the cursor after them.
///
/// Inputs are the ids `0..seq_len` of a row and targets the ids `1..=seq_len`: two views of one row.
/// `rows` is `batch_size`, but for the last batch of a finite stream, which holds what is left. A row
/// that its documents do not fill is padded at its end; [`lengths`](Batch::lengths) says how far it
/// counts.
#[derive(Clone, Debug)]
pub struct Batch {
    ids: Vec<u32>,
    width: usize,
    lengths: Vec<u32>,
    pieces: Vec<Piece>,
    text_bytes: u64,
    corpora: Vec<Arc<Files>>,
    cursor: Cursor,
}

impl Batch {
    /// A batch of plain rows, `[rows, seq_len + 1]`, that came from no file: for tests and for training on arrays.
    ///
    /// # Panics
    /// If `width` is zero, or does not divide the number of ids.
    pub fn from_ids(ids: Vec<u32>, width: usize) -> Self {
        assert!(width > 0 && ids.len().is_multiple_of(width), "{} ids are no rows of {width}", ids.len());
        let rows = ids.len() / width;
        Self { ids, width, lengths: vec![width as u32; rows], ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            ids: Vec::new(),
            width: 0,
            lengths: Vec::new(),
            pieces: Vec::new(),
            text_bytes: 0,
            corpora: Vec::new(),
            cursor: Cursor::default(),
        }
    }

    /// All ids, row-major, `[rows, seq_len + 1]`.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// `seq_len + 1`.
    pub fn width(&self) -> usize {
        self.width
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

    /// How many targets there are, padding aside: what a model can learn from this batch, in tokens.
    pub fn tokens(&self) -> usize {
        self.lengths.iter().map(|&len| (len as usize).saturating_sub(1)).sum()
    }

    /// The length of the text that the targets stand for, in bytes: what a loss is divided by to give
    /// bits per byte. Where a document is cut, its bytes are shared out evenly among its ids.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Where each run of ids came from, by row and then by place; segment and position ids follow from it.
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
        for row in self.ids.chunks(self.width) {
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

/// A batch in the making. A row's ids are copied when it comes, for the first and last time, so that
/// nothing behind them is kept while the batch waits for the others.
#[derive(Debug)]
pub struct BatchBuilder {
    batch_size: usize,
    pad: u32,
    batch: Batch,
}

impl BatchBuilder {
    /// A batch of `batch_size` rows, whose ends are filled with `pad`.
    pub fn new(batch_size: usize, pad: u32) -> Self {
        Self { batch_size, pad, batch: Batch::empty() }
    }

    /// Makes room for `rows` rows instead.
    pub(crate) fn expect(&mut self, rows: usize) {
        self.batch_size = rows;
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If its width is not that of the rows before.
    pub fn push(&mut self, sequence: &Sequence) {
        let (row, width) = (self.rows(), sequence.width());
        let batch = &mut self.batch;
        if row == 0 {
            batch.width = width;
            batch.ids.reserve_exact(self.batch_size * width);
        }
        assert_eq!(batch.width, width, "the sequences of a batch have one width");
        for part in sequence.parts() {
            let from = batch.ids.len() - row * width;
            batch.ids.extend_from_slice(part.ids());
            let piece = Piece {
                row: row as u32,
                from: from as u32,
                to: (batch.ids.len() - row * width) as u32,
                offset: part.offset() as u32,
                position: part.position(),
                corpus: batch.corpus(part.files()),
            };
            batch.pieces.push(piece);
            // The row's first id is no target: its bytes belong to the row before.
            batch.text_bytes += part.text_bytes(usize::from(from == 0));
        }
        batch.lengths.push(sequence.len() as u32);
        batch.ids.resize((row + 1) * width, self.pad);
    }

    /// Fills what is left of the batch with rows of padding, unless there is no row yet.
    pub fn fill(&mut self) {
        let width = self.batch.width;
        while (1..self.batch_size).contains(&self.rows()) {
            self.push(&Sequence::new(Vec::new(), width));
        }
    }

    /// The batch of the rows so far; `cursor` is the one after it. The builder begins the next.
    pub fn finish(&mut self, cursor: Cursor) -> Batch {
        Batch { cursor, ..std::mem::replace(&mut self.batch, Batch::empty()) }
    }
}
