//! What the system says of this process: Linux does in `/proc/self/status`. Nothing is held.

/// A field of `/proc/self/status`, such as `VmRSS`; `None` where there is no such file, as outside Linux.
pub fn status(field: &str) -> Option<String> {
    of(&std::fs::read_to_string("/proc/self/status").ok()?, field).map(str::to_owned)
}

/// The resident memory of this process now, in bytes; `None` on systems that do not tell.
pub fn resident_bytes() -> Option<u64> {
    bytes(&status("VmRSS")?)
}

/// The most that it has been, in bytes; `None` on systems that do not tell.
pub fn peak_resident_bytes() -> Option<u64> {
    bytes(&status("VmHWM")?)
}

/// The value of a field.
fn of<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
}

/// An amount of memory, such as `1024 kB`, in bytes.
fn bytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status =
            "Name:\tmillstream\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nSigIgn:\t0000000000000001\n";
        assert_eq!(of(status, "VmRSS").and_then(bytes), Some(1 << 20));
        assert_eq!(of(status, "VmHWM").and_then(bytes), Some(2 << 20));
        assert_eq!(of(status, "SigIgn"), Some("0000000000000001"));
        assert_eq!((of(status, "Vm"), of(status, "VmSwap"), bytes("many kB")), (None, None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_never_larger_than_it_has_been() {
        let (now, peak) = (resident_bytes().expect("told"), peak_resident_bytes().expect("told"));
        assert!(now > 1 << 16 && now <= peak, "{now} and {peak}");
    }
}
