//! Sequences in, a batch out. Held in memory: the batch.

use super::{Batch, Piece};
use crate::cursor::Cursor;
use crate::document::Sequence;

/// A batch being built. A row's ids are copied when the row is added, for the first and last time, so its sources are
/// not kept in memory while the batch waits for more rows.
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

    /// The number of rows so far.
    pub fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If its width differs from the rows before, or is less than `ahead`.
    pub fn push(&mut self, sequence: &Sequence) {
        let (row, width) = (self.rows(), sequence.width());
        let batch = &mut self.batch;
        if row == 0 {
            assert!(width >= batch.ahead, "rows of {width} ids cannot overlap by {}", batch.ahead);
            batch.width = width;
            batch.ids.reserve_exact(self.batch_size * width);
        }
        assert_eq!(batch.width, width, "the sequences of a batch have one width");
        let seq_len = batch.seq_len();
        for part in sequence.parts().iter().filter(|part| !part.is_empty()) {
            let from = batch.ids.len() - row * width;
            let to = from + part.len();
            part.append_to(&mut batch.ids);
            let piece = Piece {
                row: row as u32,
                from: from as u32,
                to: to as u32,
                offset: part.offset() as u32,
                position: part.position(),
                corpus: batch.corpus(part.files()),
            };
            batch.pieces.push(piece);
            // Ids past `seq_len` count in the next row.
            let text_bytes = |first: usize| {
                let targets = first..to.min(seq_len + 1);
                if targets.is_empty() { 0 } else { part.text_bytes(targets.start - from..targets.end - from) }
            };
            // The row's first id is not a target here: its bytes count in the previous row.
            batch.text_bytes += text_bytes(from.max(1));
            batch.text_bytes_within_documents += text_bytes(from + 1);
        }
        batch.lengths.push(sequence.len() as u32);
        batch.ids.resize((row + 1) * width, self.pad);
    }

    /// The ids of the last row added, without padding.
    pub(crate) fn last_row(&self) -> &[u32] {
        let (batch, row) = (&self.batch, self.rows().saturating_sub(1));
        let len = batch.lengths.last().map_or(0, |len| *len as usize);
        batch.ids.get(row * batch.width..).and_then(|ids| ids.get(..len)).unwrap_or_default()
    }

    /// Fills the rest of the batch with rows of padding, unless it has no row yet.
    pub fn fill(&mut self) {
        let width = self.batch.width;
        while (1..self.batch_size).contains(&self.rows()) {
            self.push(&Sequence::new(Vec::new(), width));
        }
    }

    /// Returns the batch of the rows so far; `cursor` is the cursor after it. The builder then starts the next batch.
    pub fn finish(&mut self, cursor: Cursor) -> Batch {
        self.finish_numbered(cursor.batch().saturating_sub(1), cursor)
    }

    /// As [`finish`](Self::finish), for several ranks, whose batches all come before `cursor`.
    pub(crate) fn finish_numbered(&mut self, number: u64, cursor: Cursor) -> Batch {
        // The next batch will have about as many.
        let mut next = Batch::empty(self.batch.ahead);
        next.lengths.reserve(self.rows());
        next.pieces.reserve(self.batch.pieces.len() + self.batch.pieces.len() / 8);
        Batch { number, cursor, ..std::mem::replace(&mut self.batch, next) }
    }
}
