//! Sums, norms and multiples of whole gradients.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::numbers::Numbers;
use super::{GRAIN, simd};

pub(crate) fn add<const D: usize>(a: Tensor<D>, b: &Tensor<D>) -> Tensor<D> {
    let (mut a, b) = (Numbers::new(a), Numbers::new(b.clone()));
    let runs = a.get_mut().par_chunks_mut(GRAIN).zip(b.get().par_chunks(GRAIN));
    runs.for_each(|(a, b)| add_run(a, b));
    a.into_tensor()
}

vectorized! {
    pub(super) fn add_run<'a>(a: &'a mut [f32], b: &'a [f32]) {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    }
}

pub(crate) fn scale<const D: usize>(gradient: Tensor<D>, factor: f32) -> Tensor<D> {
    let mut gradient = Numbers::new(gradient);
    let runs = gradient.get_mut().par_chunks_mut(GRAIN);
    runs.for_each(|numbers| scale_run(numbers, factor));
    gradient.into_tensor()
}

vectorized! {
    fn scale_run<'a>(numbers: &'a mut [f32], factor: f32) {
        numbers.iter_mut().for_each(|number| *number *= factor);
    }
}

pub(crate) fn squares<const D: usize>(gradient: &Tensor<D>) -> f32 {
    let gradient = Numbers::new(gradient.clone());
    let runs = gradient.get().par_chunks(GRAIN);
    let sums: Vec<f32> = runs.map(squares_of_run).collect();
    sums.into_iter().map(f64::from).sum::<f64>() as f32
}

vectorized! {
    fn squares_of_run<'a>(numbers: &'a [f32]) -> f32 {
        simd::sum([numbers], |[x]| x * x)
    }
}
