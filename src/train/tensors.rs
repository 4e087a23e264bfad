//! From a [`Batch`] to tensors: the only place where one becomes the other.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::batch::Batch;

/// Some rows of a batch on a device.
#[derive(Clone, Debug)]
pub struct Tensors {
    /// What the model reads, `[rows, seq_len]`.
    pub inputs: Tensor<2, Int>,
    /// What it is to predict, `[rows, seq_len]`.
    pub targets: Tensor<2, Int>,
    /// 1 where a target counts and 0 where it is padding, `[rows, seq_len]`; none if no row is padded.
    pub mask: Option<Tensor<2>>,
}

impl Tensors {
    /// All rows of `batch`.
    pub fn new(batch: &Batch, device: &Device) -> Self {
        Self::of_rows(batch, 0..batch.rows(), device)
    }

    /// The rows `rows` of `batch`.
    ///
    /// # Panics
    /// If the batch has no such rows, or rows of no target.
    pub fn of_rows(batch: &Batch, rows: Range<usize>, device: &Device) -> Self {
        let shape = [rows.len(), batch.width() - 1];
        let ids = |from: usize| {
            let ids: Vec<i32> = rows
                .clone()
                .flat_map(|row| &batch.row(row)[from..from + shape[1]])
                .map(|&id| id as i32)
                .collect();
            Tensor::from_data(TensorData::new(ids, shape), device)
        };
        let mask = batch.is_padded().then(|| {
            let mask: Vec<f32> = rows
                .clone()
                .flat_map(|row| {
                    let targets = (batch.lengths()[row] as usize).saturating_sub(1);
                    (0..shape[1]).map(move |at| if at < targets { 1.0 } else { 0.0 })
                })
                .collect();
            Tensor::from_data(TensorData::new(mask, shape), device)
        });
        Self { inputs: ids(0), targets: ids(1), mask }
    }
}
