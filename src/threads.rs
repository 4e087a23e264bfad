//! Whether the system still gives threads.
//!
//! A runtime that is refused a thread panics, or waits for ever for work that no thread takes up. So whoever is about to
//! need threads asks first, and a refusal is an error that says what to do. Held in memory: nothing, afterwards.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::{Error, Result};

/// How many threads a loader needs beside the workers of its runtime, so that what one of them waits for has a thread
/// too. With more it is faster: what has no thread waits for one.
pub const LEAST: usize = 3;

/// Checks that `wanted` more threads can run at once, by starting them and letting them end.
///
/// A program calls it before it builds a runtime. [`Source::open`](crate::Source::open) and
/// [`Loader::open`](crate::Loader::open) check for what they need by themselves.
///
/// # Errors
/// [`Error::Threads`] if the system refuses one of them: too many processes for the user or the container, or no memory
/// for another stack.
pub fn check(wanted: usize) -> Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // Each thread waits for the gate, so that all of them are there at once. It opens when this function ends.
        let _closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        (0..wanted).try_for_each(|started| {
            let wait = || drop(gate.lock());
            let thread = thread::Builder::new().spawn_scoped(scope, wait);
            thread.map(drop).map_err(|source| Error::Threads { wanted, started, source })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_the_system_gives_are_no_error() {
        check(0).expect("none");
        check(20).expect("some");
    }
}
