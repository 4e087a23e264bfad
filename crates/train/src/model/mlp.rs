//! The feed-forward network: `[batch, length, d_model]` in and out. Holds its matrices.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::gelu;

use super::dropout::Draws;
use super::hidden::HiddenMatrix;
use super::init::Init;
use super::lora::{Lora, project};
use crate::config::{Activation, ModelConfig};
use crate::kernels::swiglu::swiglu;

/// A gated or plain feed-forward network.
#[derive(Module, Debug)]
pub struct Mlp {
    /// The projections up, `[d_model, d_ff]`; with a gate, `[d_model, 2 * d_ff]`, the gate's first.
    pub up: Param<Tensor<2>>,
    /// The projection back to the residual stream, `[d_ff, d_model]`.
    pub down: Param<Tensor<2>>,
    /// The adapters of the projections up and down, if they have any.
    pub up_lora: Option<Lora>,
    /// See `up_lora`.
    pub down_lora: Option<Lora>,
    gated: bool,
}

impl Mlp {
    pub(super) fn new(config: &ModelConfig, init: &mut Init<'_>) -> Self {
        let gated = config.activation == Activation::Swiglu;
        let up = if gated { 2 * config.d_ff } else { config.d_ff };
        Self {
            up: init.matrix([config.d_model, up], init.std),
            down: init.matrix([config.d_ff, config.d_model], init.residual),
            up_lora: None,
            down_lora: None,
            gated,
        }
    }

    pub(super) fn adapters(&self) -> impl Iterator<Item = &Lora> {
        self.up_lora.iter().chain(&self.down_lora)
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
        self.forward_with(x, None)
    }

    /// As [`forward`](Self::forward), with dropout of what enters the adapters.
    pub(super) fn forward_with(&self, x: Tensor<3>, draws: Option<&Draws>) -> Tensor<3> {
        let [batch, length, width] = x.dims();
        let x = x.reshape([batch * length, width]);
        let up = project(x, &self.up, self.up_lora.as_ref(), draws);
        let inner = if self.gated { swiglu(up) } else { gelu(up) };
        project(inner, &self.down, self.down_lora.as_ref(), draws).reshape([batch, length, width])
    }
}
