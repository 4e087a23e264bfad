//! Turns a device's name into burn's device, and checks that it can compute in the config's precision.

#[cfg(feature = "gpu")]
mod gpu;
pub(crate) mod reading;

/// A build without GPUs.
#[cfg(not(feature = "gpu"))]
mod gpu {
    use burn::tensor::Device;
    use millstream::error::Result;

    pub(super) fn by_name(_: &str, _: Option<usize>) -> Option<Result<Device>> {
        None
    }

    pub(super) fn model(_: &Device) -> Option<String> {
        None
    }
}

use std::sync::{Mutex, Once, PoisonError};

use burn::tensor::{DType, Device};

use crate::config::{Precision, TrainConfig};
use millstream::error::{Error, Result};
use millstream::threads;

/// Opens the device that `train.device` names, the first of `train.devices` if there are several, without autodiff, and
/// checks that it can compute in `train.precision`.
///
/// # Errors
/// [`Error::Config`] if this build has no such device (the message names the feature that adds it), if this machine has
/// none or no driver for it, or if the device cannot compute in the precision; [`Error::Threads`] if the system refuses
/// the threads that it computes on.
pub fn open(config: &TrainConfig) -> Result<Device> {
    if config.device == "flex" {
        start_threads(parts(config))?;
    }
    let name = config.device.as_str();
    let device = match gpu::by_name(name, config.devices.first().copied()) {
        Some(device) => device?,
        None if name == "flex" => Device::flex(),
        None => {
            let problem =
                format!("this build has no `{name}`; build with `cargo build --release --features {name}`");
            return Err(Error::config("train.device", problem));
        }
    };
    let is_bf16 = config.precision == Precision::Bf16;
    if is_bf16 && !device.supports_dtype(DType::BF16) {
        let problem = format!("device `{}` cannot compute in bf16; use f32", config.device);
        return Err(Error::config("train.precision", problem));
    }
    if is_bf16 && config.device == "flex" {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            tracing::warn!("bf16 is slower than f32 on the CPU: it computes in f32 and rounds")
        });
    }
    Ok(device)
}

/// The driver's name for the device that `train.device` names, such as `NVIDIA H200`; `None` for the CPU.
///
/// # Errors
/// As [`open`].
pub fn name(config: &TrainConfig) -> Result<Option<String>> {
    open(config).map(|device| gpu::model(&device))
}

/// Starts the threads that the CPU's kernels run on, once for all. They would panic later if the system refused some.
fn start_threads(count: usize) -> Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        threads::check(count)?;
        // Asking for the number starts the threads.
        rayon::current_num_threads();
        *started = true;
    }
    Ok(())
}

/// Whether the device works on its own while the host goes on.
pub(super) fn is_asynchronous(config: &TrainConfig) -> bool {
    config.device != "flex"
}

/// How many parts a batch is split into on a device: one per core on the CPU, one elsewhere.
pub(super) fn parts(config: &TrainConfig) -> usize {
    match config.device.as_str() {
        "flex" => std::thread::available_parallelism().map_or(1, usize::from),
        _ => 1,
    }
}
