//! How much of a large result is computed at once. A CPU does best if the chunk stays in a core's cache between two
//! passes; a GPU with few, large calls.

use burn::tensor::Device;

/// The most logits at once: 8 MB of f32 on the CPU, 256 MB elsewhere.
pub(crate) fn logits(is_cpu: bool) -> usize {
    if is_cpu { 2_000_000 } else { 64_000_000 }
}

/// The most attention scores at once: 1 MB of f32 on the CPU, 128 MB elsewhere.
pub(super) fn scores(is_cpu: bool) -> usize {
    if is_cpu { 1 << 18 } else { 1 << 25 }
}

/// Whether burn's kernels run on the CPU's own threads.
pub(super) fn is_cpu(device: &Device) -> bool {
    device.clone().without_autodiff() == Device::flex()
}
