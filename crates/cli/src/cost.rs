//! What training costs, in words.

/// A rate of floating-point operations, and its share of the device's peak if that is known.
pub(super) fn speed(flops_per_second: f64, mfu: Option<f64>) -> String {
    let rate = operations(flops_per_second) + "/s";
    mfu.map_or(rate.clone(), |mfu| format!("{rate}, MFU {:.1}%", mfu * 100.0))
}

/// A number of floating-point operations: 141.3 GFLOP, 1.2 TFLOP.
pub(super) fn operations(flops: f64) -> String {
    let units = [(1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP")];
    let (unit, name) = units.into_iter().find(|(unit, _)| flops >= *unit).unwrap_or((1e6, "MFLOP"));
    format!("{:.1} {name}", flops / unit)
}

/// A number of parameters: 12.3 k, 123.6 M, 7.2 B.
pub(super) fn parameters(count: f64) -> String {
    let units = [(1e9, "B"), (1e6, "M")];
    let (unit, name) = units.into_iter().find(|(unit, _)| count >= *unit).unwrap_or((1e3, "k"));
    format!("{:.1} {name}", count / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_follows_the_size() {
        assert_eq!(speed(141.26e9, None), "141.3 GFLOP/s");
        assert_eq!(speed(3e6, None), "3.0 MFLOP/s");
        assert_eq!(speed(1.26e12, Some(0.3456)), "1.3 TFLOP/s, MFU 34.6%");
        assert_eq!(operations(2.5e15), "2.5 PFLOP");
        assert_eq!([1234.0, 123.6e6, 7.2e9].map(parameters), ["1.2 k", "123.6 M", "7.2 B"]);
    }
}
