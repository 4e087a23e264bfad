//! Turns a [`Batch`] into tensors: the only place that does.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::documents::Documents;
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
    /// Which document each input belongs to; `None` if a row is one text to the model.
    pub documents: Option<Documents>,
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
        let mut planes = Planes { values: Vec::new(), count: 0, rows, length: batch.seq_len() };
        planes.push(batch.ids(), batch.width(), 0);
        planes.push(batch.ids(), batch.width(), 1);
        let masked = batch.is_padded() || batch.is_masked() || scope == Scope::Document;
        if masked {
            planes.push(&counted(batch, scope), batch.seq_len(), 0);
        }
        if scope == Scope::Document {
            planes.push(&batch.position_ids(), batch.width(), 0);
        }
        let planes = planes.upload(device);
        let plane = |at: usize| planes.clone().slice_dim(0, at..at + 1).squeeze_dim::<2>(0);
        Self {
            inputs: plane(0),
            targets: plane(1),
            mask: masked.then(|| plane(2).float()),
            documents: (scope == Scope::Document).then(|| Documents { positions: plane(3) }),
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

/// Numbers for each input of some rows, `[count, rows, length]`.
struct Planes {
    values: Vec<i32>,
    count: usize,
    rows: Range<usize>,
    length: usize,
}

impl Planes {
    /// Adds `length` values of each row, beginning at `from`, of rows that are `width` wide.
    fn push(&mut self, values: &[u32], width: usize, from: usize) {
        for row in self.rows.clone() {
            let values = &values[row * width + from..][..self.length];
            self.values.extend(values.iter().map(|&value| value as i32));
        }
        self.count += 1;
    }

    fn upload(self, device: &Device) -> Tensor<3, Int> {
        let shape = [self.count, self.rows.len(), self.length];
        Tensor::from_data(TensorData::new(self.values, shape), device)
    }
}
