//! What training costs, in words.

use millstream::config::Precision;

/// A rate of floating-point operations, and its share of the device's peak if that is known.
pub(super) fn speed(flops_per_second: f64, mfu: Option<f64>) -> String {
    let rate = operations(flops_per_second) + "/s";
    mfu.map_or(rate.clone(), |mfu| format!("{rate}, MFU {:.1}%", mfu * 100.0))
}

/// A number of floating-point operations: 141.3 GFLOP, 1.2 TFLOP.
pub(super) fn operations(flops: f64) -> String {
    let units = [(1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP")];
    let (unit, name) = units.into_iter().find(|(unit, _)| flops >= *unit).unwrap_or((1e9, "GFLOP"));
    format!("{:.1} {name}", flops / unit)
}

/// The name of a precision, as configs have it.
pub(super) fn precision(precision: Precision) -> String {
    format!("{precision:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_follows_the_size() {
        assert_eq!(speed(141.26e9, None), "141.3 GFLOP/s");
        assert_eq!(speed(3e6, None), "0.0 GFLOP/s");
        assert_eq!(speed(1.26e12, Some(0.3456)), "1.3 TFLOP/s, MFU 34.6%");
        assert_eq!(operations(2.5e15), "2.5 PFLOP");
    }
}
