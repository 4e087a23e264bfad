//! Turns a [`Batch`] into tensors: the only place that does.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::scope::Scope;
use millstream::batch::Batch;

/// Some rows of a batch on a device.
#[derive(Clone, Debug)]
pub struct Tensors {
    /// The model's inputs, `[rows, seq_len]`.
    pub inputs: Tensor<2, Int>,
    /// The ids to predict, `[rows, seq_len]`.
    pub targets: Tensor<2, Int>,
    /// 1 where a target counts and 0 elsewhere, `[rows, seq_len]`; `None` if all count.
    pub mask: Option<Tensor<2>>,
    /// The place of each input in its document, `[rows, seq_len]`, and 0 for padding, so that each padding is on its own;
    /// `None` if a row is one text to the model.
    pub positions: Option<Tensor<2, Int>>,
}

impl Tensors {
    /// Makes tensors from all rows of `batch`.
    pub fn new(batch: &Batch, scope: Scope, device: &Device) -> Self {
        Self::from_rows(batch, 0..batch.rows(), scope, device)
    }

    /// Makes tensors from the rows `rows` of `batch`. They go to the device in one piece, and nothing waits for it there.
    ///
    /// # Panics
    /// If the batch does not have these rows.
    pub fn from_rows(batch: &Batch, rows: Range<usize>, scope: Scope, device: &Device) -> Self {
        let (length, width, mut values) = (batch.seq_len(), batch.width(), Vec::new());
        // Adds a value for each input, of rows that are `width` wide and begin at `from`.
        let mut push = |all: &[u32], width: usize, from: usize| {
            let of_rows = rows.clone().flat_map(|row| &all[row * width + from..][..length]);
            values.extend(of_rows.map(|&value| value as i32));
        };
        push(batch.ids(), width, 0);
        push(batch.ids(), width, 1);
        let masked = batch.is_padded() || batch.is_masked() || scope == Scope::Document;
        if masked {
            push(&counted(batch, scope), length, 0);
        }
        if scope == Scope::Document {
            push(&batch.position_ids(), width, 0);
        }
        let count = 2 + usize::from(masked) + usize::from(scope == Scope::Document);
        let values = TensorData::new(values, [count, rows.len(), length]);
        let planes = Tensor::<3, Int>::from_data(values, device);
        let plane = |at: usize| planes.clone().slice_dim(0, at..at + 1).squeeze_dim::<2>(0);
        Self {
            inputs: plane(0),
            targets: plane(1),
            mask: masked.then(|| plane(2).float()),
            positions: (scope == Scope::Document).then(|| plane(3)),
        }
    }
}

/// 1 for each input whose target counts, and 0 for the others, `[rows, seq_len]`, row-major.
fn counted(batch: &Batch, scope: Scope) -> Vec<u32> {
    let length = batch.seq_len();
    let mut counted = vec![0; batch.rows() * length];
    for (row, ids) in scope.targets(batch) {
        // A target is one place after the input that it is predicted from.
        counted[row * length..][ids.start - 1..ids.end - 1].fill(1);
    }
    counted
}
