//! What a row holds by the values of a column, for the ledger: one entry for each run of a document's ids.

use std::borrow::Cow;
use std::ops::Range;

use super::row_block::RowBlock;
use super::{MaskedPlaces, Piece};
use crate::cursor::{RowAccount, SourceLedger};
use crate::document::label;

impl RowBlock {
    /// What a row holds by the values of a column.
    #[cold]
    pub(crate) fn values(&self, nth: usize, column: &str) -> Vec<(Cow<'_, str>, SourceLedger)> {
        let row = self.row(nth);
        let of_piece = |piece: &Piece| {
            let places = piece.from as usize..piece.to as usize;
            let value = self.columns(piece).and_then(|columns| columns.get(column));
            (label(value), counted(places, piece.offset == 0, row.masked, row.row.account))
        };
        row.pieces.iter().map(of_piece).collect()
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
