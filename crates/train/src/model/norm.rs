//! RMSNorm: `[.., width]` in and out. Holds the gain.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

use super::init::Init;
use crate::config::ModelConfig;
use crate::kernels::norm::norm;

/// Root mean square normalisation with a gain (Zhang and Sennrich, 2019, arXiv:1910.07467).
#[derive(Module, Debug)]
pub struct Norm {
    /// The gain, `[width]`.
    pub gain: Param<Tensor<1>>,
    epsilon: f64,
}

impl Norm {
    pub(super) fn new(config: &ModelConfig, width: usize, init: &mut Init<'_>) -> Self {
        Self { gain: init.vector(width, 1.0), epsilon: config.norm_epsilon }
    }

    /// `x / sqrt(mean(x²) + epsilon) * gain` along the last dimension, computed in f32 and returned in the type of `x`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let (shape, dtype) = (x.shape(), x.dtype());
        let [width] = self.gain.dims();
        let x = x.cast(DType::F32).reshape([1, 1, -1, width as i64]);
        norm(x, self.gain.val().cast(DType::F32).unsqueeze(), self.epsilon).reshape(shape).cast(dtype)
    }
}
