//! Looks up the vectors of ids.

use burn::tensor::{Int, Tensor, module};

use super::chunks::is_cpu;

/// Returns the rows of `weights`, `[vocab, d_model]`, that `ids`, `[batch, length]`, name: `[batch, length, d_model]`.
pub(crate) fn embed(weights: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    match is_cpu(&weights.device()) {
        true => module::embedding(weights, ids),
        false => gather_rows(weights, ids),
    }
}

/// Looks up each number instead of each row.
///
/// The gradient of burn's embedding is one loop over all ids for each column of the weights: on a GPU, a few hundred
/// threads that each add up thousands of numbers. The gradient of a gather is one addition for each number, all at
/// once, where the device can add atomically. The order of these additions varies, and with it the last bits.
fn gather_rows(weights: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    let ([_, width], [batch, length]) = (weights.dims(), ids.dims());
    let ids = ids.reshape([batch * length, 1]).expand([batch * length, width]);
    weights.gather(0, ids).reshape([batch, length, width])
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    #[test]
    fn both_ways_give_the_same_vectors_and_gradients() {
        let device = Device::flex().autodiff();
        let numbers = |count: usize| (0..count).map(|at| (at as f32).sin()).collect::<Vec<_>>();
        // Ids that appear twice, once and never.
        let ids = || Tensor::<2, Int>::from_data([[1, 3, 1], [0, 4, 4]], &device);
        let slopes = || Tensor::<3>::from_data(TensorData::new(numbers(30), [2, 3, 5]), &device);
        let found = |look: fn(Tensor<2>, Tensor<2, Int>) -> Tensor<3>| {
            let weights =
                Tensor::<2>::from_data(TensorData::new(numbers(35), [7, 5]), &device).require_grad();
            let vectors = look(weights.clone(), ids());
            let gradients = (vectors.clone() * slopes()).sum().backward();
            (vectors.inner().into_data(), weights.grad(&gradients).expect("a gradient").into_data())
        };
        assert_eq!(found(embed), found(gather_rows));
    }
}
