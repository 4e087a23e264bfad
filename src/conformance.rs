//! Checks that a stage, source or loader keeps the laws of order and resume.
//!
//! If [`check`] passes, a custom stage is as exact as the stages of this crate. Put [`Stutter`] in front of it to check
//! also that it keeps its items while it waits.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};

use crate::error::Result;

/// A law that a stream breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Violation {
    /// Describes the first difference.
    problem: String,
}

impl From<String> for Violation {
    fn from(problem: String) -> Self {
        Self { problem }
    }
}

/// Checks a stream that can be opened at any cursor.
///
/// `open` opens the stream at a cursor. Each item is a value and the cursor after it. The check reads at most
/// `limit` items from `start` and then verifies that
///
/// - the stream opened again gives the same items and cursors (the law of order);
/// - the stream opened at the cursor of each item gives exactly the items that came after it, with the
///   same cursors (the law of resume);
/// - a stream that has ended stays ended.
///
/// It opens the stream once for each item, so it is for hundreds of items, not for millions.
///
/// # Errors
/// A [`Violation`] that describes the first difference.
///
/// ```
/// # use futures::{TryStreamExt, stream};
/// # use millstream::{LaneCursor, Result, Tracked};
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
/// let open = async |start: &LaneCursor| {
///     Ok(numbers(start).shuffle(20, 42, start).map_ok(|item| (item.value, item.cursor)))
/// };
/// conformance::check(&LaneCursor::default(), open, 200).await.unwrap();
/// # }
/// ```
pub async fn check<V, C, S, F>(start: &C, mut open: F, limit: usize) -> Result<(), Violation>
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

async fn read<V, C, S, F>(open: &mut F, start: &C, limit: usize) -> Result<Vec<(V, C)>, Violation>
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
            Some(Err(error)) => {
                return Err(format!("opened at {start:?}, item {}: {error}", items.len()).into());
            }
            None if stream.next().await.is_some() => {
                let items = items.len();
                return Err(
                    format!("opened at {start:?}, it goes on after it ended with item {items}").into()
                );
            }
            None => break,
        }
    }
    Ok(items)
}

fn compare<V, C>(how: &str, items: &[(V, C)], expected: &[(V, C)]) -> Result<(), Violation>
where
    V: PartialEq + Debug,
    C: PartialEq + Debug,
{
    match items.iter().zip(expected).position(|(item, expected)| item != expected) {
        Some(index) => Err(format!(
            "{how}, item {index} of what follows is {:?}; it should be {:?}",
            items[index], expected[index]
        )
        .into()),
        None if items.len() != expected.len() => {
            Err(format!("{how}, {} items follow; it should be {}", items.len(), expected.len()).into())
        }
        None => Ok(()),
    }
}

/// A stream that is pending once before every item, as a slow one would be.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Stutter<S> {
    stream: S,
    waited: bool,
}

impl<S> Stutter<S> {
    /// Returns the items of `stream`, each one poll later.
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
