//! Products of matrices that lie in slices, by gemm: burn's CPU device multiplies with it too, but copies what comes out.

use gemm::{Parallelism, gemm};

#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a> {
    numbers: &'a [f32],
    /// How many rows and columns.
    shape: [usize; 2],
    /// How far the next row and the next column are.
    strides: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// # Panics
    /// If the slice ends before the matrix does.
    pub(super) fn new(numbers: &'a [f32], shape: [usize; 2], strides: [usize; 2]) -> Self {
        let end: Option<usize> = shape.iter().zip(strides).try_fold(1_usize, |end, (count, stride)| {
            end.checked_add(count.saturating_sub(1).checked_mul(stride)?)
        });
        let is_within = shape.contains(&0) || end.is_some_and(|end| end <= numbers.len());
        assert!(is_within, "a matrix of {shape:?} with strides {strides:?} in {} numbers", numbers.len());
        Self { numbers, shape, strides }
    }

    /// Rows of `width` numbers, one after the other.
    pub(super) fn of_rows(numbers: &'a [f32], width: usize) -> Self {
        Self::new(numbers, [numbers.len() / width, width], [width, 1])
    }

    pub(super) fn transpose(self) -> Self {
        let ([rows, columns], [row, column]) = (self.shape, self.strides);
        Self { shape: [columns, rows], strides: [column, row], ..self }
    }
}

/// What becomes of the numbers where a product is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Accumulate {
    Replace,
    Add,
}

/// Writes `factor * a * b` to `output`, row-major.
///
/// # Panics
/// If the shapes do not fit.
#[expect(unsafe_code, reason = "gemm takes pointers; all that it reads and writes lies in the slices")]
pub(super) fn multiply(
    output: &mut [f32],
    accumulate: Accumulate,
    a: Matrix<'_>,
    b: Matrix<'_>,
    factor: f32,
    threads: Parallelism,
) {
    let ([rows, depth], [length, columns]) = (a.shape, b.shape);
    assert_eq!(depth, length, "a row of the first matrix is as long as a column of the second");
    assert_eq!(Some(output.len()), rows.checked_mul(columns), "the output has one number for each");
    let [a_strides, b_strides] = [a.strides, b.strides].map(|strides| strides.map(usize::cast_signed));
    let is_sum = accumulate == Accumulate::Add;
    // SAFETY: `Matrix::new` has checked that the last number of each matrix lies in its slice, and `output` was checked
    // above. The borrows keep all three alive, and `output` apart from what is read.
    unsafe {
        gemm(
            rows,
            columns,
            depth,
            output.as_mut_ptr(),
            1,
            columns.cast_signed(),
            is_sum,
            a.numbers.as_ptr(),
            a_strides[1],
            a_strides[0],
            b.numbers.as_ptr(),
            b_strides[1],
            b_strides[0],
            1.0,
            factor,
            false,
            false,
            false,
            threads,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a matrix of [2, 3]")]
    fn a_matrix_beyond_its_slice_is_refused() {
        Matrix::new(&[0.0; 5], [2, 3], [3, 1]);
    }
}
