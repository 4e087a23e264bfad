//! An allocator that takes nothing back and counts: the same work takes the same instructions with it.
//!
//! With the system's, whether a growing vector is moved depends on what else lies where, and so on which thread was
//! first to free something: counts of the same program differed by some percent.

#![expect(unsafe_code, reason = "an allocator cannot be had without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// All that a process may ever allocate; the system gives it as it is touched.
const REGION: usize = 2 << 30;

pub(crate) struct Bump {
    region: AtomicPtr<u8>,
    used: AtomicUsize,
    allocations: AtomicU64,
}

impl Bump {
    pub(crate) const fn new() -> Self {
        Self { region: AtomicPtr::new(null_mut()), used: AtomicUsize::new(0), allocations: AtomicU64::new(0) }
    }

    /// How often memory was asked for so far.
    pub(crate) fn allocations(&self) -> u64 {
        self.allocations.load(Relaxed)
    }

    fn region(&self) -> *mut u8 {
        let region = self.region.load(Relaxed);
        if !region.is_null() {
            return region;
        }
        let Ok(layout) = Layout::from_size_align(REGION, 8) else { return null_mut() };
        // SAFETY: the layout is not empty. With a small alignment the system gives fresh pages, which it need not clear.
        let fresh = unsafe { System.alloc_zeroed(layout) };
        match self.region.compare_exchange(null_mut(), fresh, Relaxed, Relaxed) {
            Ok(_) => fresh,
            // Another thread was first; what was not touched costs nothing.
            Err(theirs) => theirs,
        }
    }
}

// SAFETY: each block is a part of the region that no other block has, aligned, and never used again; the region is
// never freed, and its bytes are zero until they are written.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Relaxed);
        let region = self.region();
        let at = self.used.fetch_add(layout.size() + layout.align(), Relaxed);
        if region.is_null() || at + layout.size() + layout.align() > REGION {
            return null_mut();
        }
        // SAFETY: that is within the region.
        let start = unsafe { region.add(at) };
        // SAFETY: the offset is less than the alignment, for which there is room.
        unsafe { start.add(start.align_offset(layout.align())) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc`'s promises.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
