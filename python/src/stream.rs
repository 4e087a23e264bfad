//! An open loader, and its batches one after the other.
//!
//! Whoever waits gives the GIL back, and looks for signals many times a second. Ending the stream, in whatever way, ends
//! its threads and closes its files.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::select;
use futures::stream::{BoxStream, Peekable};
use futures::{FutureExt, StreamExt};
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::OwnedMutexGuard;

use super::batch::{Batch, Ready};
use super::calls::Calls;
use super::config::Config;
use super::errors::{raise, refused};
use super::log;
use super::progress::Progress;

/// How long signals may wait.
pub(crate) const GLANCE: Duration = Duration::from_millis(20);

/// How long a stream that ends waits for work that cannot be interrupted. Whoever pressed Ctrl-C waits for it too, and
/// what takes longer, such as a Python function that sleeps, ends by itself later.
const PATIENCE: Duration = Duration::from_millis(50);

pub(crate) type Batches = Peekable<BoxStream<'static, millstream::Result<Ready>>>;

/// Batches that one thread at a time takes from, in the order in which they ask.
type Shared = Arc<tokio::sync::Mutex<Option<Batches>>>;

/// Waits until the next batch or the end is there. Whoever keeps the lock is the one to take it: another thread that could
/// take it meanwhile would make this one wait again.
async fn found(batches: Shared) -> OwnedMutexGuard<Option<Batches>> {
    let mut found = batches.lock_owned().await;
    if let Some(batches) = found.as_mut() {
        Pin::new(batches).peek().await;
    }
    found
}

/// A runtime, and what runs on it.
pub(crate) struct Running {
    /// Taken when it ends.
    runtime: Option<Runtime>,
    batches: Shared,
    calls: Calls,
    process: u32,
}

impl Running {
    pub(crate) fn start(calls: Calls) -> PyResult<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("millstream").build();
        let runtime = runtime.map_err(|e| refused("threads", format!("cannot start threads: {e}")))?;
        Ok(Self { runtime: Some(runtime), batches: Arc::default(), calls, process: std::process::id() })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a runtime until it is dropped")
    }

    /// What it runs, once it is open.
    pub(crate) fn set(&self, batches: Batches) {
        *self.runtime().block_on(self.batches.lock()) = Some(batches);
    }

    /// Whether this process is a copy of the one that opened it, and has none of its threads.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Waits without the GIL. `None` if the stream was closed meanwhile.
    ///
    /// # Errors
    /// What a signal handler raises, such as `KeyboardInterrupt`.
    pub(crate) fn wait<F>(&self, py: Python<'_>, mut future: Pin<&mut F>) -> PyResult<Option<F::Output>>
    where
        F: Future + Send,
        F::Output: Send,
    {
        loop {
            let glance = || {
                let runtime = self.runtime();
                runtime.block_on(async { tokio::time::timeout(GLANCE, future.as_mut()).await })
            };
            if let Ok(done) = py.detach(glance) {
                return Ok(Some(done));
            }
            py.check_signals()?;
            log::hand_on(py)?;
            if self.calls.have_ended() {
                return Ok(None);
            }
        }
    }

    /// Takes the batch that was found; `None` at the end, or if the stream was closed: what comes then may lack documents.
    /// Under the lock that found it, so that batches that several threads take are noted in their order.
    fn take(
        &self,
        found: &mut OwnedMutexGuard<Option<Batches>>,
        progress: &Progress,
    ) -> Option<millstream::Result<Ready>> {
        let next = found.as_mut()?.next().now_or_never()??;
        self.calls.unless_closed(|| {
            if let Ok(ready) = &next {
                progress.note(&ready.batch);
            }
            next
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.is_forked() {
            // Its threads are the other process's: to wait for them would be to wait forever.
            std::mem::forget((runtime, self.batches.clone()));
            return;
        }
        self.calls.end();
        if tokio::runtime::Handle::try_current().is_ok() {
            // Python has collected it on a thread of a runtime, which must not wait for another one.
            runtime.shutdown_background();
            return;
        }
        let end = || {
            // Whoever waits for a batch was told, and gives the lock back.
            drop(runtime.block_on(self.batches.lock()).take());
            runtime.shutdown_timeout(PATIENCE);
        };
        // Python functions may need the GIL to come to their end.
        let mut end = Some(end);
        Python::try_attach(|py| py.detach(|| end.take().map(|end| end())));
        if let Some(end) = end {
            end();
        }
    }
}

/// An open loader: an iterator of batches.
#[pyclass(frozen, weakref, module = "millstream._millstream")]
pub(crate) struct Stream {
    running: Arc<Mutex<Option<Arc<Running>>>>,
    progress: Py<Progress>,
    config: Py<Config>,
    convert: Option<Arc<Py<PyAny>>>,
    calls: Calls,
}

/// A function that is called when it is dropped: also by a runtime that ends and runs nothing any more.
struct Told(Py<PyAny>);

impl Drop for Told {
    fn drop(&mut self) {
        // The loop that waited may be gone, and so may Python.
        Python::try_attach(|py| drop(self.0.call0(py)));
    }
}

/// What ends a stream from elsewhere.
pub(crate) type Handle = std::sync::Weak<Mutex<Option<Arc<Running>>>>;

fn lock(running: &Mutex<Option<Arc<Running>>>) -> MutexGuard<'_, Option<Arc<Running>>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a stream: whoever waits for it is told that it is closed.
pub(crate) fn close(running: &Mutex<Option<Arc<Running>>>) {
    let taken = lock(running).take();
    if let Some(running) = taken.filter(|running| !running.is_forked()) {
        running.calls.close();
    }
}

impl Stream {
    pub(crate) fn new(
        running: Running,
        progress: Py<Progress>,
        config: Py<Config>,
        convert: Option<Py<PyAny>>,
    ) -> Self {
        let calls = running.calls.clone();
        let running = Arc::new(Mutex::new(Some(Arc::new(running))));
        Self { running, progress, config, convert: convert.map(Arc::new), calls }
    }

    pub(crate) fn handle(&self) -> Handle {
        Arc::downgrade(&self.running)
    }

    /// What runs; `None` if it was closed.
    fn running(&self) -> PyResult<Option<Arc<Running>>> {
        let running = lock(&self.running).clone();
        match running {
            Some(running) if running.is_forked() => Err(refused(
                "fork",
                "this loader was opened before fork(), and a forked process has none of its threads; make a new Loader \
                 there, or start the process with the method \"spawn\"",
            )),
            running => Ok(running),
        }
    }

    /// Waits for the next batch and takes it; `None` at the end. Nothing holds the lock afterwards.
    fn next(&self, py: Python<'_>, running: &Running) -> PyResult<Option<millstream::Result<Ready>>> {
        let mut finding = pin!(found(running.batches.clone()));
        // What is there needs no other thread: the GIL stays.
        let there = {
            let _runtime = running.runtime().enter();
            finding.as_mut().now_or_never()
        };
        let there = match there {
            Some(found) => Some(found),
            None => running.wait(py, finding)?,
        };
        let Some(mut found) = there else { return Ok(None) };
        // It is taken after the last look for signals: what one raises loses no batch.
        py.check_signals()?;
        Ok(running.take(&mut found, self.progress.get()))
    }

    /// The exception of an error, with what a Python function raised as its cause.
    fn raise(&self, py: Python<'_>, error: millstream::Error) -> PyErr {
        failed(py, self.config.get(), error, &self.calls)
    }
}

/// The exception of an error, with the place of its key and with what a Python function raised as its cause.
pub(crate) fn failed(py: Python<'_>, config: &Config, error: millstream::Error, calls: &Calls) -> PyErr {
    let error = config.place(error);
    let raised = raise(py, &error);
    if let Some(cause) = calls.cause(&error.chain()) {
        raised.set_cause(py, Some(cause));
    }
    raised
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        // What handles the log may raise: before a batch is taken.
        log::hand_on(py)?;
        let Some(running) = self.running()? else { return Ok(None) };
        let next = self.next(py, &running)?;
        match next {
            Some(Ok(ready)) => Ok(Some(Batch::new(ready, self.convert.clone()))),
            Some(Err(error)) => {
                drop(running);
                self.calls.end();
                self.close(py);
                Err(self.raise(py, error))
            }
            None => {
                drop(running);
                self.calls.end();
                self.close(py);
                Ok(None)
            }
        }
    }

    /// Calls `ready`, on another thread, once the next batch or the end is there, or the stream is closed. The batch stays
    /// there until it is taken.
    fn when_ready(&self, ready: Py<PyAny>) -> PyResult<()> {
        let ready = Told(ready);
        let Some(running) = self.running()? else { return Ok(()) };
        let (batches, calls) = (running.batches.clone(), self.calls.clone());
        running.runtime().spawn(async move {
            // The lock is given back at once if it is closed.
            let _ = select(pin!(found(batches)), pin!(calls.ended())).await;
            // The GIL may have to be waited for.
            let _ = tokio::task::spawn_blocking(move || drop(ready)).await;
        });
        Ok(())
    }

    /// Whether it was closed before its end.
    fn was_closed(&self) -> bool {
        self.calls.were_closed()
    }

    /// Whether it has ended, or was closed.
    fn is_closed(&self) -> bool {
        lock(&self.running).is_none()
    }

    /// Ends its threads and closes its files.
    fn close(&self, py: Python<'_>) {
        py.detach(|| close(&self.running));
        if let Err(error) = log::hand_on(py) {
            error.write_unraisable(py, None);
        }
    }
}
