//! RMSNorm, and its gradients.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::numbers::{Numbers, tensor};
use super::{grain, simd};

/// Returns `x / sqrt(mean(x²) + epsilon) * gain`, `[1, 1, rows, width]`, and the scale of each row, `[1, 1, rows, 1]`.
pub(crate) fn norm(x: &Tensor<4>, gain: &Tensor<4>, epsilon: f64) -> (Tensor<4>, Tensor<4>) {
    let [.., count, width] = x.dims();
    let (x, gain) = (Numbers::new(x.clone()), Numbers::new(gain.clone()));
    let (mut output, mut scales) = (vec![0.0; count * width], vec![0.0; count]);
    let rows = grain(width);
    (output.par_chunks_mut(rows * width), scales.par_chunks_mut(rows), x.get().par_chunks(rows * width))
        .into_par_iter()
        .for_each(|(output, scales, x)| norm_rows(output, scales, x, gain.get(), epsilon as f32));
    (tensor(output, [1, 1, count, width]), tensor(scales, [1, 1, count, 1]))
}

vectorized! {
    fn norm_rows<'a>(output: &'a mut [f32], scales: &'a mut [f32], x: &'a [f32], gain: &'a [f32], epsilon: f32) {
        let width = gain.len();
        for ((output, scale), x) in output.chunks_exact_mut(width).zip(scales).zip(x.chunks_exact(width)) {
            let squares = simd::sum([x], |[x]| x * x);
            *scale = 1.0 / (squares / width as f32 + epsilon).sqrt();
            for ((output, x), gain) in output.iter_mut().zip(x).zip(gain) {
                *output = x * *scale * gain;
            }
        }
    }
}

/// Returns the gradients of `x` and of `gain`, `[1, 1, 1, width]`, given that of [`norm`]'s output and its scales.
pub(crate) fn norm_gradients(
    slopes: Tensor<4>,
    x: Tensor<4>,
    gain: Tensor<4>,
    scales: Tensor<4>,
) -> [Tensor<4>; 2] {
    let width = x.dims()[3];
    let [mut slopes, x, gain, scales] = [slopes, x, gain, scales].map(Numbers::new);
    let rows = grain(width);
    let inputs = (x.get().par_chunks(rows * width), scales.get().par_chunks(rows));
    let gains: Vec<Vec<f32>> = (slopes.get_mut().par_chunks_mut(rows * width), inputs)
        .into_par_iter()
        .map(|(slopes, (x, scales))| gradient_rows(slopes, x, gain.get(), scales))
        .collect();
    let mut gain = vec![0.0; width];
    for gains in gains {
        gain.iter_mut().zip(gains).for_each(|(sum, gain)| *sum += gain);
    }
    [slopes.into_tensor(), tensor(gain, [1, 1, 1, width])]
}

vectorized! {
    /// Replaces the slopes by the gradient of `x`, and returns that of the gain.
    fn gradient_rows<'a>(slopes: &'a mut [f32], x: &'a [f32], gain: &'a [f32], scales: &'a [f32]) -> Vec<f32> {
        let width = gain.len();
        let mut gains = vec![0.0; width];
        for ((slopes, x), &scale) in slopes.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(scales) {
            let along = simd::sum([slopes, gain, x], |[slope, gain, x]| slope * gain * x);
            let back = scale * scale * scale * along / width as f32;
            for ((slope, of_gain), (x, gain)) in slopes.iter_mut().zip(&mut gains).zip(x.iter().zip(gain)) {
                *of_gain += *slope * x * scale;
                *slope = *slope * gain * scale - x * back;
            }
        }
        gains
    }
}
