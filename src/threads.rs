//! Checks whether the system still starts threads.
//!
//! A runtime that is refused a thread panics, or waits forever for work that no thread takes up. So callers that are
//! about to need threads check first, and a refusal is an error with a remedy. Held in memory: nothing, afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How many threads a loader needs beside the workers of its runtime, so that no thread waits for work without a
/// thread. With more threads it is faster, because less work waits for one.
pub const LEAST: usize = 3;

/// How long a thread that has ended may still be counted.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait before the system is asked again.
const APART: Duration = Duration::from_micros(100);

/// Locks a mutex, also one that a thread held when it panicked: what is locked here is whole at any time.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that `wanted` more threads can run at once, by starting them and letting them end.
///
/// A program calls it before it builds a runtime. [`Source::open`](crate::Source::open) and
/// [`Loader::open`](crate::Loader::open) check for their own threads.
///
/// # Errors
/// [`Error::Threads`] if the system refuses one of them: too many processes for the user or the container, or no memory
/// for another stack.
pub fn check(wanted: usize) -> Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // Each thread waits for the gate, so that all of them are there at once.
        let closed = lock(&gate);
        let mut threads = Vec::with_capacity(wanted);
        let checked = (0..wanted).try_for_each(|started| {
            let wait = || {
                let place = fs::read_link("/proc/thread-self");
                drop(gate.lock());
                place.ok()
            };
            let thread = thread::Builder::new().spawn_scoped(scope, wait);
            threads.push(thread.map_err(|source| Error::Threads { wanted, started, source })?);
            Ok(())
        });
        drop(closed);
        let places: Vec<PathBuf> = threads.into_iter().filter_map(|thread| thread.join().ok()?).collect();
        places.iter().for_each(|place| wait_until_gone(place));
        checked
    })
}

/// [`check`] for a task: starts one thread, which checks, and counts as one of the wanted threads.
pub(crate) async fn check_aside(wanted: usize) -> Result<()> {
    let Some(others) = wanted.checked_sub(1) else { return Ok(()) };
    let refused = |started, source| Error::Threads { wanted, started, source };
    let (sender, receiver) = async_channel::bounded(1);
    let job = move || drop(sender.try_send((fs::read_link("/proc/thread-self").ok(), check(others))));
    thread::Builder::new().spawn(job).map_err(|source| refused(0, source))?;
    let (place, checked) = receiver.recv().await.map_err(|lost| refused(0, io::Error::other(lost)))?;
    let began = Instant::now();
    while place.as_ref().is_some_and(|place| is_there(place)) && began.elapsed() < PATIENCE {
        pause().await;
    }
    checked.map_err(|error| match error {
        Error::Threads { started, source, .. } => refused(started + 1, source),
        other => other,
    })
}

/// Waits until the system no longer counts an ended thread, which is a moment after it can be joined. A thread that is
/// started before that may be refused.
fn wait_until_gone(place: &Path) {
    let began = Instant::now();
    while is_there(place) && began.elapsed() < PATIENCE {
        thread::sleep(APART);
    }
}

/// Lets other tasks run, and then waits a moment: the runtime may have no timers.
pub(crate) async fn pause() {
    tokio::task::yield_now().await;
    thread::sleep(APART);
}

/// Whether the thread with this name below `/proc` is counted.
fn is_there(place: &Path) -> bool {
    Path::new("/proc").join(place).exists()
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
