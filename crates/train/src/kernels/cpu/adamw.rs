//! A step of AdamW.

use burn::optim::AdaptiveMomentumState;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::GRAIN;
use super::numbers::Numbers;
use crate::config::TrainConfig;

/// The constants of all steps.
#[derive(Clone, Debug)]
pub(crate) struct AdamWKernel {
    /// How much of each moment stays.
    betas: [f32; 2],
    epsilon: f32,
    weight_decay: f32,
}

/// The rates of a step, equal for every number.
#[derive(Clone, Copy)]
struct Rates {
    betas: [f32; 2],
    /// The factors that correct the moments for beginning at 0.
    corrections: [f32; 2],
    epsilon: f32,
    /// The factor of the parameter.
    decay: f32,
    lr: f32,
}

impl AdamWKernel {
    pub(crate) fn new(config: &TrainConfig, weight_decay: f32) -> Self {
        Self { betas: [config.beta1, config.beta2], epsilon: config.epsilon, weight_decay }
    }

    /// Returns a parameter and its moments after a step along `gradient`. Tensors that no other tensor shares are
    /// changed in place.
    pub(crate) fn step<const D: usize>(
        &self,
        lr: f64,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        moments: Option<AdaptiveMomentumState<D>>,
    ) -> (Tensor<D>, AdaptiveMomentumState<D>) {
        let begun = || AdaptiveMomentumState::new(0, gradient.zeros_like(), gradient.zeros_like());
        let AdaptiveMomentumState { time, moment_1, moment_2, .. } = moments.unwrap_or_else(begun);
        let rates = self.rates(lr, time + 1);
        let (mut first, mut second) = (Numbers::new(moment_1), Numbers::new(moment_2));
        let (mut parameter, gradient) = (Numbers::new(parameter), Numbers::new(gradient));
        let moments = first.get_mut().par_chunks_mut(GRAIN).zip(second.get_mut().par_chunks_mut(GRAIN));
        let parameters = parameter.get_mut().par_chunks_mut(GRAIN).zip(gradient.get().par_chunks(GRAIN));
        parameters.zip(moments).for_each(|((parameters, gradients), (first, second))| {
            run(parameters, gradients, first, second, rates)
        });
        let moments = AdaptiveMomentumState::new(time + 1, first.into_tensor(), second.into_tensor());
        (parameter.into_tensor(), moments)
    }

    fn rates(&self, lr: f64, time: usize) -> Rates {
        let correction = |beta: f32| (1.0 - f64::from(beta).powi(time as i32)).recip() as f32;
        Rates {
            betas: self.betas,
            corrections: self.betas.map(correction),
            epsilon: self.epsilon,
            decay: (1.0 - lr * f64::from(self.weight_decay)) as f32,
            lr: lr as f32,
        }
    }
}

vectorized! {
    fn run<'a>(parameters: &'a mut [f32], gradients: &'a [f32], first: &'a mut [f32], second: &'a mut [f32], rates: Rates) {
        let Rates { betas: [beta_1, beta_2], corrections, epsilon, decay, lr } = rates;
        let moments = first.iter_mut().zip(second);
        for ((parameter, gradient), (first, second)) in parameters.iter_mut().zip(gradients).zip(moments) {
            *first = beta_1 * *first + (1.0 - beta_1) * gradient;
            *second = beta_2 * *second + (1.0 - beta_2) * (gradient * gradient);
            let step = *first * corrections[0] / ((*second * corrections[1]).sqrt() + epsilon);
            *parameter = *parameter * decay - lr * step;
        }
    }
}
