//! The speed limit of a device: takes a device and a precision, returns the operations per second of its best product
//! of matrices. Holds three square matrices while it measures.

use std::time::{Duration, Instant};

use burn::tensor::{DType, Device, Distribution, Tensor};
use serde::Serialize;

use crate::config::Precision;
use crate::device::reading::failed;
use crate::kernels::product::multiply;
use millstream::error::Result;

/// The first size of the matrices. They double until a product takes [`LONG`], up to [`LARGEST`]. Kernels like multiples of
/// 64, and a CPU's caches dislike powers of two.
const FIRST: usize = 768;
const LARGEST: usize = 12_288;
/// How long a product must take so that its start and its end do not matter.
const LONG: Duration = Duration::from_millis(40);
/// How long each size is measured, and how often at least.
const MEASURED: Duration = Duration::from_millis(500);
const LEAST: usize = 5;

/// The speed of a device in a product of two matrices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Floating-point operations per second.
    pub flops_per_second: f64,
    /// The rows and the columns of both matrices.
    pub size: usize,
}

/// Measures the best product of two square matrices on `device` in `precision`, of several sizes. It takes a few
/// seconds, and keeps the device busy.
///
/// # Errors
/// [`Error::Train`](millstream::Error::Train) if the device fails.
pub fn peak(device: &Device, precision: Precision) -> Result<Peak> {
    let mut size = FIRST;
    let mut peak = Peak { flops_per_second: 0.0, size };
    loop {
        let shortest = shortest(size, device, precision)?;
        let flops_per_second = 2.0 * (size as f64).powi(3) / shortest.as_secs_f64();
        if flops_per_second > peak.flops_per_second {
            peak = Peak { flops_per_second, size };
        }
        if shortest >= LONG || size >= LARGEST {
            return Ok(peak);
        }
        size *= 2;
    }
}

/// The shortest time of a product of two matrices of this size.
fn shortest(size: usize, device: &Device, precision: Precision) -> Result<Duration> {
    let (left, right) = (matrix(size, device, precision), matrix(size, device, precision));
    // The first product loads or tunes a kernel.
    time(&left, &right)?;
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < LEAST || began.elapsed() < MEASURED {
        times.push(time(&left, &right)?);
    }
    Ok(times.into_iter().min().expect("some times"))
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
fn time(left: &Tensor<2>, right: &Tensor<2>) -> Result<Duration> {
    let began = Instant::now();
    let corner = multiply(left.clone(), right.clone()).slice([0..1, 0..1]);
    corner.try_into_data().map_err(failed)?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_of_the_precision_that_is_asked_for() {
        let product = |precision| {
            let matrix = || matrix(4, &Device::flex(), precision);
            multiply(matrix(), matrix()).dtype()
        };
        assert_eq!((product(Precision::F32), product(Precision::Bf16)), (DType::F32, DType::BF16));
    }
}
