//! RMSNorm of rows. It keeps its input and one number for each row for the backward pass.
//!
//! Autodiff of `burn::nn::RmsNorm` would also keep the input over its root mean square, a tensor as large as the input,
//! and that module divides in the type of its input, where bf16 would round.

use burn::tensor::Tensor;

use super::cpu;
use super::derivative::{Derivative, differentiable};

/// `x / sqrt(mean(x²) + epsilon) * gain` for each row of `[1, 1, rows, width]`; the gain is `[1, 1, 1, width]`.
pub(crate) fn norm(x: Tensor<4>, gain: Tensor<4>, epsilon: f64) -> Tensor<4> {
    differentiable([x, gain], |[x, gain]| {
        let (output, scale) = norm_of(&x, &gain, epsilon);
        (output, Normed { x, gain, scale })
    })
}

/// The norm of each row, and what it is multiplied by, `[1, 1, rows, 1]`.
fn norm_of(x: &Tensor<4>, gain: &Tensor<4>, epsilon: f64) -> (Tensor<4>, Tensor<4>) {
    if cpu::has(x) {
        return cpu::norm(x, gain, epsilon);
    }
    let scale = x.clone().square().mean_dim(3).add_scalar(epsilon).sqrt().recip();
    (x.clone() * scale.clone() * gain.clone(), scale)
}

/// The gradient of [`norm`].
#[derive(Clone, Debug)]
struct Normed {
    x: Tensor<4>,
    gain: Tensor<4>,
    scale: Tensor<4>,
}

impl Derivative<2> for Normed {
    fn gradients(self, slopes: Tensor<4>) -> [Tensor<4>; 2] {
        let Self { x, gain, scale } = self;
        if cpu::has(&x) {
            return cpu::norm_gradients(slopes, x, gain, scale);
        }
        let of_gain = (slopes.clone() * x.clone() * scale.clone()).sum_dim(2);
        let slopes = slopes * gain;
        // How much a longer row would make all of its scale smaller.
        let back = (slopes.clone() * x.clone()).mean_dim(3) * scale.clone().powi_scalar(3);
        [slopes * scale - x * back, of_gain]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, TensorData};
    use proptest::prelude::*;

    use super::*;

    fn numbers(shape: [usize; 4], seed: usize, dtype: DType) -> Tensor<4> {
        let values = (0..shape.iter().product()).map(|at| ((at * 7 + seed) as f64).sin() * 3.0);
        let data = TensorData::new(values.collect(), shape);
        Tensor::from_data(data, (&Device::flex().autodiff(), dtype))
    }

    /// The norm and the gradients of its inputs.
    fn found(rows: usize, width: usize, seed: usize, dtype: DType) -> [Vec<f64>; 3] {
        let shape = [1, 1, rows, width];
        let [x, slopes] = [seed, seed + 1].map(|seed| numbers(shape, seed, dtype));
        let gain = numbers([1, 1, 1, width], seed + 2, dtype).require_grad();
        let x = x.require_grad();
        let output = norm(x.clone(), gain.clone(), 1e-5);
        let gradients = (output.clone() * slopes).sum().backward();
        let [x, gain] = [x, gain].map(|x| x.grad(&gradients).expect("a gradient"));
        [output.inner(), x, gain].map(|x| x.into_data().iter::<f64>().collect())
    }

    proptest! {
        /// Only f32 has code of its own on the CPU, and all norms of a model are f32. Here, f64 takes the operations that
        /// all devices have.
        #[test]
        fn other_devices_operations_give_the_same(rows in 1usize..40, width in 1usize..40, seed in 0usize..99) {
            let [found, expected] = [DType::F64, DType::F32].map(|dtype| found(rows, width, seed, dtype));
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                prop_assert!((found - expected).abs() <= 1e-4 * (1.0 + expected.abs()), "{found} {expected}");
            }
        }
    }
}
