//! The program's allocator on Linux: jemalloc, set to give memory back soon.
//!
//! One thread reads bytes, another tokenizes them and a third frees them, in pieces from some KiB to some MiB. glibc
//! keeps freed memory in up to eight heaps for each core, and each of them grows to its own peak. jemalloc shares the
//! memory between all threads. Decompressors in C stay with glibc's, which is set to one heap. `benches/memory`
//! measures both.
//!
//! Training is different: each step allocates and frees the same gigabytes. So a training program keeps its memory: every
//! page that goes back to the system costs a fault in the next step, on two cores 40% of a small model's time.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Zeroing = Zeroing;

/// Threads share two heaps, and memory that is unused for a second goes back to the system. jemalloc reads this before
/// `main`. `_RJEM_MALLOC_CONF` in the environment overrides it.
#[expect(
    unsafe_code,
    reason = "another symbol of this name would be linked in its place: it is jemalloc's own"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: Option<&u8> = Some(&b"narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0\0"[0]);

/// jemalloc, except for zeroed memory. For that jemalloc gives the pages of a large piece back to the system, and gets
/// zeroed ones when they are touched. Writing the zeros takes a fraction of that time, and stops no other thread.
struct Zeroing;

#[expect(unsafe_code, reason = "an allocator is unsafe; each call goes to jemalloc as it came")]
unsafe impl GlobalAlloc for Zeroing {
    // The trait's default `alloc_zeroed` allocates, and writes zeros.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        explained(unsafe { Jemalloc.alloc(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { Jemalloc.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        explained(unsafe { Jemalloc.realloc(at, layout, size) })
    }
}

fn explained(at: *mut u8) -> *mut u8 {
    if at.is_null() {
        explain();
    }
    at
}

/// Says why there is no memory, if the shell's limit may be the reason. Rust's message follows, and the process ends.
/// Nothing here allocates.
#[cold]
fn explain() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_AS) else { return };
    if limit == RLIM_INFINITY || IS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let limit = limit >> 20;
    // If this write fails, there is nowhere else to write to.
    let _ = writeln!(
        stderr(),
        "error: `ulimit -v` gives this process {limit} MiB of addresses, and they are used up; raise it, or set none: threads \
         and mapped files take addresses without taking memory, which pipeline.memory bounds"
    );
}

/// Sets glibc to one heap, for C code. Call it before there are threads.
pub(crate) fn share_heap() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "it is C; the call changes a number, and nothing if it fails")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Keeps freed memory for the next step, instead of giving it back to the system. The environment's settings stay.
pub(crate) fn keep_memory() {
    if std::env::var_os("_RJEM_MALLOC_CONF").is_some() {
        return;
    }
    set(c"arenas.dirty_decay_ms", -1);
    // The arenas that exist already: the program's, and that of large pieces. Either may be missing.
    for arena in [c"arena.0.dirty_decay_ms", c"arena.1.dirty_decay_ms", c"arena.2.dirty_decay_ms"] {
        set(arena, -1);
    }
}

/// Sets one of jemalloc's numbers.
fn set(name: &CStr, mut value: isize) {
    #[expect(unsafe_code, reason = "it is jemalloc's function, declared as its manual has it")]
    unsafe extern "C" {
        #[link_name = "_rjem_mallctl"]
        fn mallctl(
            name: *const c_char,
            old: *mut c_void,
            old_length: *mut usize,
            new: *mut c_void,
            new_length: usize,
        ) -> c_int;
    }
    #[expect(unsafe_code, reason = "the name ends with a zero, and the value outlives the call")]
    unsafe {
        let new = (&raw mut value).cast();
        mallctl(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), new, size_of::<isize>());
    }
}
