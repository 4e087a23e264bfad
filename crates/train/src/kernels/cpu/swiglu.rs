//! SwiGLU, and its gradient.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::numbers::{Numbers, tensor};
use super::{grain, simd};

/// Returns `silu(gate) * up`, `[1, 1, rows, width]`, for rows of gates followed by ups, `[1, 1, rows, 2 * width]`.
pub(crate) fn swiglu(both: &Tensor<4>) -> Tensor<4> {
    let [.., count, width] = both.dims();
    let width = width / 2;
    let both = Numbers::new(both.clone());
    let mut output = vec![0.0; count * width];
    let rows = grain(width);
    (output.par_chunks_mut(rows * width), both.get().par_chunks(rows * 2 * width))
        .into_par_iter()
        .for_each(|(output, both)| swiglu_rows(output, both, width));
    tensor(output, [1, 1, count, width])
}

vectorized! {
    fn swiglu_rows<'a>(output: &'a mut [f32], both: &'a [f32], width: usize) {
        for (output, both) in output.chunks_exact_mut(width).zip(both.chunks_exact(2 * width)) {
            let (gates, ups) = both.split_at(width);
            for ((output, gate), up) in output.iter_mut().zip(gates).zip(ups) {
                *output = gate * simd::sigmoid(*gate) * up;
            }
        }
    }
}

/// Returns the gradient of gates and ups, given that of [`swiglu`]'s output.
pub(crate) fn swiglu_gradient(slopes: Tensor<4>, both: Tensor<4>) -> Tensor<4> {
    let width = slopes.dims()[3];
    let (slopes, mut both) = (Numbers::new(slopes), Numbers::new(both));
    let rows = grain(width);
    (both.get_mut().par_chunks_mut(rows * 2 * width), slopes.get().par_chunks(rows * width))
        .into_par_iter()
        .for_each(|(both, slopes)| gradient_rows(both, slopes, width));
    both.into_tensor()
}

vectorized! {
    /// Replaces gates and ups by their gradients.
    fn gradient_rows<'a>(both: &'a mut [f32], slopes: &'a [f32], width: usize) {
        for (both, slopes) in both.chunks_exact_mut(2 * width).zip(slopes.chunks_exact(width)) {
            let (gates, ups) = both.split_at_mut(width);
            simd::replace_pairs(gates, ups, slopes, |[gate, up], slope| {
                let share = simd::sigmoid(gate);
                let silu = gate * share;
                [slope * up * (share + silu * (1.0 - share)), slope * silu]
            });
        }
    }
}
