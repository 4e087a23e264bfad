//! The device alone: the rate that a step would have if it were one large product of matrices.

use serde::Serialize;

use crate::cost::{precision, speed};
use crate::{ConfigArgs, print_json, print_line, progress};
use millstream::Result;
use millstream_train::config::Precision;
use millstream_train::cost::{Peak, peak};
use millstream_train::device;

pub(super) const HELP: &str = "\
Example: millstream bench device configs/quickstart.toml --set train.precision=bf16

No text is read. With what it prints as train.peak_tflops, rates are shown as a share of it too (MFU).";

#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    precision: Precision,
    #[serde(flatten)]
    peak: Peak,
    /// As `train.peak_tflops` takes it.
    peak_tflops: f64,
}

/// Measures the device, and prints its peak.
pub(super) fn run(config: &ConfigArgs, json: bool) -> Result<()> {
    let config = config.load()?;
    let device = device::open(&config.train)?;
    let slow = progress::slow("measuring products of matrices");
    let peak = peak(&device, config.train.precision)?;
    drop(slow);
    let report = Report {
        device: &config.train.device,
        precision: config.train.precision,
        peak,
        peak_tflops: peak.flops_per_second / 1e12,
    };
    if json {
        return print_json(&report);
    }
    print_line(&format!(
        "{} in {}: {}, with matrices of {size} x {size}",
        report.device,
        precision(report.precision),
        speed(peak.flops_per_second, None),
        size = peak.size
    ))?;
    print_line(&format!("to see rates as a share of it: --set train.peak_tflops={:.3}", report.peak_tflops))
}
