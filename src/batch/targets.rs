//! Facts about each id of a batch: its segment, its position, and the ids to predict from it.
//!
//! All of it is computed from the pieces when you ask for it. A piece is a segment: the part of one document in a row.

use std::ops::Range;

use super::{Batch, Piece};

/// The ids to predict from each input of a batch, `[rows, seq_len]`, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The ids. Where the mask is false, the value is arbitrary: another document's id or padding.
    pub ids: Vec<u32>,
    /// Whether the target exists, belongs to the same document as the input, and is learned from.
    pub mask: Vec<bool>,
}

impl Batch {
    /// Returns the segment number of each id in its row, `[rows, seq_len + ahead]`, row-major: 1, 2, ... in order, and
    /// 0 for padding.
    pub fn segment_ids(&self) -> Vec<u32> {
        let mut segments = vec![0; self.rows() * self.width];
        for row in self.pieces.chunk_by(|a, b| a.row == b.row) {
            for (segment, piece) in (1..).zip(row) {
                segments[self.range(piece)].fill(segment);
            }
        }
        segments
    }

    /// Returns the place of each id in its segment, `[rows, seq_len + ahead]`, row-major: counted from 0 in each
    /// segment, and 0 for padding.
    pub fn position_ids(&self) -> Vec<u32> {
        let mut positions = vec![0; self.rows() * self.width];
        for piece in &self.pieces {
            for (position, id) in (0..).zip(&mut positions[self.range(piece)]) {
                *id = position;
            }
        }
        positions
    }

    /// Returns where each segment begins among the inputs, flattened to `[rows * seq_len]`, and the length of the
    /// longest segment, both counted in ids: the arguments of attention kernels for sequences of different lengths,
    /// such as `flash_attn_varlen_func` of [flash-attn](https://github.com/Dao-AILab/flash-attention) (`cu_seqlens_q`,
    /// `max_seqlen_q`).
    ///
    /// The first number is 0, the last is `rows * seq_len`, and each segment ends where the next begins: there is one
    /// number more than segments. The segments are those of [`segment_ids`](Self::segment_ids), cut at `seq_len`; none
    /// crosses rows, and none is empty. The padding of a row is a segment too, so that every input is in one.
    ///
    /// # Panics
    /// If the batch has more inputs than an `i32` can count.
    ///
    /// ```
    /// use millstream::Batch;
    ///
    /// // Two rows of one document each: two inputs, and the target of the last one.
    /// let batch = Batch::from_ids(vec![1, 2, 3, 4, 5, 6], 3);
    /// assert_eq!(batch.cu_seqlens(), (vec![0, 2, 4], 2));
    /// ```
    pub fn cu_seqlens(&self) -> (Vec<i32>, usize) {
        let seq_len = self.seq_len();
        let inputs = self.rows() * seq_len;
        assert!(i32::try_from(inputs).is_ok(), "{inputs} inputs are more than an i32 can count");
        // Pieces leave no gap, so a segment ends where a piece or a row does; the rest of a row is padding.
        let in_row = |piece: &Piece| piece.row as usize * seq_len + (piece.to as usize).min(seq_len);
        let mut ends: Vec<usize> = self.pieces.iter().map(in_row).collect();
        ends.extend((0..=self.rows()).map(|row| row * seq_len));
        ends.sort_unstable();
        ends.dedup();
        let longest = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        (ends.into_iter().map(|end| end as i32).collect(), longest)
    }

    /// Returns, for each input, whether the next id exists, belongs to the same document and is learned from,
    /// `[rows, seq_len]`, row-major.
    pub fn loss_mask(&self) -> Vec<bool> {
        self.target_mask(1)
    }

    /// Where the targets of [`loss_mask`](Self::loss_mask) are: the row, and the places in it. The first id of a
    /// document is not a target, nor is the first of a row. No range is empty.
    pub fn targets_within_documents(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let end = self.seq_len() + 1;
        self.pieces.iter().flat_map(move |piece| {
            let (row, places) = (piece.row as usize, piece.from as usize + 1..(piece.to as usize).min(end));
            self.learned_in(row, places).map(move |targets| (row, targets))
        })
    }

    /// The length of the text that the targets of [`loss_mask`](Self::loss_mask) stand for, in bytes, counted as in
    /// [`text_bytes`](Self::text_bytes).
    pub fn text_bytes_within_documents(&self) -> u64 {
        self.text_bytes_within_documents
    }

    /// Returns, for each input, the id `ahead` places later, and whether it exists, belongs to the same document and is
    /// learned from.
    ///
    /// # Panics
    /// If `ahead` is 0 or more than [`Batch::ahead`].
    pub fn targets(&self, ahead: usize) -> Targets {
        assert!(
            (1..=self.ahead).contains(&ahead),
            "a batch has targets 1 to {} ids ahead, not {ahead}",
            self.ahead
        );
        let seq_len = self.seq_len();
        let ids = (0..self.rows()).flat_map(|row| &self.row(row)[ahead..ahead + seq_len]);
        Targets { ids: ids.copied().collect(), mask: self.target_mask(ahead) }
    }

    fn target_mask(&self, ahead: usize) -> Vec<bool> {
        let seq_len = self.seq_len();
        let mut mask = vec![false; self.rows() * seq_len];
        for piece in &self.pieces {
            // The inputs whose target is in the same piece.
            let (start, from) = (piece.row as usize * seq_len, piece.from as usize);
            let end = (piece.to as usize).saturating_sub(ahead).min(seq_len);
            if from < end {
                mask[start + from..start + end].fill(true);
            }
        }
        for (row, places) in self.masked() {
            // The inputs whose target is one of these places.
            let inputs = places.start.saturating_sub(ahead)..places.end.saturating_sub(ahead).min(seq_len);
            if !inputs.is_empty() {
                mask[row * seq_len + inputs.start..row * seq_len + inputs.end].fill(false);
            }
        }
        mask
    }

    /// The range of a piece's ids among the batch's ids.
    fn range(&self, piece: &Piece) -> Range<usize> {
        let start = piece.row as usize * self.width;
        start + piece.from as usize..start + piece.to as usize
    }
}
