//! Work beside the caller's: tasks, and jobs on blocking threads.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::{Error, Result};
use crate::threads;

/// How long threads of the runtime may take to begin a job, before they count as busy for good.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a job waits before it looks again whether it may end.
const APART: Duration = Duration::from_millis(1);

/// A task that is aborted when this is dropped, since nobody wants its result then.
#[derive(Debug)]
pub(crate) struct Task<T> {
    of: &'static str,
    handle: JoinHandle<Result<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// Spawns a task that works for the stage `of`.
    pub(crate) fn spawn(
        of: &'static str,
        on: &Handle,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Self {
        Self { of, handle: on.spawn(work) }
    }

    #[cfg(feature = "stores")]
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let of = self.of;
        self.handle.poll_unpin(cx).map(|joined| joined.unwrap_or_else(|lost| Err(Error::lost(of, lost))))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Runs `job` on a blocking thread, for `stage`, and waits for it.
pub(crate) async fn blocking<T: Send + 'static>(
    stage: &'static str,
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(job).await.map_err(|lost| Error::lost(stage, lost))?
}

/// Checks that `wanted` jobs can block at once: on new threads, or on those that the runtime has and that are idle.
///
/// # Errors
/// [`Error::Threads`] if the system refuses new ones and too few are idle. The jobs would wait for ever.
pub(crate) async fn can_block(wanted: usize) -> Result<()> {
    match threads::check_aside(wanted).await {
        Err(_) if are_idle(wanted).await => Ok(()),
        checked => checked,
    }
}

/// Whether the runtime begins so many blocking jobs although it gets no new threads. It looks again and
/// again, and lets other tasks run in between.
async fn are_idle(wanted: usize) -> bool {
    let (begun, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let job = || {
        let (begun, is_over) = (begun.clone(), is_over.clone());
        // A runtime without any thread for it panics.
        let spawn = || {
            spawn_blocking(move || {
                begun.fetch_add(1, Relaxed);
                while !is_over.load(Relaxed) {
                    std::thread::sleep(APART);
                }
            })
        };
        catch_unwind(AssertUnwindSafe(spawn)).ok()
    };
    let jobs: Vec<Option<JoinHandle<()>>> = (0..wanted).map(|_| job()).collect();
    let began = Instant::now();
    while begun.load(Relaxed) < wanted && jobs.iter().all(Option::is_some) && began.elapsed() < PATIENCE {
        threads::pause().await;
    }
    is_over.store(true, Relaxed);
    let are_idle = begun.load(Relaxed) >= wanted;
    // Jobs that have not begun must not begin later.
    jobs.into_iter().flatten().for_each(|job| job.abort());
    are_idle
}
