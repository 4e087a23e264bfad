//! What a batch says of each of its ids: segment, position, and the ids to predict from it.
//!
//! All of it follows from the pieces, and is made when it is asked for. A piece is a segment: what a row holds of
//! one document.

use std::ops::Range;

use super::{Batch, Piece};

/// The ids to predict from each input of a batch, `[rows, seq_len]`, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The ids; where the mask is false, whatever lies there, another document's id or padding.
    pub ids: Vec<u32>,
    /// Whether the id is there and of the same document as the input.
    pub mask: Vec<bool>,
}

impl Batch {
    /// Which of its row's segments each id belongs to, `[rows, seq_len + ahead]`, row-major: 1, 2, ... in their
    /// order, and 0 where the row is padded.
    pub fn segment_ids(&self) -> Vec<u32> {
        let mut segments = vec![0; self.ids.len()];
        for row in self.pieces.chunk_by(|a, b| a.row == b.row) {
            for (segment, piece) in (1..).zip(row) {
                segments[self.range(piece)].fill(segment);
            }
        }
        segments
    }

    /// The place of each id in its segment, `[rows, seq_len + ahead]`, row-major: from 0 on in each, and 0 where
    /// the row is padded.
    pub fn position_ids(&self) -> Vec<u32> {
        let mut positions = vec![0; self.ids.len()];
        for piece in &self.pieces {
            for (position, id) in (0..).zip(&mut positions[self.range(piece)]) {
                *id = position;
            }
        }
        positions
    }

    /// Whether the next id is there and of the same document, for each input, `[rows, seq_len]`, row-major.
    pub fn loss_mask(&self) -> Vec<bool> {
        self.target_mask(1)
    }

    /// Where the targets of [`loss_mask`](Self::loss_mask) lie: the row, and the places in it. The first id of a
    /// document is none of them, nor is the first of a row.
    pub fn targets_within_documents(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let end = self.seq_len() + 1;
        let targets = move |piece: &Piece| (piece.from as usize + 1).min(end)..(piece.to as usize).min(end);
        self.pieces.iter().map(move |piece| (piece.row as usize, targets(piece)))
    }

    /// The length of the text that the targets of [`loss_mask`](Self::loss_mask) stand for, in bytes, as
    /// [`text_bytes`](Self::text_bytes) counts it.
    pub fn text_bytes_within_documents(&self) -> u64 {
        self.text_bytes_within_documents
    }

    /// The id `ahead` places on from each input, and whether it is there and of the same document.
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
            // The inputs whose target lies in the same piece.
            let (start, from) = (piece.row as usize * seq_len, piece.from as usize);
            let end = (piece.to as usize).saturating_sub(ahead).min(seq_len);
            if from < end {
                mask[start + from..start + end].fill(true);
            }
        }
        mask
    }

    /// Where a piece's ids lie among the batch's.
    fn range(&self, piece: &Piece) -> Range<usize> {
        let start = piece.row as usize * self.width;
        start + piece.from as usize..start + piece.to as usize
    }
}
