//! One lane's rows in, groups of rows of about one length out: the batches of a token budget.
//!
//! Held in memory: one window of rows. The next window is read when this one has been handed out, so that no
//! lane holds two. Within a window, each row goes to the narrowest bucket that holds it. Rows that do not
//! fill a group move to the next wider bucket, so only the window's last group may be small. The groups leave
//! in an order drawn by a permutation. The cursor is the lane's state before the window, and how many of the
//! window's groups were handed out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;

use super::input::Input;
use super::turn::{Rows, Turn};
use super::window::{self, Windowed};
use crate::config::PipelineConfig;
use crate::cursor::{LaneState, LaneStep};
use crate::document::Sequence;
use crate::error::Result;
use crate::order::permutation;

/// The length of the first window, in rows.
const FIRST_WINDOW: u64 = 64;

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
    rows: Input<S, Turn>,
    grouping: BucketRule,
    windows: Windowed<Sequence, Vec<Sequence>, Arc<LaneState>>,
    /// The lane's state before the filling window, and after the last row that was read. Its skip is what the cursor
    /// says of the first window.
    anchor: Arc<LaneState>,
    state: LaneState,
    /// Whether the window belongs to the lane's own epochs. The first row that differs begins a window.
    is_own: bool,
}

impl<S> Buckets<S>
where
    S: Stream<Item = Result<Turn>>,
{
    /// Groups `rows`, which were opened at `start`.
    pub(crate) fn new(rows: S, grouping: BucketRule, start: &LaneState) -> Self {
        let anchor = Arc::new(start.clone());
        Self {
            rows: Input::new(rows),
            grouping,
            windows: Windowed::new("groups of rows", anchor.clone()),
            anchor,
            state: start.clone(),
            is_own: true,
        }
    }
}

impl<S> Buckets<S> {
    /// How many rows the filling window lacks.
    fn lacks(&self) -> usize {
        let most = self.grouping.window as u64;
        self.windows.lacks(window::length(self.anchor.rows, FIRST_WINDOW, most))
    }

    fn push(&mut self, turn: Turn) {
        if turn.is_own != self.is_own && !self.windows.filling.is_empty() {
            self.rows.put_back(turn);
            self.windows.cut();
            return;
        }
        self.is_own = turn.is_own;
        self.state.advance(turn.step);
        match turn.rows {
            Rows::One(row) => self.windows.filling.push(row),
            Rows::Many(rows) => self.windows.filling.extend(rows),
        }
    }

    /// Groups the filled window.
    fn turn(&mut self) -> Result<()> {
        let rows = self.windows.take().into_iter().filter(|row| !row.is_empty());
        let groups: Vec<_> = self.grouping.groups(rows).into_iter().map(Some).collect();
        let [seed, lane] = self.grouping.key;
        let order = permutation("groups", &[seed, lane, self.anchor.rows], groups.len());
        let delivered = std::mem::take(&mut self.state.skip);
        let end = Arc::new(self.state.clone());
        let anchor = std::mem::replace(&mut self.anchor, end.clone());
        self.windows.drain(groups, order, delivered, [anchor, end])?;
        Ok(())
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
        if this.rows.is_over() {
            return Poll::Ready(None);
        }
        loop {
            if let Some((group, anchor, skip)) = this.windows.next() {
                let step = LaneStep::Window { anchor, skip };
                let turn = Turn { rows: Rows::Many(group), step, is_own: this.is_own };
                return Poll::Ready(Some(Ok(turn)));
            }
            while this.lacks() > 0 {
                match ready!(this.rows.poll_next(cx)) {
                    Some(turn) => this.push(turn),
                    None => break,
                }
            }
            if this.rows.has_failed() || this.windows.filling.is_empty() {
                return this.rows.end(None);
            }
            if let Err(error) = this.turn() {
                return this.rows.end(Some(error));
            }
        }
    }
}
