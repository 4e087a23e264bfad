//! Sequences in, a batch out. Held in memory: the batch.

use std::ops::Range;

use super::{Batch, Piece};
use crate::cursor::Cursor;
use crate::document::Sequence;
use crate::files::Position;

/// A batch being built. A row's ids are copied when the row is added, for the first and last time, so its sources are
/// not kept in memory while the batch waits for more rows.
#[derive(Debug)]
pub struct BatchBuilder {
    batch_size: usize,
    pad: u32,
    batch: Batch,
}

/// A run of ids of one document that was copied into a batch.
#[derive(Debug)]
struct Run {
    row: usize,
    /// Where it is in the row.
    ids: Range<usize>,
    /// The index of its first id in the document.
    offset: usize,
    /// The number of ids of the whole document, and the bytes of its text.
    document: (usize, usize),
    position: Position,
    corpus: u32,
}

impl Run {
    /// The bytes of the document's text that the ids before place `at` of the row stand for. A document's bytes are divided
    /// evenly among its ids.
    #[inline]
    fn bytes_before(&self, at: usize) -> u64 {
        let (ids, bytes) = self.document;
        // Many runs are whole documents, and a division takes as long as copying a few hundred ids.
        match self.offset + at - self.ids.start {
            0 => 0,
            id if id == ids => bytes as u64,
            id => (id * bytes / ids) as u64,
        }
    }
}

impl Batch {
    /// Notes the origin of a run, and which bytes of text its targets stand for.
    #[inline]
    fn note(&mut self, run: Run) {
        let Run { row, ids: Range { start: from, end: to }, offset, position, corpus, .. } = run;
        self.pieces.push(Piece {
            row: row as u32,
            from: from as u32,
            to: to as u32,
            offset: offset as u32,
            position,
            corpus,
        });
        // Ids past `seq_len` count in the next row, and the row's first id is not a target here: its bytes count in the
        // previous row.
        let (first, end) = (from.max(1), to.min(self.seq_len() + 1));
        if first >= end {
            return;
        }
        let behind = run.bytes_before(end);
        let bytes = behind - run.bytes_before(first);
        self.text_bytes += bytes;
        self.text_bytes_within_documents += match from + 1 {
            second if second == first => bytes,
            second if second < end => behind - run.bytes_before(second),
            _ => 0,
        };
    }
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
        let mut from = 0;
        for part in sequence.parts().iter().filter(|part| !part.is_empty()) {
            part.append_to(&mut batch.ids);
            let (to, corpus) = (from + part.len(), batch.corpus(part.files()));
            batch.note(Run {
                row,
                ids: from..to,
                offset: part.offset(),
                document: part.document(),
                position: part.position(),
                corpus,
            });
            from = to;
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
