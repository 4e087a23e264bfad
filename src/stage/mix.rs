//! The sources of one lane in, the lane's rows out.
//!
//! Held in memory: nothing. Which source a row comes from is a fixed function of the row's number in the
//! global order, so every rank knows it without asking. A source that has ended leaves its rows to the
//! others, at random by their shares. The lane ends with the last source that has a share, now or later.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};

use super::left_behind::LeftBehind;
use super::turn::Turn;
use crate::cursor::{LaneCursor, LaneState, LaneStep, Tracked};
use crate::document::Sequence;
use crate::error::Result;

mod schedule;

pub(crate) use schedule::{Schedule, shares};

/// Opens a source of a lane again after its end, given its number and its last cursor.
type Reopen<S> = Box<dyn FnMut(usize, &LaneCursor) -> S + Send>;

/// One lane's sources, mixed by a [`Schedule`].
#[must_use = "streams do nothing unless polled"]
pub(crate) struct Mix<S> {
    sources: Vec<Channel<S>>,
    schedule: Schedule,
    /// The number of this lane's next row in the global order, and the distance between its rows.
    row: u64,
    stride: u64,
    reopen: Option<Reopen<S>>,
    is_wrapped: bool,
    ended: bool,
}

struct Channel<S> {
    rows: S,
    is_open: bool,
    /// How many epochs of it are the lane's own; all if `None`.
    epochs: Option<u64>,
    /// After how many epochs it began again, if it did. From then on it is read without a bound.
    wrapped_after: Option<u64>,
    /// How many rows came from this source.
    count: u64,
    at: LaneCursor,
    left_behind: LeftBehind,
}

impl<S> Mix<S>
where
    S: Stream<Item = Result<Tracked<Sequence>>> + Unpin,
{
    /// Mixes `sources`, each with the number of its epochs. They were opened at the places of `start`, the state of lane
    /// `lane` of `lanes`. A source that had begun again was opened without a bound: it is read at once if it has more epochs
    /// now than it had then, and otherwise after the lane has begun again.
    ///
    /// # Panics
    /// If there are not as many sources as in `start`.
    pub(crate) fn new(
        sources: impl IntoIterator<Item = (S, Option<u64>)>,
        schedule: Schedule,
        lane: usize,
        lanes: usize,
        start: &LaneState,
    ) -> Self {
        let sources: Vec<_> = sources.into_iter().collect();
        assert_eq!(sources.len(), start.sources.len(), "a lane's sources and their places");
        let places = start.sources.iter();
        let sources = sources.into_iter().zip(places);
        Self {
            sources: sources
                .map(|((rows, epochs), place)| Channel {
                    rows,
                    is_open: place
                        .wrapped_after
                        .is_none_or(|before| has_more(epochs, before.max(place.at.epoch))),
                    epochs,
                    wrapped_after: place.wrapped_after,
                    count: place.rows,
                    at: place.at,
                    left_behind: LeftBehind::default(),
                })
                .collect(),
            schedule,
            row: start.rows * lanes as u64 + lane as u64,
            stride: lanes as u64,
            reopen: None,
            is_wrapped: false,
            ended: false,
        }
    }

    /// Notes in the `left_behind` of each source where the lane's own epochs end.
    pub(crate) fn leaving_behind(mut self, left_behind: impl IntoIterator<Item = LeftBehind>) -> Self {
        let sources = self.sources.iter_mut().zip(left_behind);
        sources.for_each(|(source, left_behind)| source.left_behind = left_behind);
        self
    }

    /// Begins again when all sources have ended. `reopen` opens a source again, given its number and its last
    /// place. Turns from then on do not belong to the lane's own epochs.
    pub(crate) fn with_wrapping(
        mut self,
        reopen: impl FnMut(usize, &LaneCursor) -> S + Send + 'static,
    ) -> Self {
        self.reopen = Some(Box::new(reopen));
        self
    }

    /// The source of the next row; `None` if all have ended.
    fn next_source(&mut self) -> Option<usize> {
        let wanted = self.schedule.source(self.row);
        if self.sources[wanted].is_open {
            return Some(wanted);
        }
        let is_open = |source: usize| self.sources[source].is_open;
        // If no source with a share is left, those that get a share later continue.
        let mut stretches = self.schedule.shares_from(self.row);
        let shares =
            stretches.find(|shares| (0..shares.len()).any(|source| shares[source] > 0 && is_open(source)))?;
        self.schedule.substitutes(self.row, shares).find(|&source| is_open(source))
    }

    /// Notes where the lane's own epochs end.
    fn note_end(&self) {
        let rows = self.row / self.stride;
        self.sources.iter().for_each(|source| source.left_behind.lock().lane_rows = Some(rows));
    }

    /// Begins again, with the sources that gave something. Returns false if that was done before.
    fn wrap(&mut self) -> bool {
        let Some(mut reopen) = self.reopen.take() else { return false };
        for (number, source) in self.sources.iter_mut().enumerate().filter(|(_, source)| source.count > 0) {
            source.rows = reopen(number, &source.at);
            source.is_open = true;
            source.wrapped_after = Some(source.epochs.unwrap_or(source.at.epoch));
        }
        self.is_wrapped = true;
        true
    }
}

/// Whether a source of so many epochs has one with this number.
fn has_more(epochs: Option<u64>, epoch: u64) -> bool {
    epochs.is_none_or(|epochs| epoch < epochs)
}

impl<S> Stream for Mix<S>
where
    S: Stream<Item = Result<Tracked<Sequence>>> + Unpin,
{
    type Item = Result<Turn>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while !this.ended {
            let Some(number) = this.next_source() else {
                if !this.is_wrapped {
                    this.note_end();
                }
                this.ended = !this.wrap();
                continue;
            };
            let source = &mut this.sources[number];
            match ready!(source.rows.poll_next_unpin(cx)) {
                Some(Ok(Tracked { value: sequence, cursor })) => {
                    source.count += 1;
                    source.at = cursor;
                    this.row += this.stride;
                    let wrapped_after = source.wrapped_after;
                    // It was opened without a bound, so its own epochs are ended here.
                    if wrapped_after.is_some() && !this.is_wrapped {
                        source.is_open = has_more(source.epochs, cursor.epoch);
                    }
                    let step = LaneStep::Row { source: number, at: cursor, wrapped_after };
                    return Poll::Ready(Some(Ok(Turn::new(
                        sequence.of_source(Some(number as u32)),
                        step,
                        !this.is_wrapped,
                    ))));
                }
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => source.is_open = false,
            }
        }
        Poll::Ready(None)
    }
}
