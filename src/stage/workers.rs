//! How many blocking jobs run at once, over all lanes.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A bound on the groups of documents that are tokenized at once. Clones share it.
///
/// A semaphore that hands a permit to whom it is due would stand still when a lane that is not being
/// polled is due; here who is polled takes.
#[derive(Clone, Debug)]
pub struct Workers {
    count: NonZeroUsize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: Vec<Waker>,
}

impl Workers {
    /// At most `count` groups at once.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: usize) -> Self {
        let count = NonZeroUsize::new(count).expect("at least one worker");
        Self { count, state: Arc::new(Mutex::new(State { free: count.get(), waiting: Vec::new() })) }
    }

    /// How many groups are tokenized at once.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// A place for one job, until the permit is dropped.
    pub(super) fn poll_permit(&self, cx: &mut Context<'_>) -> Poll<Permit> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free == 0 {
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        state.free -= 1;
        Poll::Ready(Permit(self.clone()))
    }
}

/// A place for one job.
#[derive(Debug)]
pub(super) struct Permit(Workers);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}
