//! Tasks with names, for whoever watches the runtime: tokio-console shows them.
//!
//! A name costs nothing in a build without the feature `console`.

use std::future::Future;

use tokio::task::JoinHandle;

/// Spawns a task.
pub(crate) fn spawn<F>(name: &'static str, task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    #[cfg(all(tokio_unstable, feature = "console"))]
    return tokio::task::Builder::new()
        .name(name)
        .spawn(task)
        .expect("a name of a task is no reason to fail");
    #[cfg(not(all(tokio_unstable, feature = "console")))]
    {
        let _ = name;
        tokio::spawn(task)
    }
}

/// Does `work` on a blocking thread.
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
