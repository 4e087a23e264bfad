//! Muon on one parameter: takes a gradient and a moment, returns the parameter and the moment after a step.
//!
//! It is burn's own, with the settings of `torch.optim.Muon`: Nesterov momentum, and five steps of the Newton-Schulz
//! iteration with Jordan's coefficients. PyTorch iterates in bf16, and burn in the parameters' f32. PyTorch's moment is an
//! average of gradients and burn's a sum, which is a multiple of it: both steps are the same, because the iteration begins
//! by dividing by the norm.

use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::{Momentum, MomentumConfig, MomentumState};
use burn::optim::{AdjustLrFn, LearningRate, MuonConfig, Optimizer};
use burn::tensor::{Device, Tensor};

/// How much of the moment stays at each step.
const MOMENTUM: f64 = 0.95;

/// Muon (Jordan et al., 2024, <https://kellerjordan.github.io/posts/muon>) on a parameter that holds one matrix, or several
/// side by side.
///
/// Each matrix is orthogonalized alone, as Jordan advises for queries, keys and values. A step is then `0.2 *
/// sqrt(max(rows, columns))` times as long (Liu et al., 2025, arXiv:2502.16982): its root mean square is that of AdamW's
/// steps, so both take the same learning rate and weight decay. A matrix and its transpose take the same steps.
#[derive(Clone)]
pub(super) struct Muon {
    momentum: Momentum,
    /// burn's, without momentum: a parameter has one moment, whatever it holds.
    burn: burn::optim::Muon,
    /// The width of each matrix, from the left.
    widths: Vec<usize>,
}

impl Muon {
    pub(super) fn new(weight_decay: f32, widths: Vec<usize>) -> Self {
        let config = |momentum, nesterov| MomentumConfig { momentum, dampening: 0.0, nesterov };
        let burn = MuonConfig::new()
            .with_weight_decay(Some(WeightDecayConfig::new(weight_decay)))
            .with_momentum(config(0.0, false))
            .with_adjust_lr_fn(AdjustLrFn::MatchRmsAdamW)
            .build();
        Self { momentum: Momentum::new(&config(MOMENTUM, true)), burn, widths }
    }
}

impl Optimizer for Muon {
    type State<const D: usize> = MomentumState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        moment: Option<MomentumState<D>>,
    ) -> (Tensor<D>, Option<MomentumState<D>>) {
        let (direction, moment) = self.momentum.transform(gradient, moment);
        let matrices = |of: Tensor<D>| of.split_with_sizes(self.widths.clone(), 1).into_iter();
        let stepped = matrices(parameter)
            .zip(matrices(direction))
            .map(|(matrix, direction)| self.burn.step(lr, matrix, direction, None).0);
        (Tensor::cat(stepped.collect(), 1), Some(moment))
    }

    fn to_device<const D: usize>(moment: MomentumState<D>, device: &Device) -> MomentumState<D> {
        moment.to_device(device)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;

    const DECAY: f32 = 0.3;

    fn numbers(shape: [usize; 2], seed: usize) -> Tensor<2> {
        let count = shape[0] * shape[1];
        let values: Vec<f32> = (0..count).map(|at| ((at * at * 7 + seed * 13) as f32).sin()).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    /// The parameter after some steps, along gradients that `change` makes of the same ones.
    fn stepped(optimizer: &impl Optimizer, change: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
        let (mut parameter, mut state) = (change(numbers([6, 10], 0)), None);
        for step in 1..6 {
            let gradient = change(numbers([6, 10], step));
            (parameter, state) = optimizer.step(0.1 / step as f64, parameter, gradient, state);
        }
        parameter
    }

    fn assert_close(ours: &Tensor<2>, theirs: &Tensor<2>) {
        assert_eq!(ours.dims(), theirs.dims());
        let values = |x: &Tensor<2>| x.to_data().try_to_vec::<f32>().expect("f32");
        for (at, (ours, theirs)) in values(ours).iter().zip(values(theirs)).enumerate() {
            assert!((ours - theirs).abs() <= 1e-4, "at {at}: {ours} and {theirs}");
        }
    }

    #[test]
    fn matrices_side_by_side_are_stepped_as_burn_steps_each_alone() {
        let burn = MuonConfig::new()
            .with_weight_decay(Some(WeightDecayConfig::new(DECAY)))
            .with_adjust_lr_fn(AdjustLrFn::MatchRmsAdamW)
            .build();
        let columns = |from: usize, to: usize| move |x: Tensor<2>| x.slice([0..6, from..to]);
        let left = stepped(&burn, columns(0, 3));
        let right = stepped(&burn, columns(3, 10));
        let both = stepped(&Muon::new(DECAY, vec![3, 7]), |x| x);
        assert_close(&both, &Tensor::cat(vec![left, right], 1));
        assert_close(&stepped(&Muon::new(DECAY, vec![10]), |x| x), &stepped(&burn, |x| x));
    }

    #[test]
    fn a_matrix_and_its_transpose_take_the_same_steps() {
        let transposed = stepped(&Muon::new(DECAY, vec![6]), Tensor::transpose);
        assert_close(&transposed.transpose(), &stepped(&Muon::new(DECAY, vec![10]), |x| x));
    }
}
