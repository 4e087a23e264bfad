//! Items in, the same items out, shuffled in windows.
//!
//! Held in memory: about one window of items. The cursor costs one number. The anchor is the cursor of the
//! last item that was read before the window began; the skip is how long the window is and how many of its items
//! were delivered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;

use super::input::Input;
use super::window::Windowed;
use super::window_order::{WindowOrder, WindowSkip};
use crate::cursor::{LaneCursor, Tracked};
use crate::error::{Error, Result};
use crate::meter::{Held, Meter};

/// How many documents are counted together.
const COUNTED: u64 = 64;

/// The stage of [`StageExt::shuffle`](super::StageExt::shuffle).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Shuffle<S, T> {
    items: Input<S, Tracked<T>>,
    order: WindowOrder,
    windows: Windowed<Option<T>, T, (LaneCursor, WindowSkip)>,
    /// The cursor of the last item before the filling window, and of the last that was read.
    anchor: LaneCursor,
    end: LaneCursor,
    meter: Arc<Meter>,
    /// Documents that were delivered but not counted yet.
    delivered: u64,
    held: Held,
}

impl<S, T> Shuffle<S, T>
where
    S: Stream<Item = Result<Tracked<T>>>,
{
    pub(super) fn new(items: S, window: usize, seed: u64, start: &LaneCursor) -> Self {
        assert!(window > 0, "a window of no items");
        let meter = Meter::new("shuffle");
        Self {
            items: Input::new(items),
            order: WindowOrder { window: window as u64, seed, lane: 0 },
            windows: Windowed::new("documents of the shuffle", (*start, WindowSkip::default())),
            anchor: *start,
            end: *start,
            held: Held::new(meter.clone()),
            meter,
            delivered: 0,
        }
    }

    /// Gives this lane a different order from the other lanes of the same seed.
    pub fn with_lane(mut self, lane: usize) -> Self {
        self.order.lane = lane as u64;
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

    /// How long the filling window will be, unless its epoch or the stream ends before.
    fn length(&self) -> u64 {
        self.order.length(&self.anchor)
    }

    /// Begins to drain the filling window, if it is whole.
    ///
    /// # Errors
    /// [`Error::Resume`] if the window is not as long as it was, or the cursor says that more of it was delivered than
    /// it has.
    fn turn(&mut self) -> Result<()> {
        if self.windows.filling.is_empty() || self.windows.lacks(self.length()) > 0 {
            return Ok(());
        }
        // Items tell how deep in the chain the stage is. Only the cursor that the stage resumes at has a skip there.
        let (depth, end) = (self.end.depth(), self.end);
        let (anchor, resumed) = (self.anchor.upstream(depth), WindowSkip::decode(self.anchor.skip(depth)));
        let items = self.windows.take();
        let len = items.len() as u64;
        if resumed.len > 0 && resumed.len != len {
            let problem = format!("a window of the shuffle had {} documents, and has {len} now", resumed.len);
            return Err(Error::resume(problem));
        }
        let order = self.order.permutation(&anchor, end.epoch, items.len());
        let skip = WindowSkip { len, delivered: 0 };
        // The cursor of a window's last item is the next window's start.
        let places = [(anchor, skip), (end, WindowSkip::default())];
        let mut spare = self.windows.drain(items, order, resumed.delivered, places)?;
        // The next window reuses the memory of the one before.
        spare.clear();
        self.windows.filling = spare;
        self.anchor = end;
        Ok(())
    }
}

impl<S, T> Shuffle<S, T>
where
    S: Stream<Item = Result<Tracked<T>>> + Unpin,
{
    /// Reads one item for each that is delivered, or two while windows grow.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..self.windows.room(self.length()) {
            match ready!(self.items.poll_next(cx)) {
                Some(item) if self.end.epoch != item.cursor.epoch && !self.windows.filling.is_empty() => {
                    self.items.put_back(item);
                    self.windows.cut();
                    break;
                }
                Some(Tracked { value, cursor }) => {
                    self.end = cursor;
                    self.windows.filling.push(Some(value));
                }
                // The part of a window before an error cannot be shuffled without the rest. It is not delivered, and
                // no delivered cursor includes it.
                None if self.items.has_failed() => break,
                None => {
                    self.windows.cut();
                    break;
                }
            }
        }
        Poll::Ready(())
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
        if this.items.is_over() {
            return Poll::Ready(None);
        }
        if this.delivered >= COUNTED {
            this.count();
        }
        let waits = this.fill(cx).is_pending();
        // Turning to the next window is the work. Reading one more item is not worth reading a clock or counting.
        if this.windows.is_drained() {
            this.count();
            let turned = this.meter.clone().busy(|| this.turn());
            this.held.set(this.windows.held());
            if let Err(error) = turned {
                return this.items.end(Some(error));
            }
        }
        let next = this.windows.next().map(|(value, (place, skip), delivered)| {
            Tracked::new(value, place.anchored(WindowSkip { delivered, ..skip }.encode()))
        });
        match next {
            Some(item) => {
                this.delivered += 1;
                Poll::Ready(Some(Ok(item)))
            }
            None if waits => {
                this.count();
                Poll::Pending
            }
            None => this.items.end(None),
        }
    }
}
