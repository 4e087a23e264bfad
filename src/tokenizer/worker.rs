//! Which worker a thread is at the moment.
//!
//! Workers move from thread to thread, and threads do other work too, so a thread's own number does not tell
//! who tokenizes beside it. Two workers of a process that work at once never have the same number.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard};

use crate::threads::lock;

thread_local! {
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether each number is in use.
fn numbers() -> MutexGuard<'static, Vec<bool>> {
    static NUMBERS: Mutex<Vec<bool>> = Mutex::new(Vec::new());
    lock(&NUMBERS)
}

/// Runs `work` as a worker, with the lowest number that is not in use.
pub(crate) fn working<T>(work: impl FnOnce() -> T) -> T {
    /// Frees the number, after a panic too.
    struct Ended(usize);
    impl Drop for Ended {
        fn drop(&mut self) {
            WORKER.set(None);
            numbers()[self.0] = false;
        }
    }
    let mut taken = numbers();
    let number = taken.iter().position(|is_taken| !is_taken).unwrap_or(taken.len());
    let len = taken.len().max(number + 1);
    taken.resize(len, true);
    taken[number] = true;
    drop(taken);
    WORKER.set(Some(number));
    let _ended = Ended(number);
    work()
}

/// The number of the worker that this thread is running as, if any.
#[cfg(any(test, feature = "tokenizers"))]
pub(crate) fn number() -> Option<usize> {
    WORKER.get()
}
