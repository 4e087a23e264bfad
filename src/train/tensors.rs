//! Turns a [`Batch`] into tensors: the only place that does.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::model::Documents;
use super::scope::Scope;
use crate::batch::Batch;

/// Some rows of a batch on a device.
#[derive(Clone, Debug)]
pub struct Tensors {
    /// The model's inputs, `[rows, seq_len]`.
    pub inputs: Tensor<2, Int>,
    /// The ids to predict, `[rows, seq_len]`.
    pub targets: Tensor<2, Int>,
    /// 1 where a target counts and 0 elsewhere, `[rows, seq_len]`; `None` if all count.
    pub mask: Option<Tensor<2>>,
    /// Which document each input belongs to; `None` if a row is one text to the model.
    pub documents: Option<Documents>,
}

impl Tensors {
    /// Makes tensors from all rows of `batch`.
    pub fn new(batch: &Batch, scope: Scope, device: &Device) -> Self {
        Self::of_rows(batch, 0..batch.rows(), scope, device)
    }

    /// Makes tensors from the rows `rows` of `batch`.
    ///
    /// # Panics
    /// If the batch does not have these rows.
    pub fn of_rows(batch: &Batch, rows: Range<usize>, scope: Scope, device: &Device) -> Self {
        let (length, width) = (batch.seq_len(), batch.width());
        let shape = [rows.len(), length];
        // `length` values of each row, beginning at `from`.
        let tensor = |values: &[u32], from: usize| {
            let values: Vec<i32> = rows
                .clone()
                .flat_map(|row| &values[row * width + from..][..length])
                .map(|&value| value as i32)
                .collect();
            Tensor::from_data(TensorData::new(values, shape), device)
        };
        let mask = (batch.is_padded() || scope == Scope::Document).then(|| {
            let mut mask = vec![0.0f32; rows.len() * length];
            for (row, ids) in scope.targets(batch) {
                if rows.contains(&row) {
                    // A target is one place after the input that it is predicted from.
                    mask[(row - rows.start) * length..][ids.start - 1..ids.end - 1].fill(1.0);
                }
            }
            Tensor::from_data(TensorData::new(mask, shape), device)
        });
        let documents = (scope == Scope::Document).then(|| Documents {
            segments: tensor(&batch.segment_ids(), 0),
            positions: tensor(&batch.position_ids(), 0),
        });
        Self { inputs: tensor(batch.ids(), 0), targets: tensor(batch.ids(), 1), mask, documents }
    }
}
