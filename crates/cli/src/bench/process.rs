//! The memory and CPU time of this process.

use std::time::Duration;

use millstream::process::peak_resident_bytes;

/// The peak memory of the process in bytes, as the system counts it.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    // On Linux, getrusage never gives less than the memory of the program that started this one.
    if let Some(peak) = peak_resident_bytes() {
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
