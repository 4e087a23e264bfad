//! Which ids of a batch are learned from.

use crate::batch::Batch;

/// Whether each id of a batch is learned from, `[rows, width]`, row by row: it is neither masked nor padding.
///
/// The first id of a document counts too, although nothing is there to predict it from: for what the loss sees, ask
/// [`Batch::loss_mask`].
pub fn learned(batch: &Batch) -> Vec<bool> {
    let width = batch.width();
    let mut learned = vec![false; batch.rows() * width];
    for (row, length) in batch.lengths().iter().enumerate() {
        learned[row * width..][..*length as usize].fill(true);
    }
    for (row, places) in batch.masked() {
        learned[row * width..][places].fill(false);
    }
    learned
}
