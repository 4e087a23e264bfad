//! Disks: free space, free inodes, and links that lead nowhere.

use std::path::{Path, PathBuf};

/// How many bytes more this user can write where `path` is, or will be. `None` where the system is not asked: outside
/// Linux.
pub fn free(path: &Path) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let found = look(path)?;
        found.blocks_available().checked_mul(found.fragment_size())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        None
    }
}

/// Whether the disk where `path` is, or will be, has space but no inodes left, so that no more files can be made. False
/// where the system is not asked: outside Linux.
pub fn lacks_inodes(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        // Some file systems have no fixed number of inodes, and report 0.
        look(path).is_some_and(|found| {
            found.blocks_available() > 0 && found.files() > 0 && found.files_available() == 0
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        false
    }
}

/// The system's answer about the disk where `path` is, or will be.
#[cfg(target_os = "linux")]
fn look(path: &Path) -> Option<nix::sys::statvfs::Statvfs> {
    let there = std::path::absolute(path).ok()?;
    let there = there.ancestors().find(|path| path.exists())?;
    nix::sys::statvfs::statvfs(there).ok()
}

/// The target of the link at `path`, if nothing is there.
pub fn dangling(path: &Path) -> Option<PathBuf> {
    if path.exists() { None } else { path.read_link().ok() }
}
