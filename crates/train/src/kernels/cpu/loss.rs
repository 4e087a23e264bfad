//! Softmax, cross-entropy and its gradient over rows of logits.

use burn::tensor::{Int, Tensor};
use rayon::prelude::*;

use super::numbers::{Numbers, tensor};
use super::{grain, simd};

/// Returns the losses of `targets`, `[rows, 1]`, in nats, and the gradient of their sum for `logits`, `[rows, vocab]`.
pub(crate) fn loss_and_slopes(logits: Tensor<2>, targets: &Tensor<2, Int>) -> (Tensor<2>, Tensor<2>) {
    let [count, vocab] = logits.dims();
    let mut logits = Numbers::new(logits);
    let targets = places(targets);
    let mut nats = vec![0.0; count];
    let rows = grain(vocab);
    (logits.get_mut().par_chunks_mut(rows * vocab), nats.par_chunks_mut(rows), targets.par_chunks(rows))
        .into_par_iter()
        .for_each(|(logits, nats, targets)| slopes_of_rows(logits, nats, targets, vocab));
    (tensor(nats, [count, 1]), logits.into_tensor())
}

vectorized! {
    /// Replaces the logits by their gradients.
    fn slopes_of_rows<'a>(logits: &'a mut [f32], nats: &'a mut [f32], targets: &'a [usize], vocab: usize) {
        for ((row, nats), &target) in logits.chunks_exact_mut(vocab).zip(nats).zip(targets) {
            let (max, chosen) = (simd::max(row), row[target]);
            let sum = simd::replace(row, |logit| simd::exp(logit - max));
            *nats = bounded(sum.ln() + max - chosen);
            let share = 1.0 / sum;
            row.iter_mut().for_each(|number| *number *= share);
            row[target] -= 1.0;
        }
    }
}

/// A probability that underflows f32 counts as the smallest normal one.
#[inline(always)]
fn bounded(nats: f32) -> f32 {
    let most = -f32::MIN_POSITIVE.ln();
    if nats > most { most } else { nats }
}

fn places(targets: &Tensor<2, Int>) -> Vec<usize> {
    targets.clone().into_data().iter::<i64>().map(|target| target as usize).collect()
}
