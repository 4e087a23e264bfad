//! Maps files into memory: the only place in the crate with unsafe code.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

/// Maps a file for reading.
#[expect(unsafe_code, reason = "a map of a file that others change would change under its reader")]
pub(super) fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: a segment is written under another name and never changed once it has its own. Truncating or
    // overwriting one by hand while it is read breaks that; every block's checksum is checked when the block
    // is first used. A disk that fails under a page that was read before ends the process, as it does for
    // every map.
    unsafe { Mmap::map(&file) }
}

/// Asks the system to load some bytes of a map into memory, if it can be asked. If not, the first reader of
/// the bytes waits for them.
pub(super) fn bring(map: &Mmap, bytes: Range<usize>) {
    if bytes.is_empty() {
        return;
    }
    #[cfg(target_os = "linux")]
    let advice = memmap2::Advice::PopulateRead;
    #[cfg(all(unix, not(target_os = "linux")))]
    let advice = memmap2::Advice::WillNeed;
    // Linux before 5.14 does not know this advice.
    #[cfg(unix)]
    let _ = map.advise_range(advice, bytes.start, bytes.len());
    #[cfg(not(unix))]
    let _ = (map, bytes);
}
