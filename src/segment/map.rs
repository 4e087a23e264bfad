//! Maps files into memory: the only place in the crate with unsafe code.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::bounded;

#[expect(unsafe_code, reason = "a map of a file that others change would change under its reader")]
pub(super) fn map(path: &Path) -> io::Result<Mmap> {
    let file = bounded::open(path)?;
    // SAFETY: a segment is written under another name and never changed once it has its own. Truncating or
    // overwriting one by hand while it is read breaks that; every block's checksum is checked when the block
    // is first used. A disk that fails under a page that was read before ends the process, as it does for
    // every map.
    let shared = unsafe { Mmap::map(&file) };
    // Some network file systems share no maps. What they give instead is a copy, page by page, or must be read.
    // SAFETY: as above.
    shared.or_else(|_| unsafe { MmapOptions::new().map_copy_read_only(&file) }).or_else(|_| read(file))
}

/// Reads a whole file into memory, in place of a map.
fn read(mut file: File) -> io::Result<Mmap> {
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut memory = MmapMut::map_anon(len)?;
    file.read_exact(&mut memory)?;
    memory.make_read_only()
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

/// Asks the system to begin to load some bytes of a map, and does not wait for them.
pub(super) fn will_need(map: &Mmap, bytes: Range<usize>) {
    #[cfg(unix)]
    let _ = map.advise_range(memmap2::Advice::WillNeed, bytes.start, bytes.len());
    #[cfg(not(unix))]
    let _ = (map, bytes);
}

/// Says that a map is read in random order.
pub(super) fn scatter(map: &Mmap) {
    #[cfg(unix)]
    let _ = map.advise(memmap2::Advice::Random);
    #[cfg(not(unix))]
    let _ = map;
}
