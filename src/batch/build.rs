//! Rows in, a batch out. Held in memory: the batch.

use std::sync::Arc;

use super::row_block::{CopiedRow, Copies, RowBlock, RowOfBlock, carried, number_of};
use super::{Batch, MaskedPlaces, Piece};
use crate::cursor::{Cursor, Digest, RowAccount};
use crate::document::Sequence;

/// A batch being built. A row's ids are copied when the row is added, so its sources are not kept in memory while the
/// batch waits for more rows.
#[derive(Debug)]
pub struct BatchBuilder {
    batch_size: usize,
    pad: u32,
    batch: Batch,
}

impl BatchBuilder {
    /// Starts a batch of `batch_size` rows; rows that are too short are filled with `pad`.
    pub fn new(batch_size: usize, pad: u32) -> Self {
        Self { batch_size, pad, batch: Batch::empty(1) }
    }

    /// Sets `ahead`: rows are `seq_len + ahead` ids wide. The default is 1.
    ///
    /// # Panics
    /// If `ahead` is 0.
    #[must_use]
    pub fn with_ahead(mut self, ahead: usize) -> Self {
        assert!(ahead > 0, "rows without targets");
        self.batch.ahead = ahead;
        self
    }

    /// Makes room for `rows` rows instead of `batch_size`.
    pub(crate) fn expect(&mut self, rows: usize) {
        self.batch_size = rows;
    }

    /// The rows so far.
    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The number of rows so far.
    pub fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If its width differs from the rows before, or is less than `ahead`.
    pub fn push(&mut self, sequence: &Sequence) {
        self.copy(sequence);
    }

    /// As [`push`](Self::push). Returns the row's hash, and what it holds.
    pub(crate) fn copy(&mut self, sequence: &Sequence) -> (Digest, RowAccount) {
        self.begin_row(sequence.width());
        let number = self.rows();
        let Batch { ids, pieces, masked, corpora, columns, ahead, .. } = &mut self.batch;
        let copies = Copies { ids, pieces, masked, corpora, columns };
        let row = CopiedRow::copy(sequence, number, *ahead, copies);
        self.end_row(row)
    }

    /// Adds a row that was copied into a block with the same `ahead`. Returns what [`copy`](Self::copy) does.
    ///
    /// # Panics
    /// As [`push`](Self::push).
    pub(crate) fn append(&mut self, block: &RowBlock, nth: usize) -> (Digest, RowAccount) {
        let RowOfBlock { row, ids, pieces, masked } = block.row(nth);
        self.begin_row(row.width);
        let number = self.rows() as u32;
        let batch = &mut self.batch;
        batch.ids.extend_from_slice(ids);
        batch.pieces.extend(pieces.iter().map(|piece| Piece {
            row: number,
            corpus: number_of(block.files(piece), &mut batch.corpora),
            columns: carried(block.columns(piece), &mut batch.columns),
            ..*piece
        }));
        batch.masked.extend(masked.iter().map(|masked| MaskedPlaces { row: number, ..*masked }));
        self.end_row(row)
    }

    fn begin_row(&mut self, width: usize) {
        let batch = &mut self.batch;
        if batch.rows() == 0 {
            assert!(width >= batch.ahead, "rows of {width} ids cannot overlap by {}", batch.ahead);
            batch.width = width;
            batch.ids.reserve_exact(self.batch_size * width);
        }
        assert_eq!(batch.width, width, "the sequences of a batch have one width");
    }

    fn end_row(&mut self, row: CopiedRow) -> (Digest, RowAccount) {
        let batch = &mut self.batch;
        batch.lengths.push(row.len as u32);
        batch.text_bytes += row.text_bytes;
        batch.text_bytes_within_documents += row.text_bytes_within_documents;
        batch.ids.resize(batch.rows() * row.width, self.pad);
        (row.digest, row.account)
    }

    /// Fills the rest of the batch with rows of padding, unless it has no row yet. Returns how many targets they lack.
    pub fn fill(&mut self) -> u64 {
        let (width, before) = (self.batch.width, self.rows());
        while (1..self.batch_size).contains(&self.rows()) {
            self.push(&Sequence::new(Vec::new(), width));
        }
        ((self.rows() - before) * self.batch.seq_len()) as u64
    }

    /// Returns the batch of the rows so far; `cursor` is the cursor after it. The builder then starts the next batch.
    pub fn finish(&mut self, cursor: Cursor) -> Batch {
        self.finish_numbered(cursor.batch().saturating_sub(1), Arc::new(cursor))
    }

    /// As [`finish`](Self::finish), for several ranks, whose batches all come before `cursor`.
    pub(crate) fn finish_numbered(&mut self, number: u64, cursor: Arc<Cursor>) -> Batch {
        // The next batch will have about as many.
        let mut next = Batch::empty(self.batch.ahead);
        next.lengths.reserve(self.rows());
        next.pieces.reserve(self.batch.pieces.len() + self.batch.pieces.len() / 8);
        next.masked.reserve(self.batch.masked.len() + self.batch.masked.len() / 8);
        Batch { number, cursor, ..std::mem::replace(&mut self.batch, next) }
    }
}
