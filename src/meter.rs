//! The counts and waits of every stage, and the verdict on them.
//!
//! A [`Meter`] costs a few atomic additions for each group of documents, and nothing for each token. A [`Meters`]
//! snapshot has the counters of all stages. Its [`Verdict`] says in words what the trainer waits for and what would
//! help, its [`Table`] shows the rates, and [`prometheus`] formats it for a scraper.
//!
//! Work and waits are also `tracing` spans, with the target [`TARGET`] and the level `DEBUG`. Their field `stage` names
//! the stage. If no subscriber wants them, a span costs one relaxed load.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tracing::Span;
use tracing::span::EnteredSpan;

mod blame;
mod fault;
pub mod prometheus;
mod shares;
mod skipped;
mod snapshot;
mod table;
mod task;
mod verdict;
mod words;

pub(crate) use blame::{CAUSES, Chain, CustomMeters};
pub use fault::Fault;
pub use shares::StageShare;
use skipped::Remembered;
pub use skipped::Skipped;
pub(crate) use snapshot::share;
pub use snapshot::{Meters, Setting, StageMeter, StoreMeter, Tuned, Waits};
pub use table::Table;
pub(crate) use task::{TaskMeter, Waiting};
pub use verdict::Verdict;

/// The target of the spans for work and waits.
pub const TARGET: &str = "millstream::stage";

/// A span for a stage's work or wait: its stage, its name, and fields. It has no parent, because a parent would stay
/// open as long as the span, and some spans are held from one poll to another.
#[doc(hidden)]
#[macro_export]
macro_rules! stage_span {
    ($stage:expr, $name:literal $(, $($field:tt)*)?) => {
        tracing::debug_span!(target: $crate::meter::TARGET, parent: None, $name, stage = $stage $(, $($field)*)?)
    };
}
#[doc(hidden)]
pub use stage_span;

/// One stage's counters. All lanes of a loader share them.
#[derive(Debug, Default)]
pub struct Meter {
    stage: Cow<'static, str>,
    is_custom: bool,
    documents: AtomicU64,
    skipped: AtomicU64,
    remembered: Remembered,
    tokens: AtomicU64,
    bytes: AtomicU64,
    busy: AtomicU64,
    wait_in: AtomicU64,
    wait_out: AtomicU64,
    queued: AtomicU64,
    capacity: AtomicU64,
    workers: AtomicU64,
    working: AtomicU64,
    states: [AtomicU64; 3],
    /// How many streams have input for a custom stage that gives nothing yet.
    awaiting: AtomicU64,
    awaited: AtomicU64,
}

/// The activity of a stage when it had nothing to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeterState {
    Working,
    /// Waiting for something to work on: documents, or memory to read into.
    Starved,
    /// Waiting for the token cache to take what it has done.
    Blocked,
}

impl Meter {
    /// Returns a stage's meter with all counters at zero.
    pub fn new(stage: &'static str) -> Arc<Self> {
        Self::named(Cow::Borrowed(stage), false)
    }

    pub(crate) fn custom(name: &str) -> Arc<Self> {
        Self::named(Cow::Owned(name.to_owned()), true)
    }

    fn named(stage: Cow<'static, str>, is_custom: bool) -> Arc<Self> {
        Arc::new(Self { stage, is_custom, ..Self::default() })
    }

    /// Counts what the stage delivered: documents, tokens, and bytes of text.
    pub fn count(&self, documents: u64, tokens: u64, bytes: u64) {
        let counts = [(&self.documents, documents), (&self.tokens, tokens), (&self.bytes, bytes)];
        for (counter, more) in counts.into_iter().filter(|(_, more)| *more > 0) {
            counter.fetch_add(more, Relaxed);
        }
    }

    /// Counts a skipped document, and remembers it. The log names the first ones for each reason, if it is to.
    pub(crate) fn skip(&self, is_logged: bool, reason: &str, skipped: impl FnOnce(String) -> Skipped) {
        self.skipped.fetch_add(1, Relaxed);
        self.remembered.push(is_logged, reason, skipped);
    }

    /// Takes the skipped documents that are remembered.
    pub(crate) fn take_skipped(&self) -> Vec<Skipped> {
        self.remembered.take()
    }

    /// Adds time that the stage worked. The times of several workers add up.
    pub(crate) fn add_busy(&self, time: Duration) {
        add(&self.busy, time);
    }

    /// Runs a piece of the stage's work and adds the time that it takes.
    pub fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        let _span = stage_span!(&*self.stage, "work").entered();
        let began = Instant::now();
        let done = work();
        self.add_busy(began.elapsed());
        done
    }

    /// Adds the time of the measured piece of work, which ends now, for each piece that it stands for.
    pub(crate) fn add_sample(&self, sampled: Option<Sampled>) {
        if let Some(Sampled { began, pieces }) = sampled {
            self.add_busy(began.elapsed() * pieces);
        }
    }

    /// The same for a custom stage, without the time `upstream` that getting its input took; returns that time, for all
    /// the pieces.
    pub(crate) fn add_sample_without(
        &self,
        Sampled { began, pieces }: Sampled,
        upstream: Duration,
    ) -> Duration {
        self.add_busy(began.elapsed().saturating_sub(upstream) * pieces);
        upstream * pieces
    }

    /// Notes that one stream more, or one fewer, has input for this stage and waits for it.
    pub(crate) fn set_awaited(&self, is_awaited: bool) {
        match is_awaited {
            true => self.awaiting.fetch_add(1, Relaxed),
            false => self.awaiting.fetch_sub(1, Relaxed),
        };
    }

    /// Whether some stream waits for this stage itself.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaiting.load(Relaxed) > 0
    }

    /// Adds time that the pipeline waited for this stage itself.
    pub(crate) fn add_awaited(&self, time: Duration) {
        add(&self.awaited, time);
    }

    /// Counts a worker as busy, within `span`, until the guard is dropped.
    pub(crate) fn work(self: &Arc<Self>, span: Span) -> Work {
        self.working.fetch_add(1, Relaxed);
        Work { meter: self.clone(), span: span.entered(), began: Instant::now() }
    }

    /// Adds time during which the stage had room to work and nothing to work on.
    pub(crate) fn add_wait_in(&self, time: Duration) {
        add(&self.wait_in, time);
    }

    /// Adds time during which the stage held finished work that nobody took.
    pub(crate) fn add_wait_out(&self, time: Duration) {
        add(&self.wait_out, time);
    }

    /// Sets how many items the stage holds now, in its own unit. Call it only where one stream has the meter to itself.
    pub(crate) fn set_queued(&self, items: usize) {
        self.queued.store(items as u64, Relaxed);
    }

    /// Sets how many items the stage holds at most.
    pub(crate) fn set_capacity(&self, items: usize) {
        self.capacity.store(items as u64, Relaxed);
    }

    /// Sets how many threads the stage works on at most; 0 if it has none of its own.
    pub(crate) fn set_workers(&self, workers: usize) {
        self.workers.store(workers as u64, Relaxed);
    }

    /// Whether at least as many streams are in this state as in any other.
    pub(crate) fn most_are(&self, state: MeterState) -> bool {
        let streams = |state: usize| self.states[state].load(Relaxed);
        let of_it = streams(state as usize);
        of_it > 0 && (0..self.states.len()).all(|other| streams(other) <= of_it)
    }

    /// How long the stage worked, in nanoseconds.
    pub(crate) fn busy_nanos(&self) -> u64 {
        self.busy.load(Relaxed)
    }

    /// Returns the counters as they are now.
    pub fn snapshot(&self) -> StageMeter {
        StageMeter {
            stage: self.stage.clone(),
            is_custom: self.is_custom,
            documents: self.documents.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            busy_seconds: seconds(&self.busy),
            awaited_seconds: seconds(&self.awaited),
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

/// A worker at work. Dropping it ends the work and adds its time.
#[derive(Debug)]
pub(crate) struct Work {
    meter: Arc<Meter>,
    span: EnteredSpan,
    began: Instant,
}

impl Work {
    /// Records in the span how much the work produced.
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

/// The items and the state of one of several streams. The meter has the sum over all of them.
#[derive(Debug)]
pub(crate) struct Held {
    meter: Arc<Meter>,
    items: u64,
    state: Option<MeterState>,
}

impl Held {
    /// Returns one that holds nothing yet.
    pub(crate) fn new(meter: Arc<Meter>) -> Self {
        Self { meter, items: 0, state: None }
    }

    /// Sets how many items the stream holds now.
    pub(crate) fn set(&mut self, items: usize) {
        let items = items as u64;
        if items != self.items {
            // Modulo 2^64, because a difference may be negative.
            self.meter.queued.fetch_add(items.wrapping_sub(self.items), Relaxed);
            self.items = items;
        }
    }

    pub(crate) fn set_state(&mut self, state: MeterState) {
        if self.state != Some(state) {
            self.leave_state();
            self.meter.states[state as usize].fetch_add(1, Relaxed);
            self.state = Some(state);
        }
    }

    fn leave_state(&mut self) {
        if let Some(state) = self.state.take() {
            self.meter.states[state as usize].fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
        self.leave_state();
    }
}

/// Selects which pieces of work are measured. Each stands for those up to the next.
#[derive(Debug)]
pub(crate) struct Sample {
    every: u32,
    next: u32,
}

/// A measured piece of work, and how many pieces it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    began: Instant,
    pieces: u32,
}

impl Sample {
    /// Measures every piece.
    pub(crate) fn all() -> Self {
        Self { every: 1, next: 0 }
    }

    /// Measures one of seven short pieces of similar length: reading the clock twice costs as much as copying some
    /// hundred ids. Seven does not divide any usual number of rows, so the first row of a batch is no more likely than
    /// others.
    pub(crate) fn seventh() -> Self {
        Self { every: 7, next: 0 }
    }

    /// Begins a piece of work; `None` if it is not measured.
    pub(crate) fn begin(&mut self) -> Option<Sampled> {
        let is_measured = self.next == 0;
        self.next = (self.next + 1) % self.every;
        is_measured.then(|| Sampled { began: Instant::now(), pieces: self.every })
    }
}

/// Measures an interval that begins at the first `begin` and ends at `end`.
#[derive(Debug, Default)]
pub(crate) struct Interval(Option<Instant>);

impl Interval {
    /// Begins the interval, unless it has begun.
    pub(crate) fn begin(&mut self) {
        self.0.get_or_insert_with(Instant::now);
    }

    /// Ends the interval and returns its length; zero if it had not begun.
    pub(crate) fn end(&mut self) -> Duration {
        self.0.take().map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Returns how long it has lasted; zero if it has not begun.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |began| began.elapsed())
    }

    pub(crate) fn has_begun(&self) -> bool {
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
