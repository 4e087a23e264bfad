//! How many blocking jobs run at once, over all lanes.
//!
//! A job that finds no free worker is queued, and the next free worker takes it. If jobs waited instead until their
//! task woke and started them, a core would be idle for that long: on two cores, that made the loader a sixth slower.
//!
//! The number of workers may change while they work. New workers begin at once with what is queued; surplus
//! workers end after their current job. On demand there are no other threads: the thread that asks for a job
//! does it.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::channel::oneshot;

use crate::error::{Error, Result, panic_message};
use crate::pin::Pinning;
use crate::threads::lock;
use crate::tokenizer::worker;

/// A bound on the groups of documents that are tokenized at once. Clones share it.
#[derive(Clone)]
pub struct Workers {
    on_demand: bool,
    /// How many streams keep them busy together.
    streams: usize,
    pin: Option<Pinning>,
    state: Arc<Mutex<PoolState>>,
}

struct PoolState {
    count: usize,
    busy: usize,
    queued: VecDeque<Job>,
    /// The time of all finished jobs together.
    worked: Duration,
}

type Job = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Workers {
    /// Returns workers that tokenize at most `count` groups at once.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: usize) -> Self {
        assert!(count > 0, "at least one worker");
        let state = PoolState { count, busy: 0, queued: VecDeque::new(), worked: Duration::ZERO };
        Self { on_demand: false, streams: 1, pin: None, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns workers without threads: a group is tokenized when its documents are asked for, by the thread
    /// that asks.
    pub fn on_demand() -> Self {
        Self { on_demand: true, ..Self::new(1) }
    }

    /// Returns the same workers, shared by `streams` streams that all have work for them at about the same
    /// rate.
    pub(crate) fn shared_by(self, streams: usize) -> Self {
        Self { streams: streams.max(1), ..self }
    }

    /// Returns the same workers, which stay on some cores.
    pub(crate) fn with_pin(self, pin: Option<Pinning>) -> Self {
        Self { pin, ..self }
    }

    /// Whether they have no threads of their own.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.on_demand
    }

    pub(super) fn streams(&self) -> usize {
        self.streams
    }

    /// How many groups may be tokenized at once now.
    pub fn count(&self) -> usize {
        lock(&self.state).count
    }

    /// Sets how many groups are tokenized at once from now on; at least one.
    ///
    /// # Panics
    /// If it is called outside a tokio runtime.
    pub(crate) fn set_count(&self, count: usize) {
        let mut state = lock(&self.state);
        state.count = count.max(1);
        let more = state.count.saturating_sub(state.busy).min(state.queued.len());
        state.busy += more;
        drop(state);
        (0..more).for_each(|_| self.begin());
    }

    /// The time of all finished jobs together.
    pub(crate) fn worked(&self) -> Duration {
        lock(&self.state).worked
    }

    /// How many workers are working now.
    pub fn busy(&self) -> usize {
        lock(&self.state).busy
    }

    /// Whether a worker has nothing to do.
    pub(super) fn has_idle(&self) -> bool {
        let state = lock(&self.state);
        state.busy < state.count
    }

    /// How many groups a stream may have under way or waiting, so that no worker waits for it; `spare` of
    /// them wait for the stream. Streams that share the workers share these groups too, but each has at least
    /// three: with one each, two cores were idle half of the time.
    pub(crate) fn ahead(&self, spare: usize) -> usize {
        if self.on_demand { 1 } else { (2 * self.count() + spare).div_ceil(self.streams).max(3) }
    }

    /// Runs `work` on a blocking thread after all work that was asked for before, or at once if on demand. It
    /// does not begin if nobody waits for it any more.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        if self.on_demand {
            return Answer::run(work);
        }
        let (sender, receiver) = oneshot::channel();
        if self.queue(sender, work) {
            self.begin();
        }
        Answer(receiver)
    }

    /// Runs `work` in the same way, on what `first` gives. That may wait, so it takes a thread and no worker.
    pub(super) fn run_behind<A: Send + 'static, T: Send + 'static>(
        &self,
        first: impl FnOnce() -> A + Send + 'static,
        work: impl FnOnce(A) -> T + Send + 'static,
    ) -> Answer<T> {
        let (sender, receiver) = oneshot::channel();
        let workers = self.clone();
        let job = move || {
            if sender.is_canceled() {
                return;
            }
            match catch_unwind(AssertUnwindSafe(first)) {
                Err(payload) => drop(sender.send(Err(payload))),
                Ok(value) if workers.on_demand => {
                    drop(sender.send(catch_unwind(AssertUnwindSafe(|| work(value)))));
                }
                Ok(value) => {
                    if workers.queue(sender, || work(value)) {
                        worker::working(|| workers.work());
                    }
                }
            }
        };
        let pin = self.pin.clone();
        tokio::task::spawn_blocking(move || Pinning::keep(pin.as_ref(), job));
        Answer(receiver)
    }

    /// Queues work, and says whether one more worker has to be started for it, which is counted already.
    fn queue<T: Send + 'static>(
        &self,
        sender: oneshot::Sender<std::thread::Result<T>>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> bool {
        let job: Job = Box::new(move || {
            if !sender.is_canceled() {
                // If the receiver is gone by now, nobody needs the answer.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
            }
        });
        let mut state = lock(&self.state);
        state.queued.push_back(job);
        let is_free = state.busy < state.count;
        state.busy += usize::from(is_free);
        is_free
    }

    /// Starts one more worker, which is counted already.
    fn begin(&self) {
        let workers = self.clone();
        let work = move || Pinning::keep(workers.pin.as_ref(), || worker::working(|| workers.work()));
        tokio::task::spawn_blocking(work);
    }

    /// Runs one worker: it does what is queued, and ends when nothing is queued or when there are too many
    /// workers.
    fn work(&self) {
        let mut worked = Duration::ZERO;
        loop {
            let mut state = lock(&self.state);
            state.worked += std::mem::take(&mut worked);
            let next = if state.busy > state.count { None } else { state.queued.pop_front() };
            let Some(job) = next else {
                state.busy -= 1;
                return;
            };
            drop(state);
            let began = Instant::now();
            job();
            worked = began.elapsed();
        }
    }
}

/// The future result of a job.
#[derive(Debug)]
pub(super) struct Answer<T>(oneshot::Receiver<std::thread::Result<T>>);

impl<T> Answer<T> {
    /// Runs `work` at once, where it takes less time than handing it over.
    pub(super) fn run(work: impl FnOnce() -> T) -> Self {
        let (sender, receiver) = oneshot::channel();
        // This cannot fail: the receiver is still here.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
        Self(receiver)
    }

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    use super::*;

    /// Jobs that wait for a signal from the test, and how many of them are under way.
    fn jobs(workers: &Workers, count: usize) -> (Vec<Answer<()>>, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (go, word) = mpsc::channel();
        let (word, under_way) = (Arc::new(Mutex::new(word)), Arc::new(AtomicUsize::new(0)));
        let run = |_| {
            let (word, under_way) = (word.clone(), under_way.clone());
            workers.run(move || {
                under_way.fetch_add(1, SeqCst);
                word.lock().unwrap().recv().unwrap();
                under_way.fetch_sub(1, SeqCst);
            })
        };
        ((0..count).map(run).collect(), go, under_way)
    }

    async fn until(condition: impl Fn() -> bool) {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn more_begin_at_once_and_too_many_end_with_their_jobs() {
        let workers = Workers::new(1);
        let (answers, go, under_way) = jobs(&workers, 9);
        until(|| under_way.load(SeqCst) == 1).await;
        workers.set_count(3);
        until(|| under_way.load(SeqCst) == 3).await;
        assert_eq!(workers.busy(), 3);
        assert_eq!((workers.count(), workers.has_idle()), (3, false));
        workers.set_count(2);
        go.send(()).unwrap();
        until(|| workers.busy() == 2).await;
        (0..8).for_each(|_| go.send(()).unwrap());
        for mut answer in answers {
            std::future::poll_fn(|cx| answer.poll("test", cx)).await.unwrap();
        }
        until(|| workers.busy() == 0).await;
        assert!(workers.has_idle() && workers.worked() > Duration::ZERO);
        // A worker that ends must not leave queued jobs without a worker.
        workers.set_count(0);
        assert_eq!(workers.count(), 1);
        let (answers, go, _) = jobs(&workers, 3);
        (0..3).for_each(|_| go.send(()).unwrap());
        for mut answer in answers {
            std::future::poll_fn(|cx| answer.poll("test", cx)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn workers_at_work_have_numbers_of_their_own_whosever_they_are() {
        let pools = [Workers::new(3), Workers::new(2)];
        let (sender, numbers) = mpsc::channel();
        let barrier = Arc::new(std::sync::Barrier::new(5));
        for _ in 0..20 {
            let job = |workers: &Workers| {
                let (sender, barrier) = (sender.clone(), barrier.clone());
                workers.run(move || {
                    // All five work at once.
                    barrier.wait();
                    sender.send(worker::number()).unwrap();
                    barrier.wait();
                })
            };
            let jobs: Vec<_> = [0, 0, 0, 1, 1].map(|pool: usize| job(&pools[pool])).into();
            for mut answer in jobs {
                std::future::poll_fn(|cx| answer.poll("test", cx)).await.unwrap();
            }
            let numbers: std::collections::BTreeSet<_> = numbers.try_iter().map(Option::unwrap).collect();
            assert_eq!(numbers.len(), 5, "{numbers:?}");
            // Other tests of this process have workers too.
            assert!(numbers.iter().all(|number| *number < 64), "numbers come back: {numbers:?}");
        }
        assert_eq!(worker::number(), None);
    }
}
