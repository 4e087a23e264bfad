//! How fast a device is at most: takes a device and a precision, returns the operations per second of its best product of matrices.
//! Holds three square matrices while it measures.

use std::time::{Duration, Instant};

use burn::tensor::{DType, Device, Distribution, Tensor};
use serde::Serialize;

use crate::config::Precision;
use crate::error::{Error, Result};

/// The first size of the matrices. They grow until a product takes [`LONG`], up to [`LARGEST`].
const FIRST: usize = 1024;
const LARGEST: usize = 16_384;
/// How long a product must take for its start and its end not to matter.
const LONG: Duration = Duration::from_millis(40);
/// How long the last size is measured, and how often at least.
const MEASURED: Duration = Duration::from_secs(1);
const LEAST: usize = 5;

/// What a device reaches in a product of two matrices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Floating-point operations per second.
    pub flops_per_second: f64,
    /// The rows and the columns of both matrices.
    pub size: usize,
}

/// Measures the best product of two square matrices on `device` in `precision`. It takes a few seconds, and keeps the
/// device busy.
///
/// # Errors
/// [`Error::Train`] if the device fails.
pub fn peak(device: &Device, precision: Precision) -> Result<Peak> {
    let mut size = FIRST;
    loop {
        let (left, right) = (matrix(size, device, precision), matrix(size, device, precision));
        // The first product loads or tunes a kernel.
        product(&left, &right)?;
        let mut best = product(&left, &right)?;
        if best < LONG && size < LARGEST {
            size *= 2;
            continue;
        }
        let began = Instant::now();
        let mut times = 0;
        while times < LEAST || began.elapsed() < MEASURED {
            best = best.min(product(&left, &right)?);
            times += 1;
        }
        return Ok(Peak { flops_per_second: 2.0 * (size as f64).powi(3) / best.as_secs_f64(), size });
    }
}

/// Random numbers in a precision, `[size, size]`.
fn matrix(size: usize, device: &Device, precision: Precision) -> Tensor<2> {
    let matrix = Tensor::<2>::random([size, size], Distribution::Uniform(-1.0, 1.0), device);
    matrix.cast(match precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
    })
}

/// The time of one product, until a number of it has been read.
fn product(left: &Tensor<2>, right: &Tensor<2>) -> Result<Duration> {
    let began = Instant::now();
    let corner = left.clone().matmul(right.clone()).slice([0..1, 0..1]);
    corner.try_into_data().map_err(|e| Error::Train(format!("the device failed: {e}")))?;
    Ok(began.elapsed())
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;

    #[test]
    fn products_are_of_the_precision_that_is_asked_for() {
        let product = |precision| {
            let matrix = || matrix(4, &Device::flex(), precision);
            matrix().matmul(matrix()).dtype()
        };
        assert_eq!((product(Precision::F32), product(Precision::Bf16)), (DType::F32, DType::BF16));
    }
}
