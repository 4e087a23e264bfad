//! Which of the workers a thread is at the moment.
//!
//! Workers move from thread to thread, and threads do other work too, so that a thread's own number says nothing of
//! who tokenizes beside it. Two workers of a process that work at once never have the same number.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether each number is some worker's.
fn numbers() -> MutexGuard<'static, Vec<bool>> {
    static NUMBERS: Mutex<Vec<bool>> = Mutex::new(Vec::new());
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `work` as a worker, who has the least number that is no other's.
pub(crate) fn working<T>(work: impl FnOnce() -> T) -> T {
    /// Panics end it too.
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

/// The number of the worker that this thread is, if it is one.
#[cfg(any(test, feature = "tokenizers"))]
pub(crate) fn number() -> Option<usize> {
    WORKER.get()
}
