//! One loaded engine for all threads, or one for each worker.
//!
//! `tokenizers` 1.0 keeps its scratch memory in the instance, in a pool with a lock for each thread. Several
//! of these locks share a cache line, so every call of one thread takes the line from another. Calls of a few
//! hundred bytes are so short that this shows (`benches/tokenizers.rs` has the figures). A thread with its
//! own instance has the line to itself. On longer texts it does not show, and all threads share the first
//! instance.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::tokenizer::worker;

/// How many of a thread's texts are averaged at a time.
const WINDOW: u32 = 1 << 16;

/// Texts are short if they have at most this many bytes on average.
const SHORT: usize = 512;

/// The most instances that are loaded, however many cores there are. Each has tables of some megabytes (13 MB
/// at 50,000 tokens), and with this many, only few threads share one.
const MOST: usize = 16;

thread_local! {
    static THREAD: Thread = Thread::new();
}

/// The lengths of the texts that a thread encodes.
struct Thread {
    number: usize,
    texts: Cell<u32>,
    bytes: Cell<usize>,
    are_short: Cell<bool>,
}

impl Thread {
    fn new() -> Self {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        Self {
            number: THREADS.fetch_add(1, Relaxed),
            texts: Cell::new(0),
            bytes: Cell::new(0),
            are_short: Cell::new(false),
        }
    }

    /// Counts a text, and returns whether the last ones were short.
    fn count(&self, bytes: usize) -> bool {
        self.bytes.set(self.bytes.get() + bytes);
        self.texts.set(self.texts.get() + 1);
        if self.texts.get() == WINDOW {
            self.are_short.set(self.bytes.get() <= SHORT * WINDOW as usize);
            self.texts.set(0);
            self.bytes.set(0);
        }
        self.are_short.get()
    }
}

/// An engine, and further instances of it that threads have to themselves. All are dropped together.
pub(super) struct Instances<T> {
    shared: T,
    /// By the worker's number, or by the thread's if it is not a worker, modulo their number plus one; 0 is
    /// the shared instance.
    own: Box<[OnceLock<Option<T>>]>,
    load: Box<dyn Fn() -> Option<T> + Send + Sync>,
}

impl<T> Instances<T> {
    /// `load` makes further instances. If it fails, the thread goes on with the first.
    pub(super) fn new(first: T, load: impl Fn() -> Option<T> + Send + Sync + 'static) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let own = (1..cores.min(MOST)).map(|_| OnceLock::new()).collect();
        Self { shared: first, own, load: Box::new(load) }
    }

    /// Returns the instance for the thread's next text, which has `bytes` bytes.
    pub(super) fn of_thread(&self, bytes: usize) -> &T {
        THREAD.with(|thread| match thread.count(bytes) {
            true => self.own(worker::number().unwrap_or(thread.number)),
            false => &self.shared,
        })
    }

    /// The instance of a worker, or a thread, whose texts are short.
    fn own(&self, number: usize) -> &T {
        let place = number % (self.own.len() + 1);
        let Some(place) = place.checked_sub(1) else { return &self.shared };
        self.own[place].get_or_init(&self.load).as_ref().unwrap_or(&self.shared)
    }

    /// The first instance.
    pub(super) fn shared(&self) -> &T {
        &self.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_whose_texts_are_short_have_their_own_and_no_more_than_cores() {
        let loaded = std::sync::Arc::new(AtomicUsize::new(0));
        let count = loaded.clone();
        let instances = Instances::new(0, move || Some(count.fetch_add(1, Relaxed) + 1));
        let places = instances.own.len() + 1;
        assert!(places <= MOST);
        let of = |number| *instances.own(number);
        assert_eq!((of(0), of(places), loaded.load(Relaxed)), (0, 0, 0), "the first thread has the first");
        let all: Vec<usize> = (0..3 * places).map(of).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!((distinct.len(), loaded.load(Relaxed)), (places, places - 1));
        assert_eq!(all[..places], all[places..2 * places]);
    }

    #[test]
    fn texts_are_short_by_their_mean() {
        let thread = Thread::new();
        let run = |bytes| (0..WINDOW).map(|_| thread.count(bytes)).last();
        assert_eq!((thread.count(80), run(80), run(80)), (false, Some(true), Some(true)));
        assert_eq!((run(2000), run(2000)), (Some(false), Some(false)));
        // The window that the first of these ends began with a long text.
        assert_eq!((run(SHORT), run(SHORT)), (Some(false), Some(true)));
        let fails = Instances::new(7, || None);
        assert!((0..40).all(|number| *fails.own(number) == 7));
    }
}
