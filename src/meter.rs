//! What every stage counts, how long it waits, and what that means.
//!
//! A [`Meter`] costs a few atomic additions for each group of documents, never for each token. A
//! [`Meters`] snapshot puts all stages side by side; its [`Verdict`] says in words what the trainer waits for and
//! what would help, its [`Table`] shows the rates, and [`prometheus`] writes it for a scraper.
//!
//! Work and waits are `tracing` spans too, of the target [`TARGET`] at the level `DEBUG`; their field `stage` names
//! the stage. Where no subscriber wants them, a span costs one relaxed load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tracing::Span;
use tracing::span::EnteredSpan;

mod between;
mod blame;
mod fault;
pub mod prometheus;
mod snapshot;
mod table;
mod verdict;
mod words;

pub(crate) use blame::{CAUSES, Chain};
pub use fault::Fault;
pub use snapshot::{Meters, Setting, StageMeter, StoreMeter, Waits};
pub use table::Table;
pub use verdict::Verdict;

/// The target of the spans of work and waits.
pub const TARGET: &str = "millstream::stage";

/// A span of a stage's work or wait: its stage, its name, and fields. It has no parent, which would stay open as long
/// as the span does: some are held from one poll to another.
macro_rules! stage_span {
    ($stage:expr, $name:literal $(, $($field:tt)*)?) => {
        tracing::debug_span!(target: $crate::meter::TARGET, parent: None, $name, stage = $stage $(, $($field)*)?)
    };
}
pub(crate) use stage_span;

/// One stage's counters. All lanes of a loader share them.
#[derive(Debug)]
pub struct Meter {
    stage: &'static str,
    documents: AtomicU64,
    skipped: AtomicU64,
    tokens: AtomicU64,
    bytes: AtomicU64,
    busy: AtomicU64,
    wait_in: AtomicU64,
    wait_out: AtomicU64,
    queued: AtomicU64,
    capacity: AtomicU64,
    workers: AtomicU64,
    working: AtomicU64,
    state: AtomicU8,
}

/// What a stage was found doing when it had nothing to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// It works on something.
    Working,
    /// It could do more, and has nothing to work on: documents, or memory to read into.
    Starved,
    /// What it has done is not taken: by the token cache.
    Blocked,
}

impl Meter {
    /// The meter of a stage, all counters at zero.
    pub fn new(stage: &'static str) -> Arc<Self> {
        Arc::new(Self {
            stage,
            documents: AtomicU64::default(),
            skipped: AtomicU64::default(),
            tokens: AtomicU64::default(),
            bytes: AtomicU64::default(),
            busy: AtomicU64::default(),
            wait_in: AtomicU64::default(),
            wait_out: AtomicU64::default(),
            queued: AtomicU64::default(),
            capacity: AtomicU64::default(),
            workers: AtomicU64::default(),
            working: AtomicU64::default(),
            state: AtomicU8::default(),
        })
    }

    /// Counts what the stage delivered: documents, tokens, and bytes of text.
    pub fn count(&self, documents: u64, tokens: u64, bytes: u64) {
        let counts = [(&self.documents, documents), (&self.tokens, tokens), (&self.bytes, bytes)];
        for (counter, more) in counts.into_iter().filter(|(_, more)| *more > 0) {
            counter.fetch_add(more, Relaxed);
        }
    }

    /// Counts one skipped document.
    pub fn count_skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    /// Adds time that the stage worked; workers' times add up.
    pub fn add_busy(&self, time: Duration) {
        add(&self.busy, time);
    }

    /// Does a piece of the stage's work and adds the time that it takes.
    pub fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        let _span = stage_span!(self.stage, "work").entered();
        let began = Instant::now();
        let done = work();
        self.add_busy(began.elapsed());
        done
    }

    /// Adds the time of the pieces of work that the measured one stands for, which ends now.
    pub(crate) fn add_sample(&self, sampled: Option<Sampled>) {
        if let Some(Sampled { began, pieces }) = sampled {
            self.add_busy(began.elapsed() * pieces);
        }
    }

    /// Counts a worker as busy, within `span`, until what is returned is dropped.
    pub(crate) fn work(self: &Arc<Self>, span: Span) -> Work {
        self.working.fetch_add(1, Relaxed);
        Work { meter: self.clone(), span: span.entered(), began: Instant::now() }
    }

    /// Adds time that the stage had room to work and nothing to work on.
    pub fn add_wait_in(&self, time: Duration) {
        add(&self.wait_in, time);
    }

    /// Adds time that the stage held finished work that nobody took.
    pub fn add_wait_out(&self, time: Duration) {
        add(&self.wait_out, time);
    }

    /// Says how many items the stage holds now, in its own unit. Where several streams share the meter, each
    /// holds a [`Held`] of it instead.
    pub fn set_queued(&self, items: usize) {
        self.queued.store(items as u64, Relaxed);
    }

    /// Says how many items the stage holds at most.
    pub fn set_capacity(&self, items: usize) {
        self.capacity.store(items as u64, Relaxed);
    }

    /// Says how many threads the stage works on at most; 0 if it has none of its own.
    pub fn set_workers(&self, workers: usize) {
        self.workers.store(workers as u64, Relaxed);
    }

    /// Says what the stage is found doing.
    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Relaxed);
    }

    /// Whether that is what was last said of it.
    pub(crate) fn is(&self, state: State) -> bool {
        self.state.load(Relaxed) == state as u8
    }

    /// How long the stage worked, in nanoseconds.
    pub(crate) fn busy_nanos(&self) -> u64 {
        self.busy.load(Relaxed)
    }

    /// The counters as they are now.
    pub fn snapshot(&self) -> StageMeter {
        StageMeter {
            stage: self.stage,
            documents: self.documents.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            busy_seconds: seconds(&self.busy),
            wait_in_seconds: seconds(&self.wait_in),
            wait_out_seconds: seconds(&self.wait_out),
            queued: self.queued.load(Relaxed),
            capacity: self.capacity.load(Relaxed),
            workers: self.workers.load(Relaxed),
            workers_busy: self.working.load(Relaxed),
        }
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Relaxed);
}

fn seconds(counter: &AtomicU64) -> f64 {
    counter.load(Relaxed) as f64 / 1e9
}

/// A worker at work: it ends, and its time is added, when this is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    meter: Arc<Meter>,
    span: EnteredSpan,
    began: Instant,
}

impl Work {
    /// Notes in the span what the work came to.
    pub(crate) fn note(&self, documents: u64, tokens: u64, bytes: u64) {
        self.span.record("documents", documents).record("tokens", tokens).record("bytes", bytes);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.meter.add_busy(self.began.elapsed());
        self.meter.working.fetch_sub(1, Relaxed);
    }
}

/// What one of several streams holds, of which a meter has the sum.
#[derive(Debug)]
pub struct Held {
    meter: Arc<Meter>,
    items: u64,
}

impl Held {
    /// Nothing yet.
    pub fn new(meter: Arc<Meter>) -> Self {
        Self { meter, items: 0 }
    }

    /// Says how many items the stream holds now.
    pub fn set(&mut self, items: usize) {
        let items = items as u64;
        if items != self.items {
            // Modulo 2^64, as a difference may be negative.
            self.meter.queued.fetch_add(items.wrapping_sub(self.items), Relaxed);
            self.items = items;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Which pieces of work are measured, and stand for those between them.
#[derive(Debug)]
pub(crate) struct Sample {
    every: u32,
    next: u32,
}

/// A piece of work that is measured, and how many it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    began: Instant,
    pieces: u32,
}

impl Sample {
    /// Each of them.
    pub(crate) fn all() -> Self {
        Self { every: 1, next: 0 }
    }

    /// One of seven short ones that are alike: two looks at the clock cost as much as copying some hundred ids. Seven
    /// divides no usual number of rows, so that the first of a batch is no more likely than others.
    pub(crate) fn seventh() -> Self {
        Self { every: 7, next: 0 }
    }

    /// Begins a piece of work; none if it is not measured.
    pub(crate) fn begin(&mut self) -> Option<Sampled> {
        let is_measured = self.next == 0;
        self.next = (self.next + 1) % self.every;
        is_measured.then(|| Sampled { began: Instant::now(), pieces: self.every })
    }
}

/// Measures an interval that begins at the first `begin` and ends at `end`.
#[derive(Debug, Default)]
pub struct Interval(Option<Instant>);

impl Interval {
    /// Begins the interval, unless it has begun.
    pub fn begin(&mut self) {
        self.0.get_or_insert_with(Instant::now);
    }

    /// Ends it; zero if it had not begun.
    pub fn end(&mut self) -> Duration {
        self.0.take().map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// How long it has lasted; zero if it has not begun.
    pub fn elapsed(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_share_a_meter_add_up() {
        let meter = Meter::new("source");
        let (mut one, mut other) = (Held::new(meter.clone()), Held::new(meter.clone()));
        one.set(3);
        other.set(4);
        one.set(1);
        assert_eq!(meter.snapshot().queued, 5);
        drop(other);
        assert_eq!(meter.snapshot().queued, 1);
        drop(one);
        assert_eq!(meter.snapshot().queued, 0);
    }

    #[test]
    fn one_piece_of_work_is_measured_for_several() {
        let (meter, mut sample) = (Meter::new("pack"), Sample::seventh());
        let mut work = || {
            let began = sample.begin();
            std::thread::sleep(Duration::from_millis(1));
            meter.add_sample(began);
        };
        (0..6).for_each(|_| work());
        assert!(meter.busy_nanos() >= 7_000_000);
        let before = meter.busy_nanos();
        work();
        assert_eq!(meter.busy_nanos(), before);
        work();
        assert!(meter.busy_nanos() >= before + 7_000_000);
    }

    #[test]
    fn a_worker_is_busy_until_it_is_dropped() {
        let meter = Meter::new("tokenize");
        let work = meter.work(Span::none());
        assert_eq!((meter.snapshot().workers_busy, meter.busy_nanos()), (1, 0));
        std::thread::sleep(Duration::from_millis(1));
        drop(work);
        assert_eq!(meter.snapshot().workers_busy, 0);
        assert!(meter.busy_nanos() >= 1_000_000);
    }
}
