//! The device alone: the rate that a step would have if it were one large product of matrices.

use serde_json::json;

use crate::cost::speed;
use crate::words::word;
use crate::{ConfigArgs, print_json, print_line, progress};
use millstream::Result;
use millstream_train::cost::peak;
use millstream_train::device;

pub(super) const HELP: &str = "\
Example: millstream bench device configs/quickstart.toml --set train.precision=bf16

No text is read. With what it prints as train.peak_tflops, rates are shown as a share of it too (MFU).";

/// Measures the device, and prints its peak.
pub(super) fn run(config: &ConfigArgs, json: bool) -> Result<()> {
    let config = config.load()?;
    let device = device::open(&config.train)?;
    let slow = progress::slow("measuring products of matrices");
    let peak = peak(&device, config.train.precision)?;
    drop(slow);
    let (device, size) = (&config.train.device, peak.size);
    // As `train.peak_tflops` takes it.
    let tflops = peak.flops_per_second / 1e12;
    if json {
        return print_json(&json!({
            "device": device,
            "precision": config.train.precision,
            "flops_per_second": peak.flops_per_second,
            "size": size,
            "peak_tflops": tflops,
        }));
    }
    let (precision, speed) = (word(&config.train.precision), speed(peak.flops_per_second, None));
    print_line(&format!("{device} in {precision}: {speed}, with matrices of {size} x {size}"))?;
    print_line(&format!("to see rates as a share of it: --set train.peak_tflops={tflops:.3}"))
}
