//! SwiGLU (Shazeer, 2020, arXiv:2002.05202). It keeps gates and ups, its input, for the backward pass.
//!
//! Autodiff of `burn::nn::SwiGlu` would keep twice as much, the sigmoid and its product with the gate too, and that module
//! makes gates and ups in two products instead of one.

use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, silu};

use super::cpu;
use super::derivative::{Derivative, differentiable};

/// `silu(gate) * up` for rows of gates followed by ups, `[rows, 2 * width]`.
pub(crate) fn swiglu(both: Tensor<2>) -> Tensor<2> {
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

/// The gradient of [`swiglu`].
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
