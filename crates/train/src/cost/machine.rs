//! How much memory the machine has, according to the system. Nothing is held.

use std::path::{Path, PathBuf};

/// The most memory that this process can use, in bytes: the machine's, or less if its container or its batch system
/// limits it. `None` where no file of the system says it: outside Linux.
pub fn physical_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text))?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(limit(Path::new("/sys/fs/cgroup"), &groups).map_or(machine, |limit| limit.min(machine)))
}

/// The least of the limits of a process's control groups and of those around them. `groups` is its `/proc/self/cgroup`,
/// and `root` is where the groups are.
fn limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (hierarchy, file) = match controllers.split(',').any(|controller| controller == "memory") {
            true => (root.join("memory"), "memory.limit_in_bytes"),
            false => (root.to_owned(), "memory.max"),
        };
        // In a container the path may name a group that is not visible there; then the visible root's limit is its own.
        let path = Path::new(path.trim_start_matches('/'));
        path.ancestors().map(|group| hierarchy.join(group).join(file)).collect::<Vec<_>>()
    });
    let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    limits.filter_map(number).min()
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
    fn the_least_limit_of_a_group_and_of_those_around_it_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("written");
        };
        let job = "0::/slurm/job_1/step_0\n";
        assert_eq!(limit(root.path(), job), None);
        write("slurm/job_1/memory.max", "3000\n");
        write("slurm/job_1/step_0/memory.max", "max\n");
        assert_eq!(limit(root.path(), job), Some(3000));
        write("slurm/memory.max", "2000\n");
        assert_eq!(limit(root.path(), job), Some(2000));
        assert_eq!(limit(root.path(), "0::/slurm/other\n"), Some(2000));
        // In a container the path may be the host's.
        write("memory.max", "1000\n");
        assert_eq!(limit(root.path(), "0::/docker/0a1b\n"), Some(1000));
        // Version 1, where each controller has groups of its own.
        let older = "4:cpu,cpuacct:/slurm/job_1\n3:memory:/slurm/job_1/step_0\n";
        write("memory/slurm/job_1/memory.limit_in_bytes", "500\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(root.path(), older), Some(500));
        for nonsense in ["", "0", "0::", "::::", "nothing\n"] {
            assert!(limit(&root.path().join("nowhere"), nonsense).is_none(), "{nonsense}");
        }
    }

    #[test]
    fn the_total_is_read_and_nonsense_is_not() {
        assert_eq!(total("MemTotal:       24660440 kB\nMemFree: 1 kB\n"), Some(24_660_440 << 10));
        for text in ["", "MemFree: 1 kB\n", "MemTotal: many kB\n", "MemTotal: 18446744073709551615 kB\n"] {
            assert_eq!(total(text), None, "{text}");
        }
    }
}
