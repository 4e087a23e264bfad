//! Several lanes in, one order of rows out: row i comes from lane i mod L.
//!
//! Held in memory: nothing. Only the lane whose turn it is is polled: what the others started before,
//! their reads and their jobs, goes on meanwhile.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use crate::cursor::{LaneCursor, Tracked};
use crate::document::Sequence;
use crate::error::Result;

/// A sequence and the lane that it came from.
#[derive(Clone, Debug)]
pub struct Row {
    /// The lane.
    pub lane: usize,
    /// The row to be.
    pub sequence: Sequence,
    /// Where to resume that lane for what follows.
    pub cursor: LaneCursor,
}

impl From<Tracked<Sequence>> for Row {
    /// A row of the only lane.
    fn from(Tracked { value: sequence, cursor }: Tracked<Sequence>) -> Self {
        Self { lane: 0, sequence, cursor }
    }
}

/// Lanes, dealt round-robin. A lane that has ended is passed over; the stream ends with the last.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Lanes<S> {
    lanes: Vec<Fuse<S>>,
    turn: usize,
    ended: bool,
}

impl<S> Lanes<S>
where
    S: Stream<Item = Result<Tracked<Sequence>>>,
{
    /// Deals `lanes`, beginning with lane `turn`: [`Cursor::next_lane`](crate::Cursor::next_lane).
    ///
    /// # Panics
    /// If there are not so many lanes.
    pub fn new(lanes: impl IntoIterator<Item = S>, turn: usize) -> Self {
        let lanes: Vec<_> = lanes.into_iter().map(StreamExt::fuse).collect();
        assert!(turn < lanes.len(), "lane {turn} of {} cannot be next", lanes.len());
        Self { lanes, turn, ended: false }
    }
}

impl<S> Stream for Lanes<S>
where
    S: Stream<Item = Result<Tracked<Sequence>>> + Unpin,
{
    type Item = Result<Row>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        for _ in 0..this.lanes.len() {
            let lane = this.turn;
            let next = ready!(this.lanes[lane].poll_next_unpin(cx));
            this.turn = (lane + 1) % this.lanes.len();
            match next {
                Some(Ok(Tracked { value: sequence, cursor })) => {
                    return Poll::Ready(Some(Ok(Row { lane, sequence, cursor })));
                }
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {}
            }
        }
        this.ended = true;
        Poll::Ready(None)
    }
}
