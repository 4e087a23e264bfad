//! Batches, for the trainer.

use std::iter;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::document::{ColumnValue, Columns};
use crate::error::Unit;
use crate::files::{Files, Position};

mod build;
mod by_value;
mod mixing;
mod row_block;
mod targets;

pub use build::BatchBuilder;
pub use mixing::Mixing;
pub(crate) use row_block::RowBlock;
pub use targets::Targets;

/// A run of ids from one document inside one row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The row.
    pub row: u32,
    /// Where the run begins in the row.
    pub from: u32,
    /// Where the run ends in the row, exclusive.
    pub to: u32,
    /// The index of its first id within the document; 0 at the document's start.
    pub offset: u32,
    /// Where the document begins in its file.
    pub position: Position,
    /// Which of the batch's file lists the position refers to.
    corpus: u32,
    /// Which of the batch's columns are its document's, from 1; 0 if it has none.
    columns: u32,
}

impl Piece {
    /// Its document's columns, among those of its batch or block.
    fn columns_in<'a>(&self, all: &'a [Arc<Columns>]) -> Option<&'a Arc<Columns>> {
        all.get((self.columns as usize).checked_sub(1)?)
    }
}

/// Places of a row whose ids are not learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MaskedPlaces {
    row: u32,
    from: u32,
    to: u32,
}

/// Rows of ids, `[rows, seq_len + ahead]`, row-major, with where they came from and the cursor after them.
///
/// A row's inputs are the ids `0..seq_len` and its targets the ids `1..=seq_len`: two views of one row. `ahead` is 1
/// unless you predict several ids ahead; consecutive rows of one lane overlap by `ahead` ids. `rows` is `batch_size`,
/// except in the last batch of a finite stream, which holds what is left. A row that its documents do not fill is
/// padded at its end, or entirely; [`lengths`](Batch::lengths) says how many ids of each row count.
///
/// Some documents are learned from only in part: of a conversation, what the assistant says. Their other ids are inputs
/// like any, and are never targets. [`masked`](Batch::masked) says where they are.
#[derive(Clone, Debug)]
pub struct Batch {
    ids: Vec<u32>,
    width: usize,
    ahead: usize,
    lengths: Vec<u32>,
    pieces: Vec<Piece>,
    /// By row and place. Those of a row neither touch nor overlap.
    masked: Vec<MaskedPlaces>,
    text_bytes: u64,
    text_bytes_within_documents: u64,
    corpora: Vec<Arc<Files>>,
    columns: Vec<Arc<Columns>>,
    number: u64,
    cursor: Arc<Cursor>,
}

impl Batch {
    /// Creates a batch of plain rows, `[rows, seq_len + 1]`, each one document from no file: for tests and for training
    /// on arrays.
    ///
    /// # Panics
    /// If `width` is zero or does not divide the number of ids.
    pub fn from_ids(ids: Vec<u32>, width: usize) -> Self {
        assert!(
            width > 0 && ids.len().is_multiple_of(width),
            "{} ids do not fill rows of {width}",
            ids.len()
        );
        let rows = ids.len() / width;
        let whole = |row| Piece {
            row,
            from: 0,
            to: width as u32,
            offset: 0,
            position: Position::default(),
            corpus: 0,
            columns: 0,
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
            masked: Vec::new(),
            text_bytes: 0,
            text_bytes_within_documents: 0,
            corpora: Vec::new(),
            columns: Vec::new(),
            number: 0,
            cursor: Arc::default(),
        }
    }

    /// Returns all ids, row-major, `[rows, seq_len + ahead]`.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Replaces the batch's ids by `ids` and returns the old ones: for consumers that keep the memory, such as another
    /// language's arrays. Everything else stays. After a call with no ids, do not call the methods that return ids.
    ///
    /// # Panics
    /// If `ids` is neither empty nor as long as the batch's ids.
    pub fn replace_ids(&mut self, ids: Vec<u32>) -> Vec<u32> {
        let places = self.rows() * self.width;
        assert!(ids.is_empty() || ids.len() == places, "{} ids for {places} places", ids.len());
        std::mem::replace(&mut self.ids, ids)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// The width of a row, `seq_len + ahead`; 0 if there are no rows.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns `[rows, width]`, the shape of [`ids`](Self::ids), which are stored row by row, ready to become a tensor.
    /// Inputs are its columns `0..seq_len`, targets its columns `1..=seq_len`. The trainer makes both with
    /// `millstream_train::Tensors`, and a mask where rows are padded.
    ///
    /// ```
    /// use millstream::Batch;
    ///
    /// let batch = Batch::from_ids(vec![1, 2, 3, 4, 5, 6], 3);
    /// let [rows, width] = batch.shape();
    /// assert_eq!((rows, width, batch.ids().len()), (2, 3, rows * width));
    /// let inputs: Vec<&[u32]> = (0..rows).map(|row| &batch.row(row)[..batch.seq_len()]).collect();
    /// assert_eq!(inputs, [[1, 2], [4, 5]]);
    /// ```
    pub fn shape(&self) -> [usize; 2] {
        [self.rows(), self.width]
    }

    /// How many ids ahead the rows have targets for.
    pub fn ahead(&self) -> usize {
        self.ahead
    }

    /// The number of inputs per row.
    pub fn seq_len(&self) -> usize {
        self.width.saturating_sub(self.ahead)
    }

    /// The ids of one row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.ids[row * self.width..][..self.width]
    }

    /// How many ids of each row count; the rest is padding.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Whether any row is padded.
    pub fn is_padded(&self) -> bool {
        self.lengths.iter().any(|&len| len as usize != self.width)
    }

    /// The number of targets one id ahead, without padding and what is masked: what a model can learn from this batch, in
    /// tokens. Ids past `seq_len` count in the next row.
    pub fn tokens(&self) -> usize {
        let end = self.seq_len() + 1;
        let all: usize = self.lengths.iter().map(|&len| (len as usize).min(end).saturating_sub(1)).sum();
        let masked = self.masked().map(|(_, places)| places.end.min(end).saturating_sub(places.start.max(1)));
        all - masked.sum::<usize>()
    }

    /// Whether some ids, besides padding, are not learned from.
    pub fn is_masked(&self) -> bool {
        !self.masked.is_empty()
    }

    /// Where the ids are that are not learned from, besides padding: the row, and the places in it. They are ordered by row
    /// and then by place; those of a row neither touch nor overlap.
    ///
    /// ```
    /// use millstream::batch::BatchBuilder;
    /// use millstream::document::{Mask, Part};
    /// use millstream::{Cursor, Sequence, Tokens};
    ///
    /// // A question of three ids, and its answer.
    /// let tokens = Tokens::new(vec![5, 6, 7, 8, 9], 5).with_mask(Mask::learning([3..5], 5));
    /// let mut builder = BatchBuilder::new(1, 0);
    /// builder.push(&Sequence::new(vec![Part::new(&tokens, 0..5)], 5));
    /// let batch = builder.finish(Cursor::default());
    /// assert!(batch.masked().eq([(0, 0..3)]));
    /// assert_eq!(batch.loss_mask(), [false, false, true, true]);
    /// assert_eq!(batch.tokens(), 2);
    /// ```
    pub fn masked(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        self.masked.iter().map(|masked| (masked.row as usize, masked.from as usize..masked.to as usize))
    }

    /// The ranges within `places` of a row whose ids are learned from, unless they are padding.
    pub fn learned_in(&self, row: usize, places: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let (mut at, end) = (places.start, places.end);
        let first =
            self.masked.partition_point(|masked| (masked.row as usize, masked.to as usize) <= (row, at));
        let is_within =
            move |masked: &&MaskedPlaces| masked.row as usize == row && (masked.from as usize) < end;
        let masked = self.masked[first..].iter().take_while(is_within);
        let gaps = masked.map(|masked| masked.from as usize..masked.to as usize).chain(iter::once(end..end));
        gaps.map(move |masked| std::mem::replace(&mut at, masked.end)..masked.start)
            .filter(|learned| !learned.is_empty())
    }

    /// The length of the text that the targets of [`tokens`](Self::tokens) stand for, in bytes. Divide a loss by it to get
    /// bits per byte. Where a document is cut, its bytes are divided evenly among its ids.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Where each run of ids came from, ordered by row and then by place in the row. No run is empty.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The file that a piece came from; empty if it came from no file.
    pub fn path(&self, piece: &Piece) -> &Path {
        self.corpora.get(piece.corpus as usize).map_or(Path::new(""), |files| files.path(piece.position.file))
    }

    /// Which `[[source]]` of the config a piece came from, from 0; `None` if it came from no file.
    pub fn source(&self, piece: &Piece) -> Option<usize> {
        let files = self.corpora.get(piece.corpus as usize)?;
        files.get(piece.position.file as usize).map(|file| file.source)
    }

    /// The value of a column of the document that a piece came from; `None` if the `columns` of its source do not name it.
    pub fn column(&self, piece: &Piece, name: &str) -> Option<&ColumnValue> {
        piece.columns_in(&self.columns)?.get(name)
    }

    /// The columns of the document that a piece came from, by their names, in the order of its source's `columns`.
    pub fn columns(&self, piece: &Piece) -> impl Iterator<Item = (&str, &ColumnValue)> {
        piece.columns_in(&self.columns).into_iter().flat_map(|columns| columns.iter())
    }

    /// The line that a piece's document begins on, from 1; 0 if it is unknown or the format has no lines. This may read
    /// the file: see [`Files::line`].
    pub fn line(&self, piece: &Piece) -> u64 {
        self.corpora.get(piece.corpus as usize).map_or(0, |files| files.line_or_none(piece.position))
    }

    /// The unit of the place that a piece's document begins at.
    pub fn unit(&self, piece: &Piece) -> Unit {
        self.corpora.get(piece.corpus as usize).map_or(Unit::Byte, |files| files.unit(piece.position.file))
    }

    /// The batch's number in the stream, from 0; excluded batches count too.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The cursor to resume at: it leads to what follows this batch.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(crate) fn shared_cursor(&self) -> &Arc<Cursor> {
        &self.cursor
    }

    /// A BLAKE3 digest of the shape, the ids, and the places that are masked if there are any: equal batches have equal
    /// digests.
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
        for MaskedPlaces { row, from, to } in &self.masked {
            for number in [row, from, to] {
                hasher.update(&number.to_le_bytes());
            }
        }
        hasher.finalize()
    }
}
