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
    /// A batch of the given sequences, all of one width, padded with `pad`; `cursor` is the one after it.
    ///
    /// # Panics
    /// If there are no sequences, or their widths differ.
    pub fn new(sequences: &[Sequence], pad: u32, cursor: Cursor) -> Self {
        let width = sequences[0].width();
        let mut ids = Vec::with_capacity(sequences.len() * width);
        let mut lengths = Vec::with_capacity(sequences.len());
        let mut pieces = Vec::with_capacity(sequences.iter().map(|s| s.parts().len()).sum());
        let mut corpora: Vec<Arc<Files>> = Vec::new();
        let mut text_bytes = 0;
        for (row, sequence) in sequences.iter().enumerate() {
            assert_eq!(sequence.width(), width, "the sequences of a batch have one width");
            for part in sequence.parts() {
                let files = part.tokens.files();
                let known = corpora.iter().position(|corpus| Arc::ptr_eq(corpus, files));
                let corpus = known.unwrap_or_else(|| {
                    corpora.push(files.clone());
                    corpora.len() - 1
                });
                let from = ids.len() - row * width;
                ids.extend_from_slice(part.ids());
                pieces.push(Piece {
                    row: row as u32,
                    from: from as u32,
                    to: (ids.len() - row * width) as u32,
                    offset: part.range.start as u32,
                    position: part.tokens.position(),
                    corpus: corpus as u32,
                });
                // The row's first id is no target, so its bytes belong to the row before.
                let targets = part.range.start + usize::from(from == 0)..part.range.end;
                text_bytes += share(&part.tokens, targets.end) - share(&part.tokens, targets.start);
            }
            lengths.push(sequence.len() as u32);
            ids.resize((row + 1) * width, pad);
        }
        Self { ids, width, lengths, pieces, text_bytes, corpora, cursor }
    }

    /// A batch of plain rows, `[rows, seq_len + 1]`, that came from no file: for tests and for training on arrays.
    ///
    /// # Panics
    /// If `width` is zero, or does not divide the number of ids.
    pub fn from_ids(ids: Vec<u32>, width: usize) -> Self {
        assert!(width > 0 && ids.len().is_multiple_of(width), "{} ids are no rows of {width}", ids.len());
        let rows = ids.len() / width;
        Self {
            ids,
            width,
            lengths: vec![width as u32; rows],
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
}

/// The bytes of a document that its first `ids` ids stand for.
fn share(tokens: &crate::document::Tokens, ids: usize) -> u64 {
    match tokens.len() as u64 {
        0 => 0,
        len => ids as u64 * tokens.text_bytes() as u64 / len,
    }
}
