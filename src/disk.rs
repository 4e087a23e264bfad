//! What the system says of a disk: how much more can be written to it, and links that lead nowhere.

use std::path::{Path, PathBuf};

/// How many bytes more this user can write where `path` is, or will be. `None` where the system is not asked, as outside
/// Linux.
pub(crate) fn free(path: &Path) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let there = std::path::absolute(path).ok()?;
        let there = there.ancestors().find(|path| path.exists())?;
        let found = nix::sys::statvfs::statvfs(there).ok()?;
        found.blocks_available().checked_mul(found.fragment_size())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        None
    }
}

/// Where the link at `path` leads, if nothing is there.
pub(crate) fn dangling(path: &Path) -> Option<PathBuf> {
    if path.exists() { None } else { path.read_link().ok() }
}
