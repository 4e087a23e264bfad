//! Dropout of what enters the adapters: which numbers are left out is a function of the seed, the step, the ids of the row
//! and the number's place, so it is the same after a resume, on any number of ranks, and however the rows of a batch are
//! split. Rows with equal ids in one step leave out the same.

use std::hash::Hasher;

use burn::tensor::{Int, Tensor, TensorData};
use twox_hash::XxHash3_64;

use super::random::Uniform;

/// A model's dropout, and the step that it is drawn for.
#[derive(Clone, Debug)]
pub(super) struct Dropout {
    /// The share that is left out.
    share: f64,
    seed: u64,
    pub(super) step: u64,
}

impl Dropout {
    pub(super) fn new(share: f64, seed: u64) -> Self {
        Self { share, seed, step: 0 }
    }

    /// The draws for rows with these ids, `[rows, length]`. Reads them from the device.
    pub(super) fn draws(&self, ids: &Tensor<2, Int>) -> Draws {
        let [_, length] = ids.dims();
        let ids: Vec<i64> = ids.clone().into_data().iter::<i64>().collect();
        let key = |row: &[i64]| {
            let mut hasher = XxHash3_64::with_seed(self.seed);
            hasher.write(&self.step.to_le_bytes());
            row.iter().for_each(|id| hasher.write(&id.to_le_bytes()));
            hasher.finish()
        };
        Draws { share: self.share, keys: ids.chunks(length).map(key).collect(), length }
    }
}

/// What one pass leaves out.
#[derive(Debug)]
pub(super) struct Draws {
    share: f64,
    /// A number for each row.
    keys: Vec<u64>,
    length: usize,
}

impl Draws {
    /// Sets a share of the input of the matrix `number`, `[rows * length, width]`, to zero, and makes up for it in the
    /// rest.
    pub(super) fn drop_from(&self, x: Tensor<2>, number: usize) -> Tensor<2> {
        let [places, width] = x.dims();
        // 16 of 64 random bits decide on a number.
        let bound = (self.share * 65_536.0).round() as u64;
        let kept = (1.0 / (1.0 - self.share)) as f32;
        let mut factors = Vec::with_capacity(places * width);
        for key in &self.keys {
            let mut hasher = XxHash3_64::with_seed(*key);
            hasher.write(&(number as u64).to_le_bytes());
            let mut uniform = Uniform::new(hasher.finish());
            let end = factors.len() + self.length * width;
            while factors.len() < end {
                let bits = uniform.bits();
                let four = (0..4).map(|at| bits >> (16 * at) & 0xffff);
                let factor = |bits| if bits < bound { 0.0 } else { kept };
                factors.extend(four.take(end - factors.len()).map(factor));
            }
        }
        let factors = Tensor::<2>::from_data(TensorData::new(factors, [places, width]), &x.device());
        let dtype = x.dtype();
        x * factors.cast(dtype)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// What is left of ones, for these rows of three ids.
    fn left(dropout: &Dropout, rows: &[[i32; 3]], number: usize) -> Vec<f32> {
        let ids = TensorData::new(rows.concat(), [rows.len(), 3]);
        let draws = dropout.draws(&Tensor::from_data(ids, &Device::flex()));
        let ones = Tensor::ones([3 * rows.len(), 1001], &Device::flex());
        draws.drop_from(ones, number).into_data().try_to_vec().expect("f32")
    }

    #[test]
    fn rows_leave_out_the_same_wherever_they_are() {
        let dropout = Dropout::new(0.25, 7);
        let (one, two) = ([1, 2, 3], [3, 2, 1]);
        let both = left(&dropout, &[one, two], 5);
        assert_eq!(both, [left(&dropout, &[one], 5), left(&dropout, &[two], 5)].concat());
        let others = [
            left(&dropout, &[two], 5),
            left(&dropout, &[one], 6),
            left(&Dropout { step: 1, ..dropout.clone() }, &[one], 5),
            left(&Dropout::new(0.25, 8), &[one], 5),
        ];
        for other in others {
            assert_ne!(other, left(&dropout, &[one], 5));
        }
    }

    #[test]
    fn a_share_is_left_out_and_the_mean_stays() {
        for share in [0.0, 0.1, 0.5, 0.9] {
            let left = left(&Dropout::new(share, 7), &[[1, 2, 3], [4, 5, 6]], 0);
            let (count, zeros) = (left.len() as f64, left.iter().filter(|x| **x == 0.0).count() as f64);
            assert!((zeros / count - share).abs() < 0.02, "{share}: {zeros} of {count}");
            let mean = left.iter().copied().map(f64::from).sum::<f64>() / count;
            assert!((mean - 1.0).abs() < 0.15, "{share}: {mean}");
        }
    }
}
