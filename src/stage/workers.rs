//! How many blocking jobs run at once, over all lanes.
//!
//! A job that finds no free worker is queued, and the worker that is done next takes it up by itself.
//! Were it to wait until the task that awaits the job is woken and starts another, a core would stand
//! idle for as long as that takes: measured on two cores, the loader was a sixth slower so.
//!
//! On demand there are no other threads: who asks for a job does it.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::channel::oneshot;

use crate::error::{Error, Result, panic_message};
use crate::tasks;

/// A bound on the groups of documents that are tokenized at once. Clones share it.
#[derive(Clone)]
pub struct Workers {
    count: NonZeroUsize,
    on_demand: bool,
    state: Arc<Mutex<State>>,
}

struct State {
    free: usize,
    queued: VecDeque<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Workers {
    /// At most `count` groups at once.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: usize) -> Self {
        let count = NonZeroUsize::new(count).expect("at least one worker");
        let state = Arc::new(Mutex::new(State { free: count.get(), queued: VecDeque::new() }));
        Self { count, on_demand: false, state }
    }

    /// No threads: a group is tokenized when its documents are asked for, by the thread that asks.
    pub fn on_demand() -> Self {
        Self { on_demand: true, ..Self::new(1) }
    }

    /// How many groups are tokenized at once.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// How many of them work now.
    pub fn busy(&self) -> usize {
        self.count.get() - self.state().free
    }

    /// Whether one of them has nothing to do.
    pub(super) fn has_idle(&self) -> bool {
        self.state().free > 0
    }

    /// How many groups a stream may have under way or waiting, so that no worker waits for it; `spare` of them wait for
    /// the stream.
    pub(super) fn ahead(&self, spare: usize) -> usize {
        if self.on_demand { 1 } else { 2 * self.count() + spare }
    }

    /// Does `work` on a blocking thread, or at once if this is on demand, after all that was asked before. It is not
    /// begun if nobody waits for
    /// it any more.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move || {
            if !sender.is_canceled() {
                // Who has gone away meanwhile wants no answer.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
            }
        });
        if self.on_demand {
            job();
            return Answer(receiver);
        }
        let mut state = self.state();
        state.queued.push_back(job);
        if state.free > 0 {
            state.free -= 1;
            let workers = self.clone();
            tasks::spawn_blocking("tokenize", move || workers.work());
        }
        Answer(receiver)
    }

    /// One worker: does what is queued, and is free when nothing is.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let Some(job) = state.queued.pop_front() else {
                state.free += 1;
                return;
            };
            drop(state);
            job();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What will come of a job.
#[derive(Debug)]
pub(super) struct Answer<T>(oneshot::Receiver<std::thread::Result<T>>);

impl<T> Answer<T> {
    /// The job's result, or the panic that ended it.
    pub(super) fn poll(&mut self, stage: &'static str, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.0.poll_unpin(cx).map(|answer| {
            let message = match answer {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(payload)) => panic_message(&*payload),
                Err(oneshot::Canceled) => "its job was given up, with the runtime that it ran on".to_owned(),
            };
            Err(Error::Panic { stage, message })
        })
    }
}
