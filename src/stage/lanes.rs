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
    gathered: VecDeque<Option<Result<Option<Turn>>>>,
    /// If the gathered turns are being dealt: the place of the first of their lanes among `lanes`.
    dealing: Option<usize>,
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
            gathered: VecDeque::new(),
            dealing: None,
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
    /// Begins to deal the gathered turns, if their round is delivered. In a round with an error, these are the turns
    /// of the lanes before it.
    fn deal(&mut self) {
        let is_error = |given: &Option<Result<_>>| matches!(given, Some(Err(_)));
        if let Some(nth) = self.gathered.iter().position(is_error) {
            let error = self.gathered.drain(nth..).next().flatten();
            (self.error, self.ended) = (error.and_then(Result::err), true);
        }
        let is_own = |given: &Option<Result<Option<Turn>>>| match given {
            Some(Ok(Some(turn))) => turn.is_own,
            _ => false,
        };
        let is_there = self.error.is_some()
            // Some of its turns were dealt already, or the rounds were counted.
            || self.first > 0
            || self.rounds.is_some()
            || match self.uneven {
                Uneven::Stop => self.gathered.iter().all(is_own),
                Uneven::Pad | Uneven::Wrap => self.gathered.iter().any(is_own),
            };
        if !is_there {
            self.ended = true;
            return;
        }
        self.dealing = self.lanes.iter().position(|(lane, _)| *lane >= self.first);
        (self.round, self.first) = (self.round + 1, 0);
    }

    /// The next turn of the round that is being dealt.
    fn next_dealt(&mut self) -> Option<Row> {
        let nth = self.dealing?;
        let Some(given) = self.gathered.pop_front() else {
            self.dealing = None;
            return None;
        };
        self.dealing = Some(nth + 1);
        let turn = given.and_then(Result::ok).flatten();
        Some(Row { lane: self.lanes[nth].0, turn: turn.unwrap_or_else(|| Turn::padding(self.width)) })
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
            if let Some(row) = this.next_dealt() {
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
                    this.gathered.push_back(None);
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
