//! Items in, the same items out, shuffled in windows.
//!
//! Held in memory: about one window of items. The cursor costs one number. The anchor is the cursor of the
//! last item that was read before the window began; the skip is how many items of the window were delivered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use crate::cursor::{LaneCursor, Tracked};
use crate::error::{Error, Result};
use crate::meter::{Held, Meter};
use crate::order::permutation;

/// The length of the first window: every lane must read one before the first batch is complete.
const FIRST_WINDOW: u64 = 2;

/// How many documents are counted together.
const COUNTED: u64 = 64;

/// The stage of [`StageExt::shuffle`](super::StageExt::shuffle).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Shuffle<S, T> {
    items: Fuse<S>,
    windows: Windows<T>,
    meter: Arc<Meter>,
    /// Documents that were delivered but not counted yet.
    delivered: u64,
    held: Held,
    error: Option<Error>,
    ended: bool,
}

impl<S, T> Shuffle<S, T>
where
    S: Stream<Item = Result<Tracked<T>>>,
{
    pub(super) fn new(items: S, window: usize, seed: u64, start: &LaneCursor) -> Self {
        assert!(window > 0, "a window of no items");
        let meter = Meter::new("shuffle");
        Self {
            items: items.fuse(),
            windows: Windows::new(window, seed, start),
            held: Held::new(meter.clone()),
            meter,
            delivered: 0,
            error: None,
            ended: false,
        }
    }

    /// Gives this lane a different order from the other lanes of the same seed.
    pub fn with_lane(mut self, lane: usize) -> Self {
        self.windows.lane = lane as u64;
        self
    }

    /// Counts in `meter`, which other lanes may share.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.held = Held::new(meter.clone());
        self.meter = meter;
        self
    }
}

impl<S, T> Shuffle<S, T> {
    /// Counts what was delivered, many documents at a time.
    fn count(&mut self) {
        self.meter.count(std::mem::take(&mut self.delivered), 0, 0);
    }
}

impl<S, T> Stream for Shuffle<S, T>
where
    S: Stream<Item = Result<Tracked<T>>> + Unpin,
    T: Unpin,
{
    type Item = Result<Tracked<T>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        if this.delivered >= COUNTED {
            this.count();
        }
        loop {
            // One item is read for each that is delivered, or two while windows grow: the next window is
            // whole when this one is empty, and about one window is held.
            let mut room = this.windows.appetite();
            let mut waits = false;
            while room > 0 && this.error.is_none() && this.windows.is_open() {
                match this.items.poll_next_unpin(cx) {
                    Poll::Ready(Some(Ok(item))) => this.windows.push(item),
                    Poll::Ready(Some(Err(error))) => this.error = Some(error),
                    Poll::Ready(None) => this.windows.close(),
                    Poll::Pending => {
                        waits = true;
                        break;
                    }
                }
                room -= 1;
            }
            // Turning to the next window is the work. Reading one more item is not worth reading a clock or
            // counting.
            if this.windows.is_drained() {
                this.count();
                let turned = this.meter.busy(|| this.windows.turn());
                this.held.set(this.windows.held());
                if let Err(error) = turned {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
            match this.windows.pop() {
                Popped::Item(item) => {
                    this.delivered += 1;
                    return Poll::Ready(Some(Ok(item)));
                }
                Popped::Replayed => {}
                Popped::Empty if waits => {
                    this.count();
                    return Poll::Pending;
                }
                // The part of the next window that was read cannot be shuffled without the rest. It is not delivered,
                // and no delivered cursor includes it.
                Popped::Empty if this.error.is_some() || this.windows.is_done() => {
                    this.ended = true;
                    return Poll::Ready(this.error.take().map(Err));
                }
                Popped::Empty => {}
            }
        }
    }
}

/// The windows, without their stream: one that drains and one that fills.
#[derive(Debug)]
struct Windows<T> {
    window: u64,
    seed: u64,
    lane: u64,
    start: LaneCursor,
    /// The cursor of the last item before the filling window; unknown until something is read.
    anchor: Option<LaneCursor>,
    filling: Vec<Option<T>>,
    /// The cursor of the last item that was read.
    end: LaneCursor,
    /// The first item of the next epoch: it ends the filling window and begins the one after.
    stash: Option<Tracked<T>>,
    draining: Draining<T>,
    closed: bool,
}

#[derive(Debug)]
struct Draining<T> {
    anchor: LaneCursor,
    end: LaneCursor,
    items: Vec<Option<T>>,
    order: std::vec::IntoIter<u32>,
    delivered: u64,
    replay: u64,
}

enum Popped<T> {
    Item(Tracked<T>),
    Replayed,
    Empty,
}

impl<T> Windows<T> {
    fn new(window: usize, seed: u64, start: &LaneCursor) -> Self {
        Self {
            window: window as u64,
            seed,
            lane: 0,
            start: *start,
            anchor: None,
            filling: Vec::new(),
            end: *start,
            stash: None,
            draining: Draining {
                anchor: *start,
                end: *start,
                items: Vec::new(),
                order: Vec::new().into_iter(),
                delivered: 0,
                replay: 0,
            },
            closed: false,
        }
    }

    /// How many items to read before the next one is delivered.
    fn appetite(&self) -> usize {
        match self.draining.order.len() {
            0 => usize::MAX,
            _ => (self.size() as usize).div_ceil(self.draining.items.len()),
        }
    }

    /// How long the filling window will be: as long as all before it, within bounds.
    fn size(&self) -> u64 {
        let before = self.anchor.map_or(self.start.documents, |anchor| anchor.documents);
        before.max(FIRST_WINDOW).min(self.window)
    }

    /// How many items are held.
    fn held(&self) -> usize {
        self.filling.len() + self.draining.order.len()
    }

    fn is_open(&self) -> bool {
        !self.closed && self.stash.is_none() && (self.filling.len() as u64) < self.size()
    }

    fn is_done(&self) -> bool {
        self.closed && self.stash.is_none() && self.filling.is_empty() && self.is_drained()
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn push(&mut self, item: Tracked<T>) {
        if self.anchor.is_none() {
            let depth = item.cursor.depth();
            self.anchor = Some(self.start.upstream(depth));
            self.draining.replay = self.start.skip(depth);
        }
        if !self.filling.is_empty() && self.end.epoch != item.cursor.epoch {
            self.stash = Some(item);
        } else {
            self.fill(item);
        }
    }

    fn fill(&mut self, item: Tracked<T>) {
        self.end = item.cursor;
        self.filling.push(Some(item.value));
    }

    fn pop(&mut self) -> Popped<T> {
        let draining = &mut self.draining;
        let next = draining.order.next().and_then(|index| draining.items[index as usize].take());
        let Some(value) = next else { return Popped::Empty };
        draining.delivered += 1;
        if draining.replay > 0 {
            draining.replay -= 1;
            return Popped::Replayed;
        }
        // After the window's last item nothing is held, so its cursor is the next window's start.
        let cursor = match draining.order.len() {
            0 => draining.end.anchored(0),
            _ => draining.anchor.anchored(draining.delivered),
        };
        Popped::Item(Tracked::new(value, cursor))
    }

    fn is_drained(&self) -> bool {
        self.draining.order.len() == 0
    }

    /// Begins to drain the filling window, if it is whole.
    ///
    /// # Errors
    /// [`Error::Resume`] if the cursor says that more of the window was delivered than it has.
    fn turn(&mut self) -> Result<()> {
        let Some(anchor) = self.anchor else { return Ok(()) };
        if self.filling.is_empty() || self.is_open() {
            return Ok(());
        }
        let (replay, len) = (std::mem::take(&mut self.draining.replay), self.filling.len());
        if replay >= len as u64 {
            let problem =
                format!("{replay} documents were delivered of a window of the shuffle, which has {len}");
            return Err(Error::resume(problem));
        }
        // The cursor of a window's last item is the next window's start.
        let end = self.end;
        let key = [self.seed, self.lane, end.epoch, anchor.documents];
        let order = permutation("window", &key, len).into_iter();
        // The next window reuses the memory of the one before.
        let mut items = std::mem::take(&mut self.draining.items);
        items.clear();
        std::mem::swap(&mut items, &mut self.filling);
        self.draining = Draining { anchor, end, order, items, delivered: 0, replay };
        self.anchor = Some(end);
        if let Some(item) = self.stash.take() {
            self.fill(item);
        }
        Ok(())
    }
}
