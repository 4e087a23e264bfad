//! Rows in, batches out.
//!
//! Held in memory: one batch. The ids come from the lanes' blocks, or are copied here from their documents. The batch's
//! cursor is completed here with the state of each lane, the digest of its rows, and the run's events.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};
use tracing::Span;
use tracing::field::Empty;

use super::turn::{DealtRows, Row};
use crate::batch::{Batch, BatchBuilder};
use crate::config::Last;
use crate::cursor::{Cursor, Digest, Event, Omitted, RowAccount};
use crate::error::Result;
use crate::meter::{Meter, Sample, stage_span};
use crate::world::World;

#[derive(Clone, Copy, Debug)]
enum Cut {
    /// After this many rows, one per turn.
    Rows(usize),
    /// After each turn: a turn is a batch.
    Turns,
}

/// The stage of [`StageExt::batch`](super::StageExt::batch).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Batches<S> {
    rows: Fuse<S>,
    cut: Cut,
    last: Last,
    world: World,
    builder: BatchBuilder,
    turns: usize,
    cursor: Cursor,
    excluded: Vec<Range<u64>>,
    /// The cursor after the last batch, if that is excluded, and who is told it at the end.
    after_excluded: Option<Arc<Cursor>>,
    excluded_end: Arc<OnceLock<Arc<Cursor>>>,
    events: VecDeque<(u64, Event)>,
    meter: Arc<Meter>,
    sample: Sample,
    /// The current batch's span.
    span: Span,
    ended: bool,
}

impl<S, T> Batches<S>
where
    S: Stream<Item = Result<T>>,
{
    pub(super) fn new(rows: S, batch_size: usize, pad: u32, start: &Cursor) -> Self {
        assert!(batch_size > 0, "a batch of no rows");
        Self {
            rows: rows.fuse(),
            cut: Cut::Rows(batch_size),
            last: Last::default(),
            world: World::ALONE,
            builder: BatchBuilder::new(batch_size, pad),
            turns: 0,
            cursor: start.clone(),
            excluded: Vec::new(),
            after_excluded: None,
            excluded_end: Arc::default(),
            events: VecDeque::new(),
            meter: Meter::new("batch"),
            sample: Sample::seventh(),
            span: Span::none(),
            ended: false,
        }
    }

    /// Counts in `meter`.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = meter;
        self
    }

    /// Sets what happens to the last rows of a finite stream if they do not fill a batch.
    pub fn with_last(mut self, last: Last) -> Self {
        self.last = last;
        self
    }

    /// Sets how many ids wider than `seq_len` rows are; 1 unless this is called.
    ///
    /// # Panics
    /// If `ahead` is 0.
    pub fn with_ahead(mut self, ahead: usize) -> Self {
        self.builder = self.builder.with_ahead(ahead);
        self
    }

    /// Makes the batches of one rank; the other ranks' batches have as many turns.
    pub(crate) fn of_rank(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// Makes a batch of each turn; a turn's rows have one width.
    pub(crate) fn of_turns(mut self) -> Self {
        (self.cut, self.sample) = (Cut::Turns, Sample::all());
        self
    }

    /// Leaves out batches by their numbers: they are read and not delivered. If the stream ends with some, its last cursor
    /// is put into `end`.
    pub(crate) fn without(self, batches: Vec<Range<u64>>, end: Arc<OnceLock<Arc<Cursor>>>) -> Self {
        Self { excluded: batches, excluded_end: end, ..self }
    }

    /// Notes each of `events` in the cursors of its batch and of all later ones.
    pub(crate) fn noting(mut self, events: impl IntoIterator<Item = (u64, Event)>) -> Self {
        let mut events: Vec<_> = events.into_iter().collect();
        events.sort_by_key(|(batch, _)| *batch);
        self.events = events.into();
        self
    }
}

impl<S> Batches<S> {
    /// The current batch's number.
    fn number(&self) -> u64 {
        match self.cut {
            Cut::Rows(_) => self.cursor.batch(),
            // Where a turn is a batch, each rank's batch has its own number.
            Cut::Turns => self.cursor.batch() + self.world.rank as u64,
        }
    }

    fn is_excluded(&self) -> bool {
        let number = self.number();
        self.excluded.iter().any(|range| range.contains(&number))
    }

    fn is_whole(&self) -> bool {
        match self.cut {
            Cut::Rows(rows) => self.turns == rows,
            Cut::Turns => self.turns == 1,
        }
    }

    fn push(&mut self, Row { lane, turn }: Row) {
        if self.turns == 0 {
            self.span = stage_span!("batch", "batch", rows = Empty, tokens = Empty);
        }
        self.cursor.advance(lane, turn.step);
        self.turns += 1;
        let is_excluded = self.is_excluded();
        let Self { builder, cursor, cut, .. } = self;
        let rows = turn.rows;
        if let Cut::Turns = cut {
            builder.expect(rows.len());
        }
        let mut add = |row: (Digest, RowAccount), left_out: Option<&Omitted>, builder: &BatchBuilder| {
            match is_excluded {
                true => cursor.exclude_row(lane, row.1, left_out),
                false => cursor.add_row(lane, row, left_out),
            }
            let values = |column: &str| builder.values_of_last_row(column, row.1);
            cursor.add_row_values(lane, row.1, is_excluded, values);
        };
        match rows {
            DealtRows::Uncopied(rows) => {
                for row in rows.as_slice() {
                    let copied = builder.copy(row);
                    add(copied, row.left_out(), builder);
                }
            }
            DealtRows::Copied(block, rows) => rows.for_each(|nth| {
                let copied = builder.append(&block, nth);
                add(copied, block.left_out(nth), builder);
            }),
        }
    }

    /// Finishes the current batch; `None` if it is excluded.
    fn take(&mut self) -> Option<Batch> {
        let (number, is_excluded) = (self.number(), self.is_excluded());
        if let Some(range) = self.excluded.iter().find(|range| range.start == number) {
            tracing::info!(from = range.start, to = range.end, "excluded batches are read and not delivered");
        }
        let turns = std::mem::take(&mut self.turns) as u64 * self.world.size as u64;
        match self.cut {
            Cut::Rows(_) => self.cursor.count(1, turns),
            Cut::Turns => self.cursor.count(turns, turns),
        }
        while self.events.front().is_some_and(|(batch, _)| *batch <= number) {
            self.events.pop_front().into_iter().for_each(|(_, event)| self.cursor.note(event));
        }
        let cursor = Arc::new(self.cursor.clone());
        let batch = self.builder.finish_numbered(number, cursor.clone());
        self.after_excluded = is_excluded.then_some(cursor);
        if is_excluded {
            return None;
        }
        self.meter.count(0, batch.tokens() as u64, batch.text_bytes());
        self.span.record("rows", batch.rows()).record("tokens", batch.tokens());
        self.span = Span::none();
        Some(batch)
    }

    /// Makes the last batch, of the rows that are left.
    fn take_last(&mut self) -> Option<Batch> {
        match self.last {
            _ if self.turns == 0 => return None,
            Last::Drop => return None,
            Last::Pad if !self.is_excluded() => {
                let lacking = self.builder.fill();
                self.cursor.add_padding(lacking);
            }
            Last::Short | Last::Pad => {}
        }
        self.take()
    }
}

impl<S, T> Stream for Batches<S>
where
    S: Stream<Item = Result<T>> + Unpin,
    T: Into<Row>,
{
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while !this.ended {
            match ready!(this.rows.poll_next_unpin(cx)) {
                Some(Ok(row)) => {
                    let began = this.sample.begin();
                    this.push(row.into());
                    this.meter.add_sample(began);
                    let batch = if this.is_whole() { this.take() } else { None };
                    if let Some(batch) = batch {
                        return Poll::Ready(Some(Ok(batch)));
                    }
                }
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.ended = true;
                    let last = this.take_last();
                    if let Some(cursor) = this.after_excluded.take() {
                        this.excluded_end.get_or_init(|| cursor);
                    }
                    return Poll::Ready(last.map(Ok));
                }
            }
        }
        Poll::Ready(None)
    }
}
