//! What a row holds by the values of a column, for the ledger: one entry for each run of a document's ids.

use std::borrow::Cow;
use std::ops::Range;

use super::build::BatchBuilder;
use super::{MaskedPlaces, Piece};
use crate::cursor::{RowAccount, SourceLedger};
use crate::document::label;

/// What a row holds, with the values.
type RowValues<'a> = Vec<(Cow<'a, str>, SourceLedger)>;

impl BatchBuilder {
    /// What the last row holds by the values of a column, if it holds so much in all.
    #[cold]
    pub(crate) fn values_of_last_row(&self, column: &str, account: RowAccount) -> RowValues<'_> {
        let (batch, row) = (self.batch(), self.rows().saturating_sub(1) as u32);
        let pieces = &batch.pieces[batch.pieces.partition_point(|piece| piece.row < row)..];
        let masked = &batch.masked[batch.masked.partition_point(|masked| masked.row < row)..];
        let of_piece = |piece: &Piece| {
            let places = piece.from as usize..piece.to as usize;
            (label(batch.column(piece, column)), counted(places, piece.offset == 0, masked, account))
        };
        pieces.iter().map(of_piece).collect()
    }
}

/// Counts a document's ids at some places of a row, whose masked places are in order.
fn counted(places: Range<usize>, begins: bool, masked: &[MaskedPlaces], row: RowAccount) -> SourceLedger {
    let counted = row.counted_places();
    // With targets further ahead, all of a run may be behind the places that count.
    let start = places.start.max(1);
    let targets = start..places.end.min(counted.end).max(start);
    let masked = &masked[masked.partition_point(|masked| masked.to as usize <= targets.start)..];
    let masked = masked.iter().map(|masked| masked.from as usize..masked.to as usize);
    let masked = masked.take_while(|masked| masked.start < targets.end);
    let masked: usize =
        masked.map(|masked| masked.end.min(targets.end) - masked.start.max(targets.start)).sum();
    SourceLedger {
        documents: u64::from(begins && counted.contains(&places.start)),
        learned: (targets.len() - masked) as u64,
        masked: masked as u64,
        first: u64::from(places.contains(&0) && counted.contains(&0)),
        ..SourceLedger::default()
    }
}
