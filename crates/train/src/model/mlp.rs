//! The feed-forward network: `[batch, length, d_model]` in and out. Holds its matrices.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::gelu;

use super::hidden::HiddenMatrix;
use super::init::Init;
use crate::config::{Activation, ModelConfig};
use crate::kernels::product::product;
use crate::kernels::swiglu::swiglu;

/// A gated or plain feed-forward network.
#[derive(Module, Debug)]
pub struct Mlp {
    /// The projections up, `[d_model, d_ff]`; with a gate, `[d_model, 2 * d_ff]`, the gate's first.
    pub up: Param<Tensor<2>>,
    /// The projection back to the residual stream, `[d_ff, d_model]`.
    pub down: Param<Tensor<2>>,
    gated: bool,
}

impl Mlp {
    pub(super) fn new(config: &ModelConfig, init: &mut Init<'_>) -> Self {
        let gated = config.activation == Activation::Swiglu;
        let up = if gated { 2 * config.d_ff } else { config.d_ff };
        Self {
            up: init.matrix([config.d_model, up], init.std),
            down: init.matrix([config.d_ff, config.d_model], init.residual),
            gated,
        }
    }

    /// Its matrices, with those of the gate and up apart.
    pub(super) fn matrices(&self) -> [HiddenMatrix; 2] {
        let up = match self.gated {
            true => HiddenMatrix::side_by_side(&self.up, &[self.down.dims()[0]; 2]),
            false => HiddenMatrix::new(&self.up),
        };
        [up, HiddenMatrix::new(&self.down)]
    }

    /// `down(silu(gate(x)) * up(x))`, or `down(gelu(up(x)))`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, width] = x.dims();
        let x = x.reshape([batch * length, width]);
        let up = self.up.val().cast(x.dtype());
        let up = product(x, up);
        let inner = if self.gated { swiglu(up) } else { gelu(up) };
        let down = self.down.val().cast(inner.dtype());
        product(inner, down).reshape([batch, length, width])
    }
}
