//! AdamW on one parameter: takes a gradient and two moments, returns the parameter and the moments after a step.
//!
//! It is burn's own. But on the CPU it takes one pass over the numbers. Both keep the same state.

use burn::optim::{AdamWConfig, AdamWState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};

use crate::config::TrainConfig;
use crate::kernels::cpu;

/// AdamW (Loshchilov and Hutter, arXiv:1711.05101) with one weight decay.
#[derive(Clone)]
pub(super) struct AdamW {
    burn: burn::optim::AdamW,
    on_cpu: cpu::AdamWKernel,
}

impl AdamW {
    pub(super) fn new(config: &TrainConfig, weight_decay: f32) -> Self {
        let burn = AdamWConfig::new()
            .with_beta_1(config.beta1)
            .with_beta_2(config.beta2)
            .with_epsilon(config.epsilon)
            .with_weight_decay(weight_decay)
            .build();
        Self { burn, on_cpu: cpu::AdamWKernel::new(config, weight_decay) }
    }
}

impl Optimizer for AdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        if cpu::has(&parameter) && cpu::has(&gradient) {
            let moments = state.map(|state| state.momentum);
            let (parameter, moments) = self.on_cpu.step(lr, parameter, gradient, moments);
            return (parameter, Some(AdamWState::new(moments)));
        }
        self.burn.step(lr, parameter, gradient, state)
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        burn::optim::AdamW::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;

    fn numbers(count: usize, seed: usize) -> Tensor<1> {
        let values: Vec<f32> = (0..count).map(|at| ((at * 7 + seed * 13) as f32).sin()).collect();
        Tensor::from_data(TensorData::new(values, [count]), &Device::flex())
    }

    #[test]
    fn steps_on_the_cpu_are_burns_own() {
        let config = TrainConfig { beta1: 0.8, beta2: 0.9, epsilon: 1e-3, ..TrainConfig::default() };
        let adamw = AdamW::new(&config, 0.3);
        // More than one thread takes at once.
        let count = 40_000;
        let (mut ours, mut burns) = ((numbers(count, 0), None), (numbers(count, 0), None));
        for step in 1..8 {
            let (lr, gradient) = (0.1 / step as f64, numbers(count, step));
            ours = adamw.step(lr, ours.0, gradient.clone(), ours.1);
            burns = adamw.burn.step(lr, burns.0, gradient, burns.1);
        }
        let values = |x: &Tensor<1>| x.to_data().try_to_vec::<f32>().expect("f32");
        let state = |state: &Option<AdamWState<1>>| {
            let momentum = state.as_ref().expect("a state").momentum.clone();
            (momentum.time, [values(&momentum.moment_1), values(&momentum.moment_2)].concat())
        };
        let ((time, moments), (burns_time, burns_moments)) = (state(&ours.1), state(&burns.1));
        assert_eq!(time, burns_time);
        let (ours, burns) = ([values(&ours.0), moments].concat(), [values(&burns.0), burns_moments].concat());
        for (at, (a, b)) in ours.iter().zip(&burns).enumerate() {
            assert!((a - b).abs() <= 1e-6 * (1.0 + b.abs()), "at {at}: {a} and {b}");
        }
    }
}
