//! Products of tensors, written in place.

use std::cell::Cell;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use gemm::Parallelism;

use super::matrix::{self, Accumulate, Matrix};
use super::numbers::{Numbers, tensor};

thread_local! {
    /// How many threads a product on this thread may use; 0 for all.
    static THREADS: Cell<usize> = const { Cell::new(0) };
}

/// Returns the result of `work`, with each of its products on at most `threads` threads.
pub(crate) fn with_threads<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    /// Also puts the number back if `work` panics.
    struct Before(usize);
    impl Drop for Before {
        fn drop(&mut self) {
            THREADS.set(self.0);
        }
    }
    let _before = Before(THREADS.replace(threads));
    work()
}

/// Returns `a * b`, `[rows, columns]`. Either may be a transpose, which is not copied.
pub(crate) fn product(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    let ([rows, _], [_, columns]) = (a.dims(), b.dims());
    let mut output = vec![0.0; rows * columns];
    multiply(&mut output, Accumulate::Replace, a, b);
    tensor(output, [rows, columns])
}

/// Returns `sum + a * b`.
pub(crate) fn add_product(sum: Tensor<2>, a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    let mut sum = Numbers::new(sum);
    multiply(sum.get_mut(), Accumulate::Add, a, b);
    sum.into_tensor()
}

fn multiply(output: &mut [f32], accumulate: Accumulate, a: Tensor<2>, b: Tensor<2>) {
    let [a, b] = [a, b].map(|tensor| {
        tensor.try_into_primitive::<Flex>().expect("a tensor in the CPU's memory, without autodiff")
    });
    let threads = match THREADS.get() {
        1 => Parallelism::None,
        threads => Parallelism::Rayon(threads),
    };
    matrix::multiply(output, accumulate, matrix_in(&a), matrix_in(&b), 1.0, threads);
}

/// The numbers of a tensor, as they lie there.
fn matrix_in(tensor: &FlexTensor) -> Matrix<'_> {
    let layout = tensor.layout();
    let (shape, strides) = (layout.shape(), layout.strides());
    let stride = |at: usize| usize::try_from(strides[at]).expect("no dimension is reversed");
    let numbers = &tensor.storage::<f32>()[layout.start_offset()..];
    Matrix::new(numbers, [shape[0], shape[1]], [stride(0), stride(1)])
}
