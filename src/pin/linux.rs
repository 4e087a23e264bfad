//! The cores of a thread on Linux.

use std::fs;
use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

use super::KEY;
use crate::error::{Error, Result};

/// Where the system describes its NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// Some cores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores(CpuSet);

/// The cores that a thread had before. It gets them back when this is dropped.
#[derive(Debug)]
pub(super) struct Before(Option<CpuSet>);

/// The calling thread.
fn this() -> Pid {
    Pid::from_raw(0)
}

impl Cores {
    pub(super) fn new(cores: &[usize]) -> Result<Self> {
        let failed =
            |e: nix::errno::Errno| Error::config(KEY, format!("the system does not tell its cores: {e}"));
        let (mut set, there) = (CpuSet::new(), sched_getaffinity(this()).map_err(failed)?);
        for &core in cores {
            let is_there = core < CpuSet::count() && there.is_set(core).unwrap_or(false);
            if !is_there || set.set(core).is_err() {
                let all: Vec<String> = members(&there).map(|core| core.to_string()).collect();
                let problem = format!("this process has no core {core}; it has {}", all.join(", "));
                return Err(Error::config(KEY, problem));
            }
        }
        Ok(Self(set))
    }

    /// The cores of the NUMA node that the calling thread runs on, as far as this process may use them; `None` if there
    /// is one node, or if the system does not say.
    pub(super) fn near() -> Option<Self> {
        Self::beside(sched_getcpu().ok()?, sched_getaffinity(this()).ok()?, Path::new(NODES))
    }

    /// Those of the cores `there` that are on the node of the core `here`, as the directory `nodes` describes them.
    fn beside(here: usize, there: CpuSet, nodes: &Path) -> Option<Self> {
        let nodes: Vec<CpuSet> = fs::read_dir(nodes)
            .ok()?
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name();
                let number = name.to_str()?.strip_prefix("node")?;
                number.parse::<usize>().ok()?;
                listed(&fs::read_to_string(entry.path().join("cpulist")).ok()?)
            })
            .collect();
        let node =
            nodes.iter().find(|node| node.is_set(here).unwrap_or(false)).filter(|_| nodes.len() > 1)?;
        let mut near = CpuSet::new();
        members(node)
            .filter(|core| there.is_set(*core).unwrap_or(false))
            .try_for_each(|core| near.set(core))
            .ok()?;
        Some(Self(near))
    }

    /// Moves the calling thread to these cores. If the system refuses, it stays where it is.
    pub(super) fn take(&self) -> Before {
        let before = sched_getaffinity(this()).ok();
        Before(before.filter(|_| sched_setaffinity(this(), &self.0).is_ok()))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // The cores that it had are those that it may have.
            let _ = sched_setaffinity(this(), before);
        }
    }
}

fn members(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false))
}

/// The cores of a list such as `0-3,8`.
fn listed(text: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first..=last).try_for_each(|core| set.set(core)).ok()?;
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        let of = |text: &str| listed(text).map(|set| members(&set).collect::<Vec<_>>());
        assert_eq!(of("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(of("\n"), Some(Vec::new()), "a node of memory alone");
        assert_eq!(of("0-x"), None);
    }

    #[test]
    fn near_are_the_cores_of_the_node_that_a_thread_is_on() {
        let set = |cores: &[usize]| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|core| set.set(*core).expect("a core"));
            set
        };
        let system = tempfile::tempdir().expect("a directory");
        let describe = |node: &str, cores: &str| {
            fs::create_dir_all(system.path().join(node)).expect("made");
            fs::write(system.path().join(node).join("cpulist"), cores).expect("written");
        };
        let near = |here: usize, there: &[usize]| {
            let cores = Cores::beside(here, set(there), system.path())?;
            Some(members(&cores.0).collect::<Vec<_>>())
        };
        let all: Vec<usize> = (0..8).collect();
        describe("node0", "0-3\n");
        describe("power", "0-7\n");
        assert_eq!(near(1, &all), None, "there is one node");
        describe("node1", "4-7\n");
        assert_eq!(near(1, &all), Some(vec![0, 1, 2, 3]));
        assert_eq!(near(6, &all), Some(vec![4, 5, 6, 7]));
        assert_eq!(near(6, &[0, 5, 6]), Some(vec![5, 6]), "this process has not all of them");
        assert_eq!(near(9, &all), None, "no node has that core");
    }
}
