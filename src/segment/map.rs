//! Files in memory: the only place of the crate with unsafe code.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

/// Maps a file, to be read.
#[expect(unsafe_code, reason = "a map of a file that others change would change under its reader")]
pub(super) fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: a segment is written under another name and never touched after it has its own. Whoever truncates or
    // overwrites one by hand while it is read breaks that; every block's checksum is compared when it is first used. A
    // disk that fails under a page that was read before ends the process, as it does for every map.
    unsafe { Mmap::map(&file) }
}

/// Brings some bytes of a map into memory, where the system can be asked for that. Whoever needs them waits for them
/// otherwise.
pub(super) fn bring(map: &Mmap, bytes: Range<usize>) {
    if bytes.is_empty() {
        return;
    }
    #[cfg(target_os = "linux")]
    let advice = memmap2::Advice::PopulateRead;
    #[cfg(all(unix, not(target_os = "linux")))]
    let advice = memmap2::Advice::WillNeed;
    // Systems before Linux 5.14 do not know it.
    #[cfg(unix)]
    let _ = map.advise_range(advice, bytes.start, bytes.len());
    #[cfg(not(unix))]
    let _ = (map, bytes);
}
