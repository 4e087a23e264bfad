//! The feed-forward network: `[batch, length, d_model]` in and out. Holds its matrices.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, sigmoid, silu};

use super::Init;
use crate::cpu;
use crate::derivative::{Derivative, differentiable};
use crate::product::product;
use millstream::config::{Activation, ModelConfig};

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

/// `silu(gate) * up` for rows of gates followed by ups, `[rows, 2 * width]`.
fn swiglu(both: Tensor<2>) -> Tensor<2> {
    let [rows, width] = both.dims();
    differentiable([both.unsqueeze()], |[both]| {
        let output = swiglu_of(&both);
        (output, SwiGlu { both })
    })
    .reshape([rows, width / 2])
}

fn swiglu_of(both: &Tensor<4>) -> Tensor<4> {
    if cpu::has(both) {
        return cpu::swiglu(both);
    }
    let [gate, up] = halves(both);
    silu(gate) * up
}

fn halves(both: &Tensor<4>) -> [Tensor<4>; 2] {
    let width = both.dims()[3] / 2;
    [0, 1].map(|half| both.clone().slice_dim(3, half * width..(half + 1) * width))
}

/// The gradient of [`swiglu`], which needs no more than its input.
#[derive(Clone, Debug)]
struct SwiGlu {
    both: Tensor<4>,
}

impl Derivative<1> for SwiGlu {
    fn gradients(self, slopes: Tensor<4>) -> [Tensor<4>; 1] {
        if cpu::has(&slopes) {
            return [cpu::swiglu_gradient(slopes, self.both)];
        }
        let [gate, up] = halves(&self.both);
        let share = sigmoid(gate.clone());
        let silu = gate * share.clone();
        let of_gate = slopes.clone() * up * (share.clone() + silu.clone() * (-share + 1.0));
        [Tensor::cat(vec![of_gate, slopes * silu], 3)]
    }
}
