//! The laws of order and resume, as a check that any stage, source or loader can be put to.
//!
//! A stage of your own is as exact as those of this crate if [`check`] says so. Put [`Stutter`] in
//! front of it, and it is also seen to keep what it holds while it has to wait.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};

use crate::error::Result;

/// Checks a stream that can be opened at any cursor.
///
/// `open` opens it; its items are values with the cursor after each. The check reads at most `limit`
/// items from `start` and then holds that
///
/// - the stream opened again gives the same items and cursors (the law of order);
/// - the stream opened at the cursor of each item gives exactly the items that came after it, with the
///   same cursors (the law of resume);
/// - a stream that has ended stays ended.
///
/// It opens the stream once for each item, so it is for hundreds of items, not for millions.
///
/// # Errors
/// What differs first, in words.
///
/// ```
/// # use futures::{TryStreamExt, stream};
/// # use millstream::{LaneCursor, Result, Tracked};
/// # use std::num::NonZeroUsize;
/// use millstream::conformance;
/// use millstream::stage::StageExt;
///
/// # #[tokio::main] async fn main() {
/// let numbers = |start: &LaneCursor| {
///     let from = start.documents;
///     stream::iter((from..100).map(move |n| {
///         Ok(Tracked::new(n, LaneCursor::after(n + 1)))
///     }))
/// };
/// let window = NonZeroUsize::new(20).unwrap();
/// let open = async |start: &LaneCursor| {
///     Ok(numbers(start).shuffle(window, 42, start).map_ok(|item| (item.value, item.cursor)))
/// };
/// conformance::check(&LaneCursor::default(), open, 200).await.unwrap();
/// # }
/// ```
pub async fn check<V, C, S, F>(start: &C, mut open: F, limit: usize) -> Result<(), String>
where
    V: PartialEq + Debug,
    C: PartialEq + Debug,
    S: Stream<Item = Result<(V, C)>> + Unpin,
    F: AsyncFnMut(&C) -> Result<S>,
{
    let all = read(&mut open, start, limit).await?;
    compare("opened again", &read(&mut open, start, limit).await?, &all)?;
    for (index, (_, cursor)) in all.iter().enumerate() {
        let rest = read(&mut open, cursor, limit - index - 1).await?;
        compare(&format!("resumed after item {index}, at {cursor:?}"), &rest, &all[index + 1..])?;
    }
    Ok(())
}

async fn read<V, C, S, F>(open: &mut F, start: &C, limit: usize) -> Result<Vec<(V, C)>, String>
where
    C: Debug,
    S: Stream<Item = Result<(V, C)>> + Unpin,
    F: AsyncFnMut(&C) -> Result<S>,
{
    let mut stream = open(start).await.map_err(|error| format!("opened at {start:?}: {error}"))?;
    let mut items = Vec::new();
    while items.len() < limit {
        match stream.next().await {
            Some(Ok(item)) => items.push(item),
            Some(Err(error)) => return Err(format!("opened at {start:?}, item {}: {error}", items.len())),
            None if stream.next().await.is_some() => {
                return Err(format!(
                    "opened at {start:?}, it goes on after it ended with item {}",
                    items.len()
                ));
            }
            None => break,
        }
    }
    Ok(items)
}

fn compare<V, C>(how: &str, items: &[(V, C)], expected: &[(V, C)]) -> Result<(), String>
where
    V: PartialEq + Debug,
    C: PartialEq + Debug,
{
    match items.iter().zip(expected).position(|(item, expected)| item != expected) {
        Some(index) => Err(format!(
            "{how}, item {index} of what follows is {:?}; it should be {:?}",
            items[index], expected[index]
        )),
        None if items.len() != expected.len() => {
            Err(format!("{how}, {} items follow; it should be {}", items.len(), expected.len()))
        }
        None => Ok(()),
    }
}

/// A stream that says "not yet" before every item, as a slow one would.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Stutter<S> {
    stream: S,
    waited: bool,
}

impl<S> Stutter<S> {
    /// The same items as `stream`, one poll later each.
    pub fn new(stream: S) -> Self {
        Self { stream, waited: false }
    }
}

impl<S: Stream + Unpin> Stream for Stutter<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.waited = !self.waited;
        if self.waited {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.stream.poll_next_unpin(cx)
    }
}
