//! RMSNorm: `[.., width]` in and out. Holds the gain.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

use super::Init;
use crate::config::ModelConfig;

/// Root mean square normalisation with a gain (Zhang and Sennrich, 2019, arXiv:1910.07467).
#[derive(Module, Debug)]
pub struct Norm {
    /// The gain, `[width]`.
    pub gain: Param<Tensor<1>>,
    epsilon: f64,
}

impl Norm {
    /// A norm of vectors of `width` dimensions.
    pub(super) fn new(config: &ModelConfig, width: usize, init: &mut Init<'_>) -> Self {
        Self { gain: init.vector(width, 1.0), epsilon: config.norm_epsilon }
    }

    /// `x / sqrt(mean(x²) + epsilon) * gain` along the last dimension, computed in f32 and returned in the type of `x`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let dtype = x.dtype();
        let x = x.cast(DType::F32);
        let scale = x.clone().square().mean_dim(D - 1).add_scalar(self.epsilon);
        // Multiplying by a reciprocal with one value per row is cheaper than dividing every element, most of all in the
        // backward pass.
        (x * scale.sqrt().recip() * self.gain.val().unsqueeze()).cast(dtype)
    }
}
