//! Turns a device's name into burn's device, set to the config's precision.

#[cfg(feature = "flex")]
use std::sync::{Mutex, PoisonError};

use burn::tensor::{Device, FloatDType, IntDType};

use crate::config::{DEVICES, Precision, TrainConfig};
use crate::error::{Error, Result};
#[cfg(feature = "flex")]
use crate::threads;

/// Opens the device that `train.device` names, set to `train.precision`, without autodiff.
///
/// burn fixes a device's precision when its first tensor is made, so one process trains in one precision.
///
/// # Errors
/// [`Error::Config`] if this build has no such device (the message names the feature that adds it), if the device does
/// not support the precision, or if it was set to another precision before; [`Error::Threads`] if the system refuses
/// the threads that it computes on.
pub fn open(config: &TrainConfig) -> Result<Device> {
    #[cfg(feature = "flex")]
    if config.device == "flex" {
        start_threads(parts(config))?;
    }
    let mut device = by_name(&config.device)?;
    let float = match config.precision {
        Precision::F32 => FloatDType::F32,
        Precision::Bf16 => FloatDType::BF16,
    };
    if device.settings().float_dtype != float {
        // burn's CPU kernels mix the two precisions where they meet a scalar.
        if config.device == "flex" || !device.supports_dtype(float) {
            return Err(Error::config(
                "train.precision",
                format!("bf16 does not run on device `{}`; use f32", config.device),
            ));
        }
        device.configure((float, IntDType::I32)).map_err(|e| {
            Error::config(
                "train.precision",
                format!("{:?} cannot be set on this device: {e}", config.precision),
            )
        })?;
    }
    Ok(device)
}

/// Starts the threads that the CPU's kernels run on, once for all. They would panic later if the system refused some.
#[cfg(feature = "flex")]
fn start_threads(count: usize) -> Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        threads::check(count)?;
        // Whoever asks for the number gets the threads.
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

fn by_name(name: &str) -> Result<Device> {
    match name {
        #[cfg(feature = "flex")]
        "flex" => Ok(Device::flex()),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(Device::cuda(burn::tensor::DeviceIndex::Default)),
        #[cfg(feature = "wgpu")]
        "wgpu" => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "vulkan")]
        "vulkan" => Ok(Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "metal")]
        "metal" => Ok(Device::metal(burn::tensor::DeviceKind::DefaultDevice)),
        known if DEVICES.contains(&known) => Err(Error::config(
            "train.device",
            format!("this build has no `{name}`; build with `cargo build --release --features {name}`"),
        )),
        _ => Err(Error::config(
            "train.device",
            format!("unknown device `{name}`; the devices are {}", DEVICES.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_and_an_absent_one_say_what_to_do() {
        let error = |name: &str| {
            let config = TrainConfig { device: name.to_owned(), ..TrainConfig::default() };
            open(&config).expect_err("no such device").to_string()
        };
        assert!(error("gpu").contains("flex, cuda, wgpu"), "{}", error("gpu"));
        #[cfg(not(feature = "cuda"))]
        assert!(error("cuda").contains("--features cuda"), "{}", error("cuda"));
    }
}
