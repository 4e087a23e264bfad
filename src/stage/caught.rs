//! A panic of the stages before, as an error in its place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;

use crate::error::{Error, Result, panic_message};

/// Polls for the next item. After a panic, do not poll again.
pub(super) fn poll_caught<S, T>(items: Pin<&mut S>, cx: &mut Context<'_>) -> Poll<Option<Result<T>>>
where
    S: Stream<Item = Result<T>> + ?Sized,
{
    catch_unwind(AssertUnwindSafe(|| items.poll_next(cx))).unwrap_or_else(|payload| {
        let message = panic_message(&*payload);
        Poll::Ready(Some(Err(Error::Panic { stage: "pipeline", message })))
    })
}
