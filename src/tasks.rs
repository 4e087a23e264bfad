//! Named tasks, which tokio-console shows.
//!
//! A name costs nothing in a build without the feature `console`.

use std::future::Future;

use tokio::task::JoinHandle;

use crate::error::{Error, Result};

/// Spawns a named task.
pub(crate) fn spawn<F>(name: &'static str, task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    #[cfg(all(tokio_unstable, feature = "console"))]
    return tokio::task::Builder::new().name(name).spawn(task).expect("naming a task cannot fail");
    #[cfg(not(all(tokio_unstable, feature = "console")))]
    {
        let _ = name;
        tokio::spawn(task)
    }
}

/// Runs `work` on a blocking thread.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    #[cfg(all(tokio_unstable, feature = "console"))]
    return tokio::task::Builder::new().name(name).spawn_blocking(work).expect("a thread to work on");
    #[cfg(not(all(tokio_unstable, feature = "console")))]
    {
        let _ = name;
        tokio::task::spawn_blocking(work)
    }
}

/// Runs `job` on a blocking thread, for `stage`, and waits for it.
pub(crate) async fn blocking<T: Send + 'static>(
    stage: &'static str,
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(stage, job).await.map_err(|lost| Error::lost(stage, lost))?
}
