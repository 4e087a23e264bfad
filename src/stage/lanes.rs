//! Several lanes in, one order of turns out: turn i comes from lane i mod L.
//!
//! Held in memory: one turn per lane. In a round each lane has one turn; while one lane is waited for, the
//! others work on theirs. When some lanes of a finite stream have ended, a rule decides whether another round
//! is delivered, so that every rank decides alike.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use super::turn::{Row, Turn};
use crate::config::Uneven;
use crate::cursor::Cursor;
use crate::error::{Error, Result};

/// Lanes, dealt round-robin.
///
/// When some lanes of a finite stream have ended, [`Uneven`] says what happens to a round. By default, ended
/// lanes give rows of padding until the longest lane has ended.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Lanes<S> {
    /// The lanes that are dealt here, by their numbers.
    lanes: Vec<(usize, Fuse<S>)>,
    /// The current round, the first lane that has a turn in it, and what each lane from there on has given: a
    /// turn, its end or an error.
    round: u64,
    first: usize,
    gathered: Vec<Option<Result<Option<Turn>>>>,
    dealt: VecDeque<Row>,
    uneven: Uneven,
    /// How many rounds there are, if they were counted before.
    rounds: Option<u64>,
    /// How wide a row of padding is.
    width: usize,
    error: Option<Error>,
    ended: bool,
}

impl<S, T> Lanes<S>
where
    S: Stream<Item = Result<T>>,
{
    /// Deals `lanes`, which were opened at `start` and are given with their numbers there: all lanes, or
    /// those of a rank. A lane that ends before others gives rows of padding, `width` ids long.
    pub fn new(lanes: impl IntoIterator<Item = (usize, S)>, width: usize, start: &Cursor) -> Self {
        let count = start.lanes() as u64;
        Self {
            lanes: lanes.into_iter().map(|(lane, turns)| (lane, turns.fuse())).collect(),
            round: start.turn() / count,
            first: (start.turn() % count) as usize,
            gathered: Vec::new(),
            dealt: VecDeque::new(),
            uneven: Uneven::default(),
            rounds: None,
            width,
            error: None,
            ended: false,
        }
    }

    /// Sets what happens when some lanes end before others.
    pub fn with_uneven(mut self, uneven: Uneven) -> Self {
        self.uneven = uneven;
        self
    }

    /// Ends after `rounds`, counted from the stream's start, whatever the lanes here have: other lanes belong
    /// to other ranks.
    pub(crate) fn until(mut self, rounds: u64) -> Self {
        self.rounds = Some(rounds);
        self
    }
}

impl<S> Lanes<S> {
    /// Deals the gathered turns, if their round is delivered. In a round with an error, these are the turns
    /// of the lanes before it.
    fn deal(&mut self) {
        let mut turns = Vec::with_capacity(self.gathered.len());
        for given in self.gathered.drain(..).flatten() {
            match given {
                Ok(turn) => turns.push(turn),
                Err(error) => {
                    (self.error, self.ended) = (Some(error), true);
                    break;
                }
            }
        }
        let is_own = |turn: &Option<Turn>| turn.as_ref().is_some_and(|turn| turn.is_own);
        let is_there = self.error.is_some()
            // Some of its turns were dealt already, or the rounds were counted.
            || self.first > 0
            || self.rounds.is_some()
            || match self.uneven {
                Uneven::Stop => turns.iter().all(is_own),
                Uneven::Pad | Uneven::Wrap => turns.iter().any(is_own),
            };
        if !is_there {
            self.ended = true;
            return;
        }
        let (first, width) = (self.first, self.width);
        let lanes = self.lanes.iter().map(|(lane, _)| *lane).filter(|lane| *lane >= first);
        self.dealt.extend(lanes.zip(turns).map(|(lane, turn)| {
            let turn = turn.unwrap_or_else(|| Turn::padding(width));
            Row { lane, turn }
        }));
        (self.round, self.first) = (self.round + 1, 0);
    }
}

impl<S, T> Stream for Lanes<S>
where
    S: Stream<Item = Result<T>> + Unpin,
    T: Into<Turn>,
{
    type Item = Result<Row>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(row) = this.dealt.pop_front() {
                return Poll::Ready(Some(Ok(row)));
            }
            if this.ended || this.rounds.is_some_and(|rounds| this.round >= rounds) {
                return Poll::Ready(this.error.take().map(Err));
            }
            let first = this.first;
            let lanes = this.lanes.iter_mut().filter(|(lane, _)| *lane >= first);
            let mut is_waiting = false;
            for (nth, (_, lane)) in lanes.enumerate() {
                if nth == this.gathered.len() {
                    this.gathered.push(None);
                }
                let given = &mut this.gathered[nth];
                if given.is_none() {
                    match lane.poll_next_unpin(cx) {
                        Poll::Ready(turn) => *given = Some(turn.map(|turn| turn.map(Into::into)).transpose()),
                        Poll::Pending => is_waiting = true,
                    }
                }
                if matches!(given, Some(Err(_))) {
                    break;
                }
            }
            if is_waiting {
                return Poll::Pending;
            }
            this.deal();
        }
    }
}
