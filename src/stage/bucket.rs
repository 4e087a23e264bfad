//! One lane's rows in, groups of rows of about one length out: the batches of a token budget.
//!
//! Held in memory: one window of rows. The next window is read when this one has been handed out, so that no
//! lane holds two. Within a window, each row goes to the narrowest bucket that holds it. Rows that do not
//! fill a group move to the next wider bucket, so only the window's last group may be small. The groups leave
//! in an order drawn by a permutation. The cursor is the lane's state before the window, and how many of the
//! window's groups were handed out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use super::turn::{Rows, Turn};
use crate::config::PipelineConfig;
use crate::cursor::{LaneState, LaneStep};
use crate::document::Sequence;
use crate::error::{Error, Result};
use crate::order::permutation;

/// The length of the first window, in rows.
const FIRST_WINDOW: u64 = 64;

/// How rows are grouped.
#[derive(Clone, Debug)]
pub(crate) struct BucketRule {
    /// The lengths that rows are padded to, ascending; the last holds the longest row.
    lengths: Vec<usize>,
    /// How many ids wider than its length a row is.
    ahead: usize,
    /// The most tokens that a group has, padding included.
    tokens: usize,
    /// How many rows are grouped together.
    window: usize,
    /// The key of the groups' order: the seed and the lane.
    key: [u64; 2],
}

impl BucketRule {
    /// Makes groups of at most `tokens` tokens; `key`, the seed and the lane, determines their order.
    pub(crate) fn new(pipeline: &PipelineConfig, tokens: usize, key: [u64; 2]) -> Self {
        Self {
            lengths: pipeline.bucket_lengths(),
            ahead: pipeline.width() - pipeline.seq_len,
            tokens,
            window: pipeline.bucket_window,
            key,
        }
    }
}

/// The stage that makes groups.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub(crate) struct Buckets<S> {
    rows: Fuse<S>,
    grouping: BucketRule,
    /// The lane's state before the filling window, and after the last row that was read.
    anchor: Arc<LaneState>,
    state: LaneState,
    filling: Vec<Sequence>,
    /// Whether the filling window belongs to the lane's own epochs. The first row that differs begins a
    /// window.
    is_own: bool,
    stash: Option<Turn>,
    draining: VecDeque<Turn>,
    replay: u64,
    error: Option<Error>,
    closed: bool,
}

impl<S> Buckets<S>
where
    S: Stream<Item = Result<Turn>>,
{
    /// Groups `rows`, which were opened at `start`.
    pub(crate) fn new(rows: S, grouping: BucketRule, start: &LaneState) -> Self {
        let state = LaneState { skip: 0, ..start.clone() };
        Self {
            rows: rows.fuse(),
            grouping,
            anchor: Arc::new(state.clone()),
            state,
            filling: Vec::new(),
            is_own: true,
            stash: None,
            draining: VecDeque::new(),
            replay: start.skip,
            error: None,
            closed: false,
        }
    }
}

impl<S> Buckets<S> {
    /// How many rows the filling window will have: as many as all windows before it, within bounds.
    fn size(&self) -> u64 {
        self.anchor.rows.max(FIRST_WINDOW).min(self.grouping.window as u64)
    }

    fn is_full(&self) -> bool {
        self.closed || self.stash.is_some() || self.state.rows - self.anchor.rows >= self.size()
    }

    fn push(&mut self, turn: Turn) {
        if turn.is_own != self.is_own && self.state.rows > self.anchor.rows {
            self.stash = Some(turn);
            return;
        }
        self.is_own = turn.is_own;
        self.state.advance(turn.step);
        match turn.rows {
            Rows::One(row) => self.filling.push(row),
            Rows::Many(rows) => self.filling.extend(rows),
        }
    }

    /// Groups the filled window.
    fn turn(&mut self) {
        let rows = std::mem::take(&mut self.filling).into_iter().filter(|row| !row.is_empty());
        let mut groups: Vec<Option<Vec<Sequence>>> =
            self.grouping.groups(rows).into_iter().map(Some).collect();
        if self.replay > 0 && self.replay >= groups.len() as u64 {
            let problem = format!("{} groups of a window of {} were handed out", self.replay, groups.len());
            self.error = Some(Error::resume(problem));
            return;
        }
        let [seed, lane] = self.grouping.key;
        let order = permutation("groups", &[seed, lane, self.anchor.rows], groups.len());
        let end = Arc::new(self.state.clone());
        for (index, group) in order.iter().enumerate() {
            let delivered = index as u64 + 1;
            let step = if index + 1 == order.len() {
                LaneStep::Window { anchor: end.clone(), skip: 0 }
            } else {
                LaneStep::Window { anchor: self.anchor.clone(), skip: delivered }
            };
            let rows = Rows::Many(groups[*group as usize].take().unwrap_or_default());
            if delivered > self.replay {
                self.draining.push_back(Turn { rows, step, is_own: self.is_own });
            }
        }
        self.replay = 0;
        self.anchor = end;
        if let Some(turn) = self.stash.take() {
            self.push(turn);
        }
    }
}

impl BucketRule {
    /// Puts the rows of a window into groups of one width each.
    fn groups(&self, rows: impl Iterator<Item = Sequence>) -> Vec<Vec<Sequence>> {
        let mut buckets: Vec<Vec<Sequence>> = vec![Vec::new(); self.lengths.len()];
        for row in rows {
            let bucket = self.lengths.partition_point(|length| *length < inputs(&row));
            buckets[bucket.min(self.lengths.len() - 1)].push(row);
        }
        let mut groups = Vec::new();
        let mut left: Vec<Sequence> = Vec::new();
        for (bucket, &length) in buckets.into_iter().zip(self.lengths.iter()) {
            let most = (self.tokens / length).max(1);
            left.extend(bucket);
            let mut rows = std::mem::take(&mut left).into_iter().peekable();
            while rows.peek().is_some() {
                let group: Vec<Sequence> = rows.by_ref().take(most).collect();
                if group.len() < most {
                    left = group;
                } else {
                    groups.push(self.padded(group, length));
                }
            }
        }
        if let Some(&longest) = self.lengths.last().filter(|_| !left.is_empty()) {
            let needs = left.iter().map(inputs).max().unwrap_or(longest);
            let length = self.lengths.iter().copied().find(|length| *length >= needs).unwrap_or(longest);
            groups.push(self.padded(left, length));
        }
        groups
    }

    fn padded(&self, rows: Vec<Sequence>, length: usize) -> Vec<Sequence> {
        rows.into_iter().map(|row| row.with_width(length + self.ahead)).collect()
    }
}

/// How many of a row's ids have their next id in the row. For a full row that is `ahead - 1` more than its
/// inputs, but its bucket is the last anyway.
fn inputs(row: &Sequence) -> usize {
    row.len().saturating_sub(1)
}

impl<S> Stream for Buckets<S>
where
    S: Stream<Item = Result<Turn>> + Unpin,
{
    type Item = Result<Turn>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(group) = this.draining.pop_front() {
                return Poll::Ready(Some(Ok(group)));
            }
            while this.error.is_none() && !this.is_full() {
                match ready!(this.rows.poll_next_unpin(cx)) {
                    Some(Ok(turn)) => this.push(turn),
                    Some(Err(error)) => this.error = Some(error),
                    None => this.closed = true,
                }
            }
            if this.error.is_some() {
                this.closed = true;
                this.filling.clear();
                return Poll::Ready(this.error.take().map(Err));
            }
            if this.closed && this.filling.is_empty() && this.stash.is_none() {
                return Poll::Ready(None);
            }
            this.turn();
        }
    }
}
