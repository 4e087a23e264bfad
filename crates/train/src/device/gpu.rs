//! Opens a GPU, or says what is missing: burn itself panics when it first uses a device that is not there.

#[cfg(feature = "cuda")]
mod libdevice;

use burn::tensor::{Device, DeviceType};

use millstream::error::{Error, Result};

/// Opens the GPU of this name and number, or the first that burn finds; `None` if this build has none of this name.
pub(super) fn by_name(name: &str, number: Option<usize>) -> Option<Result<Device>> {
    let (kind, open): (DeviceType, fn() -> Device) = match name {
        #[cfg(feature = "cuda")]
        "cuda" => (DeviceType::Cuda, || Device::cuda(burn::tensor::DeviceIndex::Default)),
        #[cfg(feature = "wgpu")]
        "wgpu" => (DeviceType::Wgpu, || Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "vulkan")]
        "vulkan" => (DeviceType::Vulkan, || Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "metal")]
        "metal" => (DeviceType::Metal, || Device::metal(burn::tensor::DeviceKind::DefaultDevice)),
        _ => return None,
    };
    let opened = |all: &[Device]| match number {
        None => Ok(open()),
        Some(number) => all.get(number).cloned().ok_or_else(|| {
            let problem = format!(
                "there is no device {number} for `{name}`: this machine has {}, counted from 0",
                all.len()
            );
            Error::config("train.devices", problem)
        }),
    };
    Some(present(name, kind).and_then(|all| opened(&all)))
}

pub(super) fn model(device: &Device) -> Option<String> {
    device.identity().map(|identity| identity.name)
}

/// All such devices. Checks that there is one, a driver for it, and the library that its kernels are compiled with.
fn present(name: &str, kind: DeviceType) -> Result<Vec<Device>> {
    let all: Vec<Device> = Device::enumerate(kind).into_iter().collect();
    if all.is_empty() {
        let remedy = match name {
            "cuda" => "install NVIDIA's driver (`nvidia-smi` lists what it finds)",
            "metal" => "it needs an Apple computer",
            _ => "install a Vulkan driver (`vulkaninfo --summary` lists what Vulkan finds)",
        };
        let problem = format!(
            "no device for `{name}` was found on this machine; {remedy}, or use the CPU with train.device = \"flex\""
        );
        return Err(Error::config("train.device", problem));
    }
    #[cfg(feature = "cuda")]
    if name == "cuda" {
        libdevice::check()?;
    }
    Ok(all)
}
