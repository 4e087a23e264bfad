//! What the Python functions of one stream have in common: what they raised, and whether the stream has ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tokio::sync::watch;

/// What a function that is not called any more gives; nobody sees it.
pub(crate) const CLOSED: &str = "the loader is closed";

/// How many exceptions are kept: lanes fail one after the other, and the loop ends with the first in its own order.
const MOST: usize = 64;

/// How many threads are in Python functions, of all streams.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<State>);

#[derive(Debug, Default)]
struct State {
    raised: Mutex<Vec<PyErr>>,
    ended: watch::Sender<bool>,
    turn: Mutex<()>,
}

impl Calls {
    fn raised(&self) -> MutexGuard<'_, Vec<PyErr>> {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an exception.
    pub(crate) fn keep(&self, error: PyErr) {
        let mut raised = self.raised();
        if raised.len() < MOST {
            raised.push(error);
        }
    }

    /// The exception that the text of an error speaks of.
    pub(crate) fn cause(&self, text: &str) -> Option<PyErr> {
        let mut raised = self.raised();
        let at = raised.iter().position(|error| text.contains(&error.to_string()))?;
        Some(raised.swap_remove(at))
    }

    /// Tells all who wait, and the functions, that the stream ends.
    pub(crate) fn end(&self) {
        self.0.ended.send_replace(true);
    }

    /// Whether the stream has ended.
    pub(crate) fn have_ended(&self) -> bool {
        *self.0.ended.borrow()
    }

    /// Becomes true when the stream ends.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.0.ended.subscribe()
    }

    /// Runs what calls Python functions and needs the GIL throughout: one thread at a time, so that a thread of Python
    /// that wants the GIL waits for one other, and not for one of each lane.
    pub(crate) fn run_alone<T>(&self, work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
        let _turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(work)
    }

    /// Runs what calls Python functions. `None` if the stream has ended, or Python is shutting down.
    pub(crate) fn run<T>(&self, work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
        if self.have_ended() {
            return None;
        }
        RUNNING.fetch_add(1, Ordering::Relaxed);
        let done = Python::try_attach(work);
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        done
    }
}

/// Whether any thread is in a Python function.
pub(crate) fn are_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}
