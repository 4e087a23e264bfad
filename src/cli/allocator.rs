//! The program's allocator on Linux: jemalloc, set to give memory back soon.
//!
//! What one thread reads, another tokenizes and a third gives back, in pieces from some KiB to some MiB. glibc keeps
//! what was given back in up to eight heaps for each core, and each of them grows to its own peak. jemalloc shares the
//! memory between all threads. Decompressors in C stay with glibc's, which is told to use one heap. `benches/memory`
//! measures both.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Threads share two heaps, and what is not used for a second goes back to the system. jemalloc reads this before
/// `main`. The environment's `_RJEM_MALLOC_CONF` overrides it.
#[expect(
    unsafe_code,
    reason = "another symbol of this name would be linked in its place: it is jemalloc's own"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: Option<&u8> = Some(&b"narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0\0"[0]);

/// Keeps what C code allocates in one heap. Call it before there are threads.
pub(super) fn share_heap() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "it is C; the call changes a number, and nothing if it fails")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
