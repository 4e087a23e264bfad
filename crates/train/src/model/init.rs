//! The first weights of a model: drawn from a seed alone, on the host, so they are the same on every device.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};

use super::random::Normal;
use crate::config::ModelConfig;

/// The standard deviation of the initial weights, times the square root of the model's width: 0.02 at GPT-2's 768. In a
/// narrower model, 0.02 would make the products so small that a usual learning rate is too coarse.
const STD: f64 = 0.02 * 27.712_812_921_102_035;

/// The source of a model's first weights.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Initial {
    /// They are drawn from a seed.
    Drawn(u64),
    /// They are zeros until others are loaded: to draw billions that nobody sees would take minutes.
    Loaded,
}

pub(super) struct Init<'a> {
    /// The generator of the matrices; without it they are zeros.
    normal: Option<Normal>,
    /// The standard deviation of most matrices.
    pub(super) std: f64,
    /// The standard deviation of those that write to the residual stream.
    pub(super) residual: f64,
    device: &'a Device,
}

impl<'a> Init<'a> {
    pub(super) fn new(config: &ModelConfig, initial: Initial, device: &'a Device) -> Self {
        let std = STD / (config.d_model as f64).sqrt();
        let residual = std / (2.0 * config.layers as f64).sqrt();
        let normal = match initial {
            Initial::Drawn(seed) => Some(Normal::new(seed)),
            Initial::Loaded => None,
        };
        Self { normal, std, residual, device }
    }

    pub(super) fn matrix(&mut self, shape: [usize; 2], std: f64) -> Param<Tensor<2>> {
        let Some(normal) = &mut self.normal else {
            return Param::from_tensor(Tensor::zeros(shape, self.device));
        };
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| (normal.sample() * std) as f32).collect();
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), self.device))
    }

    pub(super) fn vector(&self, width: usize, value: f64) -> Param<Tensor<1>> {
        Param::from_tensor(Tensor::full([width], value, self.device))
    }
}
