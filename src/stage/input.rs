//! A stage's input: the items of a stream up to its end or its first error. A panic of the stages before is an error in
//! its place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};

use crate::error::{Error, Result, panic_message};

/// A stream that remembers how it ended. An error waits until the stage has delivered everything before it.
#[derive(Debug)]
pub(super) struct Input<S, T> {
    stream: S,
    /// An item that was put back.
    back: Option<T>,
    state: State,
}

#[derive(Debug)]
enum State {
    Open,
    Ended,
    Failed(Error),
    /// The stage has ended too.
    Over,
}

impl<S, T> Input<S, T> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, back: None, state: State::Open }
    }

    /// Puts back the item that came last: it comes again.
    pub(super) fn put_back(&mut self, item: T) {
        self.back = Some(item);
    }

    /// Whether the stream has neither ended nor failed.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether an error of the stream waits.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Ends the stage: with its `own` error or, if it has none, with the stream's.
    pub(super) fn end<I>(&mut self, own: Option<Error>) -> Poll<Option<Result<I>>> {
        let of_stream = self.close();
        Poll::Ready(own.or(of_stream).map(Err))
    }

    /// Ends the input, and returns the stream's error.
    pub(super) fn close(&mut self) -> Option<Error> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Failed(error) => Some(error),
            State::Open | State::Ended | State::Over => None,
        }
    }
}

impl<S, T> Input<S, T>
where
    S: Stream<Item = Result<T>> + Unpin,
{
    /// The next item; `None` once the stream has ended or failed.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if self.back.is_none() && self.is_open() {
            match ready!(self.stream.poll_next_unpin(cx)) {
                Some(Ok(item)) => return Poll::Ready(Some(item)),
                Some(Err(error)) => self.state = State::Failed(error),
                None => self.state = State::Ended,
            }
        }
        Poll::Ready(self.back.take())
    }
}

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
