//! Work that ends when nobody wants its result any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::tasks;

/// A task that is aborted when it is dropped.
#[derive(Debug)]
pub(super) struct Task<T>(JoinHandle<Result<T>>);

impl<T: Send + 'static> Task<T> {
    pub(super) fn spawn(on: &Handle, work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        let _runtime = on.enter();
        Self(tasks::spawn("store", work))
    }

    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.0.poll_unpin(cx).map(|joined| joined.unwrap_or_else(|lost| Err(Error::lost("store", lost))))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
