//! How much memory the machine has, as the system says it. Nothing is held.

/// The memory that this process can use at most, in bytes: the machine's, or less if its container has less. `None`
/// where the system does not say it in a file, as outside Linux.
pub fn physical_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text))?;
    let of = |path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let container = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    Some(container.into_iter().filter_map(of).fold(machine, u64::min))
}

/// The first line of `/proc/meminfo`, in bytes.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_and_nonsense_is_not() {
        assert_eq!(total("MemTotal:       24660440 kB\nMemFree: 1 kB\n"), Some(24_660_440 << 10));
        for text in ["", "MemFree: 1 kB\n", "MemTotal: many kB\n", "MemTotal: 18446744073709551615 kB\n"] {
            assert_eq!(total(text), None, "{text}");
        }
    }
}
