//! The rotation of queries and keys by their positions: `[batch, length, heads, head]` in, `[batch, heads, length, head]`
//! out.

use burn::tensor::{DType, Tensor};

use super::cpu;
use super::derivative::{Derivative, differentiable};

/// The tables for some positions, `[1 or batch, 1, length, head]`.
#[derive(Clone, Debug)]
pub struct Rotation {
    pub(crate) cos: Tensor<4>,
    pub(crate) sin: Tensor<4>,
    /// The signed permutation that turns `[x1, x2]` into `[-x2, x1]`.
    pub(crate) swap: Tensor<4>,
}

impl Rotation {
    /// Returns the heads of a product, `[batch, heads, length, head]` from `[batch, length, heads, head]`, with the first
    /// `rotated` of them rotated by each place's position. Computes in f32 and returns the type of `x`.
    pub fn split_heads(&self, x: Tensor<4>, rotated: usize) -> Tensor<4> {
        let rotation = self.clone().without_autodiff();
        differentiable([x], |[x]| (rotation.split(x, rotated), Split { rotation, rotated }))
    }

    fn split(&self, x: Tensor<4>, rotated: usize) -> Tensor<4> {
        if cpu::has(&x) {
            return cpu::split_heads(&x, [&self.cos, &self.sin], rotated);
        }
        self.rotate(x.swap_dims(1, 2), rotated, self.sin.clone())
    }

    /// The inverse of [`split`](Self::split).
    fn join(&self, x: Tensor<4>, rotated: usize) -> Tensor<4> {
        if cpu::has(&x) {
            return cpu::join_heads(&x, [&self.cos, &self.sin], rotated);
        }
        self.rotate(x, rotated, self.sin.clone().neg()).swap_dims(1, 2)
    }

    /// Rotates the first heads of `[batch, heads, length, head]`.
    fn rotate(&self, x: Tensor<4>, rotated: usize, sin: Tensor<4>) -> Tensor<4> {
        let (dtype, [_, heads, ..]) = (x.dtype(), x.dims());
        let first = x.clone().slice_dim(1, 0..rotated);
        // A product with the permutation: two slices and their concatenation would take more passes.
        let turned = first.clone().matmul(self.swap.clone().cast(dtype)).cast(DType::F32);
        let first = (first.cast(DType::F32) * self.cos.clone() + turned * sin).cast(dtype);
        Tensor::cat(vec![first, x.slice_dim(1, rotated..heads)], 1)
    }

    fn without_autodiff(self) -> Self {
        match self.cos.is_autodiff() {
            true => Self { cos: self.cos.inner(), sin: self.sin.inner(), swap: self.swap.inner() },
            false => self,
        }
    }
}

/// The gradient of [`Rotation::split_heads`].
#[derive(Clone, Debug)]
struct Split {
    rotation: Rotation,
    rotated: usize,
}

impl Derivative<1> for Split {
    fn gradients(self, slopes: Tensor<4>) -> [Tensor<4>; 1] {
        [self.rotation.join(slopes, self.rotated)]
    }
}
