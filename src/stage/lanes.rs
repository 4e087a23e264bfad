//! Several lanes in, one order of turns out: turn i comes from lane i mod L.
//!
//! Held in memory: one turn per lane. In a round each lane has one turn; while one lane is waited for, the
//! others work on theirs. When some lanes of a finite stream have ended, a rule decides whether another round
//! is delivered, so that every rank decides alike. Where the lanes of other ranks decide, their rounds are counted.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::stream::Fuse;
use futures::{FutureExt, Stream, StreamExt};

use super::turn::{DealtTurn, Row};
use crate::config::Uneven;
use crate::cursor::Cursor;
use crate::error::{Error, Result};

/// How many rounds a finite stream has over the lanes of all ranks, counted from its start.
pub(crate) enum Rounds {
    Known(u64),
    /// Waited for only where it decides.
    Counted(BoxFuture<'static, Result<u64>>),
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(rounds) => f.debug_tuple("Known").field(rounds).finish(),
            Self::Counted(_) => f.debug_tuple("Counted").finish_non_exhaustive(),
        }
    }
}

/// Lanes, dealt round-robin.
///
/// When some lanes of a finite stream have ended, [`Uneven`] says what happens to a round. By default, ended
/// lanes give rows of padding until the longest lane has ended.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Lanes<S> {
    /// The lanes that are dealt here, by their numbers.
    lanes: Vec<(usize, Fuse<S>)>,
    /// The current round, the first lane that has a turn in it, and the result of each lane from there on: a turn, its
    /// end or an error.
    round: u64,
    first: usize,
    gathered: VecDeque<Option<Result<Option<DealtTurn>>>>,
    /// If the gathered turns are being dealt: the place of the first of their lanes among `lanes`.
    dealing: Option<usize>,
    uneven: Uneven,
    /// How many rounds there are, if lanes of other ranks matter.
    rounds: Option<Rounds>,
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

    /// Ends after `rounds`, whatever the lanes here have: the other lanes belong to other ranks.
    pub(crate) fn until(mut self, rounds: Rounds) -> Self {
        self.rounds = Some(rounds);
        self
    }
}

fn is_error(given: &Option<Result<Option<DealtTurn>>>) -> bool {
    matches!(given, Some(Err(_)))
}

impl<S> Lanes<S> {
    /// Whether the gathered turns show that their round is delivered; `None` if other ranks' lanes decide.
    fn is_there(&self) -> Option<bool> {
        if matches!(self.rounds, Some(Rounds::Known(rounds)) if self.round >= rounds) {
            return Some(false);
        }
        let is_own = |given: &Option<Result<Option<DealtTurn>>>| match given {
            Some(Ok(Some(turn))) => turn.is_own,
            _ => false,
        };
        // In a round with an error, the turns before it are delivered. If the round's first lanes have had their turns,
        // some already were.
        if self.first > 0 || self.gathered.iter().any(is_error) {
            return Some(true);
        }
        match self.uneven {
            Uneven::Pad | Uneven::Wrap if self.gathered.iter().any(is_own) => Some(true),
            Uneven::Stop if !self.gathered.iter().all(is_own) => Some(false),
            _ => match self.rounds {
                Some(Rounds::Known(_)) => Some(true),
                Some(Rounds::Counted(_)) => None,
                None => Some(self.uneven == Uneven::Stop),
            },
        }
    }

    /// Begins to deal the gathered turns. In a round with an error, these are the turns of the lanes before it.
    fn deal(&mut self) {
        if let Some(nth) = self.gathered.iter().position(is_error) {
            let error = self.gathered.drain(nth..).next().flatten();
            self.fail(error.and_then(Result::err));
        }
        self.dealing = self.lanes.iter().position(|(lane, _)| *lane >= self.first);
        (self.round, self.first) = (self.round + 1, 0);
    }

    /// Ends after what is being dealt.
    fn fail(&mut self, error: Option<Error>) {
        (self.error, self.ended) = (error, true);
    }

    fn poll_rounds(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(Rounds::Counted(count)) = &mut self.rounds {
            match ready!(count.poll_unpin(cx)) {
                Ok(rounds) => self.rounds = Some(Rounds::Known(rounds)),
                Err(error) => self.fail(Some(error)),
            }
        }
        Poll::Ready(())
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
        Some(Row { lane: self.lanes[nth].0, turn: turn.unwrap_or_else(|| DealtTurn::padding(self.width)) })
    }
}

impl<S, T> Stream for Lanes<S>
where
    S: Stream<Item = Result<T>> + Unpin,
    T: Into<DealtTurn>,
{
    type Item = Result<Row>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(row) = this.next_dealt() {
                return Poll::Ready(Some(Ok(row)));
            }
            if this.ended {
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
                if is_error(given) {
                    break;
                }
            }
            if is_waiting {
                return Poll::Pending;
            }
            match this.is_there() {
                Some(true) => this.deal(),
                Some(false) => this.ended = true,
                None => ready!(this.poll_rounds(cx)),
            }
        }
    }
}
