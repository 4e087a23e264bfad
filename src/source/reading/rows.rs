//! One lane's stream of finished rows.
//!
//! Rows are looked up in groups. A group whose pages are in memory is looked up when its first row is asked for, on the
//! thread that asks: that takes less than handing it over would. If a group takes long, its pages were not there, and the
//! next one is looked up ahead on a blocking thread, many pages at once; so are rows in stores.
//!
//! Held in memory: the places of the rows of a group or two and, for rows in stores, their ids. Other ids stay in their
//! file until a batch has them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::Stream;
use futures::future::FutureExt;
use tokio::task::JoinHandle;

use super::row_reader::{RowGroup, RowReader};
use crate::cursor::{LaneCursor, Tracked};
use crate::document::Sequence;
use crate::error::{Error, Result};
use crate::meter::{Meter, stage_span};
use crate::pin::Pinning;
use crate::store::CancelToken;

/// A group that took longer than this for each of its rows was read from a disk.
const QUICK: Duration = Duration::from_micros(25);

/// How many rows are looked up at once in memory: at first, at most, and where a disk is asked ahead.
const FIRST: u64 = 8;
const MOST: u64 = 64;
const MOST_AHEAD: u64 = 1024;

/// The rows of one lane, in order, each with the cursor after it.
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub(crate) struct StoredRows {
    work: RowWork,
    group: RowGroup,
    at: LaneCursor,
    pace: Pace,
    /// Whether rows are looked up only when one is asked for, on the thread that asks.
    on_demand: bool,
    pin: Option<Pinning>,
    meter: Option<Arc<Meter>>,
    /// Stops reads when the stream is dropped.
    _cancel: CancelToken,
}

/// The state of the lane's reader.
#[derive(Debug)]
enum RowWork {
    Idle(Box<RowReader>),
    Reading(JoinHandle<(Box<RowReader>, Looked)>),
    Done,
}

/// The result of looking up a group, and how long it took.
type Looked = (Result<Option<RowGroup>>, Duration);

/// How many rows are looked up at once, and whether ahead.
#[derive(Debug)]
struct Pace {
    step: u64,
    is_ahead: bool,
    /// Whether some rows are in a store, which is always asked ahead.
    is_remote: bool,
}

impl Pace {
    fn new(is_remote: bool) -> Self {
        Self { step: FIRST, is_ahead: is_remote, is_remote }
    }

    /// Sets the next step by how long a group of `rows` rows took.
    fn note(&mut self, rows: usize, took: Duration) {
        let is_slow = took > QUICK * rows.max(1) as u32;
        self.step = match (self.is_remote || is_slow, self.is_ahead) {
            (true, true) => (2 * self.step).min(MOST_AHEAD),
            (true, false) => MOST_AHEAD,
            // A few rows tell whether the next ones are in memory too.
            (false, true) => FIRST,
            (false, false) => (2 * self.step).min(MOST),
        };
        self.is_ahead = self.is_remote || is_slow;
    }
}

impl StoredRows {
    pub(crate) fn new(
        reader: RowReader,
        at: &LaneCursor,
        cancel: CancelToken,
        meter: Option<Arc<Meter>>,
        (on_demand, pin): (bool, Option<Pinning>),
    ) -> Self {
        Self {
            pace: Pace::new(reader.is_remote()),
            work: RowWork::Idle(Box::new(reader)),
            group: RowGroup::default(),
            at: *at,
            on_demand,
            pin,
            meter,
            _cancel: cancel,
        }
    }

    /// Begins to look up the next group on a blocking thread.
    fn begin(&self, mut reader: Box<RowReader>) -> RowWork {
        let (step, meter, pin) = (self.pace.step, self.meter.clone(), self.pin.clone());
        let job = move || {
            let looked = looked(&mut reader, step, true, meter.as_ref());
            (reader, looked)
        };
        RowWork::Reading(tokio::task::spawn_blocking(move || Pinning::keep(pin.as_ref(), job)))
    }

    /// Makes a group that was looked up the current one. Returns the error, if there is one.
    fn accept(&mut self, reader: Box<RowReader>, (group, took): Looked) -> Option<Error> {
        let group = match group {
            Ok(Some(group)) => group,
            Ok(None) => return None,
            Err(error) => return Some(error),
        };
        self.pace.note(group.len(), took);
        if let Some(meter) = &self.meter {
            meter.count(group.pieces(), 0, 0);
        }
        self.work = RowWork::Idle(reader);
        self.group = group;
        if self.pace.is_ahead
            && !self.on_demand
            && let RowWork::Idle(reader) = std::mem::replace(&mut self.work, RowWork::Done)
        {
            self.work = self.begin(reader);
        }
        None
    }
}

/// Looks up the next group.
fn looked(reader: &mut RowReader, step: u64, is_ahead: bool, meter: Option<&Arc<Meter>>) -> Looked {
    let began = Instant::now();
    let work = meter.map(|meter| meter.work(stage_span!("source", "read")));
    let group = reader.read(step, is_ahead);
    drop(work);
    (group, began.elapsed())
}

impl Stream for StoredRows {
    type Item = Result<Tracked<Sequence>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(row) = this.group.pop(&mut this.at) {
                return Poll::Ready(Some(Ok(Tracked::new(row, this.at))));
            }
            let error = match std::mem::replace(&mut this.work, RowWork::Done) {
                RowWork::Done => return Poll::Ready(None),
                RowWork::Idle(reader) if this.pace.is_remote || this.pace.is_ahead && !this.on_demand => {
                    this.work = this.begin(reader);
                    None
                }
                RowWork::Idle(mut reader) => {
                    let looked = looked(&mut reader, this.pace.step, false, this.meter.as_ref());
                    this.accept(reader, looked)
                }
                RowWork::Reading(mut job) => match job.poll_unpin(cx) {
                    Poll::Pending => {
                        this.work = RowWork::Reading(job);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok((reader, looked))) => this.accept(reader, looked),
                    Poll::Ready(Err(lost)) => Some(Error::lost("source", lost)),
                },
            };
            if let Some(error) = error {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl Drop for StoredRows {
    fn drop(&mut self) {
        if let RowWork::Reading(job) = &self.work {
            // A job that has not begun will not begin.
            job.abort();
        }
    }
}
