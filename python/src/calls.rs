//! What the Python functions of one stream have in common: what they raised, and whether the stream has ended.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tokio::sync::watch;

/// What a function that is not called any more gives. Nobody sees it: no batch is handed out, and the log leaves it out.
pub(crate) const CLOSED: &str = "the loader is closed";

/// How many exceptions are kept, the newest ones: lanes fail one after the other, and the loop ends with the first in its own
/// order. Those of skipped documents are among them.
const MOST: usize = 1024;

/// How many of them keep their tracebacks, which hold the documents that they were raised for.
const TRACED: usize = 64;

/// How many threads are in Python functions, of all streams.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread's call comes from Python and not from a stream.
    static IS_DIRECT: Cell<bool> = const { Cell::new(false) };
}

/// Whether functions are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Running,
    /// Nothing was left to read, or an error was found: what came before is whole.
    Over,
    /// Someone closed the stream before: what comes now may lack documents.
    Closed,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// With the texts of the errors that they become. To ask an exception for its text runs Python, which must not be done
    /// under the lock.
    raised: Mutex<VecDeque<(String, PyErr)>>,
    phase: watch::Sender<Phase>,
    turn: Mutex<()>,
}

impl Calls {
    fn raised(&self) -> MutexGuard<'_, VecDeque<(String, PyErr)>> {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an exception that becomes an error with this text, which names its document if it can.
    pub(crate) fn keep(&self, py: Python<'_>, text: String, error: PyErr) {
        let mut raised = self.raised();
        raised.push_back((text, error));
        let oldest = if raised.len() > MOST { raised.pop_front() } else { None };
        let untraced = raised.len().checked_sub(TRACED + 1).map(|at| raised[at].1.clone_ref(py));
        // What they hold may run Python when it ends.
        drop(raised);
        drop(oldest);
        if let Some(error) = untraced {
            error.set_traceback(py, None);
        }
    }

    /// The exception whose text is in that of an error: the one that says most, and the oldest of equal ones.
    pub(crate) fn cause(&self, text: &str) -> Option<PyErr> {
        let mut raised = self.raised();
        let found = raised.iter().enumerate().rev().filter(|(_, (raised, _))| text.contains(raised));
        let (at, _) = found.max_by_key(|(_, (raised, _))| raised.len())?;
        raised.remove(at).map(|(_, error)| error)
    }

    /// Tells all who wait, and the functions, that the stream is over.
    pub(crate) fn end(&self) {
        self.leave(Phase::Over);
    }

    /// The same if someone closes it. It is too late for what is over.
    pub(crate) fn close(&self) {
        self.leave(Phase::Closed);
    }

    fn leave(&self, to: Phase) {
        self.0.phase.send_if_modified(|phase| {
            let is_running = *phase == Phase::Running;
            if is_running {
                *phase = to;
            }
            is_running
        });
    }

    /// Whether the stream is over or closed.
    pub(crate) fn have_ended(&self) -> bool {
        *self.0.phase.borrow() != Phase::Running
    }

    /// Whether it was closed before it was over.
    pub(crate) fn were_closed(&self) -> bool {
        *self.0.phase.borrow() == Phase::Closed
    }

    /// Does the work unless the stream was closed, and lets nobody close it meanwhile.
    pub(crate) fn unless_closed<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let phase = self.0.phase.borrow();
        (*phase != Phase::Closed).then(work)
    }

    /// Returns once the stream is over or closed.
    pub(crate) async fn ended(&self) {
        // It fails if there is nobody left to say so, and this one is.
        let _ = self.0.phase.subscribe().wait_for(|phase| *phase != Phase::Running).await;
    }

    /// Runs what calls Python functions and needs the GIL throughout: one thread at a time, so that a thread of Python
    /// that wants the GIL waits for one other, and not for one of each lane.
    pub(crate) fn run_alone<T>(&self, work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
        if IS_DIRECT.get() {
            return Some(Python::attach(work));
        }
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
        // In a process that was forked within a function, there is none to subtract from.
        let _ = RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| running.checked_sub(1));
        done
    }
}

/// Runs what Python has called itself: it takes no turn, which its thread may have already, and outlives the stream.
pub(crate) fn directly<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_DIRECT.replace(true);
    let done = work();
    IS_DIRECT.set(before);
    done
}

/// Says that this process was forked, and has none of the threads that were in Python functions.
#[pyfunction]
pub(crate) fn forked() {
    RUNNING.store(0, Ordering::Relaxed);
}

/// Whether any thread is in a Python function.
pub(crate) fn are_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}
