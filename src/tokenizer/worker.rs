//! Which of the workers a thread is at the moment.
//!
//! Workers move from thread to thread, and threads do other work too, so that a thread's own number says nothing of
//! who tokenizes beside it. Two workers that work at once never have the same number.

use std::cell::Cell;

thread_local! {
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Does `work` as worker `number`.
pub(crate) fn working<T>(number: usize, work: impl FnOnce() -> T) -> T {
    /// Panics end it too.
    struct Ended(Option<usize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            WORKER.set(self.0);
        }
    }
    let _ended = Ended(WORKER.replace(Some(number)));
    work()
}

/// The number of the worker that this thread is, if it is one.
#[cfg(any(test, feature = "tokenizers"))]
pub(crate) fn number() -> Option<usize> {
    WORKER.get()
}
