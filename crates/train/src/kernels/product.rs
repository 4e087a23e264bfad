//! Products of matrices, and their gradients.

use burn::tensor::Tensor;

use super::cpu;
use super::derivative::{Derivative, differentiable};

/// Returns `a * b`.
pub(crate) fn product(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    let ([rows, _], [_, columns]) = (a.dims(), b.dims());
    differentiable([a.unsqueeze(), b.unsqueeze()], |[a, b]| {
        let [a, b] = [matrix(a), matrix(b)];
        (multiply(a.clone(), b.clone()).unsqueeze(), Product { a, b })
    })
    .reshape([rows, columns])
}

/// Returns `a * b` for a `b` that needs no gradient: none is computed for it, and `a` is not kept.
pub(crate) fn frozen_product(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    let ([rows, _], [_, columns]) = (a.dims(), b.dims());
    let b = b.inner();
    differentiable([a.unsqueeze()], |[a]| (multiply(matrix(a), b.clone()).unsqueeze(), FrozenProduct { b }))
        .reshape([rows, columns])
}

/// Returns `a * b` without a gradient. Either may be a transpose.
pub(crate) fn multiply(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    if cpu::has(&a) && cpu::has(&b) {
        return cpu::product(a, b);
    }
    a.matmul(b)
}

/// Returns `sum + a * b` without a gradient.
pub(super) fn add_product(sum: Tensor<2>, a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    if cpu::has(&sum) && cpu::has(&a) && cpu::has(&b) {
        return cpu::add_product(sum, a, b);
    }
    let dtype = sum.dtype();
    sum + a.matmul(b).cast(dtype)
}

fn matrix(of: Tensor<4>) -> Tensor<2> {
    let [.., rows, columns] = of.dims();
    of.reshape([rows, columns])
}

/// The gradients of [`product`].
#[derive(Clone, Debug)]
struct Product {
    a: Tensor<2>,
    b: Tensor<2>,
}

impl Derivative<2> for Product {
    fn gradients(self, slopes: Tensor<4>) -> [Tensor<4>; 2] {
        let slopes = matrix(slopes);
        let of_a = multiply(slopes.clone(), self.b.transpose());
        [of_a.unsqueeze(), multiply(self.a.transpose(), slopes).unsqueeze()]
    }
}

/// The gradient of [`frozen_product`].
#[derive(Clone, Debug)]
struct FrozenProduct {
    b: Tensor<2>,
}

impl Derivative<1> for FrozenProduct {
    fn gradients(self, slopes: Tensor<4>) -> [Tensor<4>; 1] {
        [multiply(matrix(slopes), self.b.transpose()).unsqueeze()]
    }
}
