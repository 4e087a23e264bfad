//! Products of matrices.
//!
//! burn's own product copies its result, which takes long next to a product of narrow matrices. Here faer writes the
//! result in place.

use std::cell::Cell;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

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
    multiply(&mut output, Accum::Replace, a, b);
    tensor(output, [rows, columns])
}

/// Returns `sum + a * b`.
pub(crate) fn add_product(sum: Tensor<2>, a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    let mut sum = Numbers::new(sum);
    multiply(sum.get_mut(), Accum::Add, a, b);
    sum.into_tensor()
}

fn multiply(output: &mut [f32], accum: Accum, a: Tensor<2>, b: Tensor<2>) {
    let ([rows, _], [_, columns]) = (a.dims(), b.dims());
    let (a, b) = (Matrix::new(a), Matrix::new(b));
    let output = MatMut::from_row_major_slice_mut(output, rows, columns);
    let threads = match THREADS.get() {
        // faer would cut the sums of a vector into as many as there are threads.
        _ if rows == 1 || columns == 1 => Par::Seq,
        1 => Par::Seq,
        threads => Par::rayon(threads),
    };
    matmul(output, accum, a.view(), b.view(), 1.0, threads);
}

/// A matrix whose rows or columns lie in one piece each.
struct Matrix(FlexTensor);

impl Matrix {
    fn new(tensor: Tensor<2>) -> Self {
        let tensor =
            tensor.try_into_primitive::<Flex>().expect("a tensor in the CPU's memory, without autodiff");
        match *tensor.layout().strides() {
            [1, stride] | [stride, 1] if stride > 0 => Self(tensor),
            _ => Self(tensor.to_contiguous()),
        }
    }

    fn view(&self) -> MatRef<'_, f32> {
        let layout = self.0.layout();
        let (rows, columns) = (layout.shape()[0], layout.shape()[1]);
        let numbers = &self.0.storage::<f32>()[layout.start_offset()..];
        match *layout.strides() {
            [stride, 1] => {
                let stride = stride as usize;
                let numbers = &numbers[..(rows - 1) * stride + columns];
                MatRef::from_row_major_slice_with_stride(numbers, rows, columns, stride)
            }
            [_, stride] => {
                let stride = stride as usize;
                let numbers = &numbers[..(columns - 1) * stride + rows];
                MatRef::from_column_major_slice_with_stride(numbers, rows, columns, stride)
            }
            _ => unreachable!("a matrix has two dimensions"),
        }
    }
}
