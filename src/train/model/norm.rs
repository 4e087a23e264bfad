//! RMSNorm: `[.., d_model]` in and out. Holds the gain.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};

use crate::config::ModelConfig;

/// Root mean square normalisation with a gain (Zhang and Sennrich, 2019, arXiv:1910.07467).
#[derive(Module, Debug)]
pub struct Norm {
    /// The gain, `[d_model]`.
    pub gain: Param<Tensor<1>>,
    epsilon: f64,
}

impl Norm {
    pub(super) fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            gain: Param::from_tensor(Tensor::ones([config.d_model], device)),
            epsilon: config.norm_epsilon,
        }
    }

    /// `x / sqrt(mean(x²) + epsilon) * gain` along the last dimension; the mean is taken in f32.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let dtype = x.dtype();
        let scale = x.clone().cast(DType::F32).square().mean_dim(D - 1).add_scalar(self.epsilon);
        // Multiplying by a reciprocal with one value per row is cheaper than dividing every element, most of all in the
        // backward pass.
        x * scale.sqrt().recip().cast(dtype) * self.gain.val().unsqueeze()
    }
}
