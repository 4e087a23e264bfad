//! The memory and CPU time of this process.

use std::time::Duration;

/// The peak memory of the process in bytes, as the system counts it.
pub(in crate::cli) fn peak_rss_bytes() -> Option<u64> {
    // On Linux, getrusage never gives less than the memory of the program that started this one.
    #[cfg(target_os = "linux")]
    if let Some(peak) = high_water_mark() {
        return Some(peak);
    }
    #[cfg(unix)]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
        getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| usage.max_rss() as u64 * unit)
    }
    #[cfg(not(unix))]
    None
}

#[cfg(target_os = "linux")]
fn high_water_mark() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The CPU time of all threads so far.
pub(super) fn cpu_seconds() -> Option<f64> {
    #[cfg(unix)]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| cpu_time(&usage).as_secs_f64())
    }
    #[cfg(not(unix))]
    None
}

/// User and system time together.
#[cfg(unix)]
pub(super) fn cpu_time(usage: &nix::sys::resource::Usage) -> Duration {
    let sum = usage.user_time() + usage.system_time();
    Duration::new(sum.tv_sec() as u64, sum.tv_usec() as u32 * 1000)
}
