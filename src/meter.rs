//! What every stage counts, and how long it waits.
//!
//! A [`Meter`] costs a few atomic additions for each group of documents, never for each token. A
//! [`Meters`] snapshot puts all stages side by side and names the one that the consumer waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;

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
    starved: AtomicBool,
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
            starved: AtomicBool::default(),
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
        let began = Instant::now();
        let done = work();
        self.add_busy(began.elapsed());
        done
    }

    /// Adds time that the stage had room to work and nothing to work on.
    pub fn add_wait_in(&self, time: Duration) {
        add(&self.wait_in, time);
    }

    /// Adds time that the stage held finished work that nobody took.
    pub fn add_wait_out(&self, time: Duration) {
        add(&self.wait_out, time);
    }

    /// Says how many items the stage holds now, in its own unit.
    pub fn set_queued(&self, items: usize) {
        self.queued.store(items as u64, Relaxed);
    }

    /// Says whether the stage has nothing to work on now.
    pub(crate) fn set_starved(&self, starved: bool) {
        self.starved.store(starved, Relaxed);
    }

    /// What was last said of it.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.load(Relaxed)
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
        }
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Relaxed);
}

fn seconds(counter: &AtomicU64) -> f64 {
    counter.load(Relaxed) as f64 / 1e9
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
}

/// One stage's counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageMeter {
    /// The stage's name.
    pub stage: &'static str,
    /// Documents delivered, or packed; 0 for the stages that follow and know none.
    pub documents: u64,
    /// Documents skipped.
    pub skipped: u64,
    /// Tokens delivered.
    pub tokens: u64,
    /// Bytes of text delivered.
    pub bytes: u64,
    /// Time spent working, in seconds, summed over workers.
    pub busy_seconds: f64,
    /// Time with room to work and nothing to work on, in seconds. The stages between `tokenize` and
    /// `prefetch` run within `prefetch`'s task: in a loader they wait when it does.
    pub wait_in_seconds: f64,
    /// Time with finished work that nobody took, in seconds.
    pub wait_out_seconds: f64,
    /// What it holds now: reads, groups, documents or batches, whatever it hands on.
    pub queued: u64,
}

/// All of a loader's counters at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Meters {
    /// Time since the loader was opened, in seconds.
    pub wall_seconds: f64,
    /// Time that the consumer spent in `next()`, in seconds, after the first batch had come. A `next()` that
    /// was given up counts until a later one gets its batch.
    pub consumer_wait_seconds: f64,
    /// The share of the time since the first batch that the consumer spent in `next()`, from 0 to 1.
    pub wait_share: f64,
    /// The stage that the consumer waited for most; none if it never waited.
    pub at_fault: Option<&'static str>,
    /// Bytes of text and ids in flight.
    pub bytes_in_flight: u64,
    /// The most there ever were.
    pub peak_bytes_in_flight: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// The stages, in the order of the journey.
    pub stages: Vec<StageMeter>,
}
