//! Chooses how many workers tokenize and how many batches wait ahead, while the loader runs.
//!
//! The input is measured since the last call: how long the consumer waited, how long the pipeline waited for room, and
//! how long the workers worked. The output is a number of workers and a depth. This module reads no clock.
//!
//! If the consumer waits, it gets more at once: twice the workers if all of them are at work, and four times the depth
//! if the queue was full before it was empty. Removal is slow. A worker goes after [`CALM`] windows in which nobody
//! waited and fewer workers would have had time for the same work. A batch of depth goes if more batches than needed
//! were always queued, and later than a worker, because the queue fills while the consumer is slow. If a removal was
//! too early, twice as many windows must pass before the next one, so that the numbers do not swing. If it was missed
//! only long after, half as many must pass, though never fewer than at first.
//!
//! The order never depends on either number.

use std::time::Duration;

/// The shortest window: a shorter one measures mostly chance.
const WINDOW: Duration = Duration::from_millis(50);

/// The fewest batches of a window.
const BATCHES: u32 = 4;

/// A consumer that waits for more than this share of its time counts as waiting.
const WAITS: f64 = 0.004;

/// The share of their time that workers may be at work while nobody waits.
const LOAD: f64 = 0.7;

/// Windows in a row without a wait before a worker is removed.
const CALM: u32 = 8;

/// The same for the depth.
const CALM_DEPTH: u32 = 64;

/// The most windows that a removal ever waits for.
const CALMEST: u32 = 512;

/// The first depth, if there is room.
const FIRST_DEPTH: usize = 4;

/// The least depth that is chosen: one batch is taken while the next one is made.
const LEAST_DEPTH: usize = 2;

/// The range that a number is chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Fixed(usize),
    /// From 1 to this.
    Auto(usize),
}

impl Range {
    /// The largest number of the range.
    pub(crate) fn most(self) -> usize {
        match self {
            Self::Fixed(most) | Self::Auto(most) => most,
        }
    }

    fn clamp(self, number: usize) -> usize {
        match self {
            Self::Fixed(fixed) => fixed,
            Self::Auto(most) => number.clamp(1, most),
        }
    }
}

/// Totals since the stream was opened, taken when a batch has been made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observation {
    pub(crate) at: Duration,
    /// How long the consumer waited for batches.
    pub(crate) waited: Duration,
    /// How long finished batches waited for room.
    pub(crate) full: Duration,
    /// How long workers worked, all together.
    pub(crate) worked: Duration,
    /// How many batches are queued now.
    pub(crate) queued: usize,
}

/// The numbers from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) workers: usize,
    pub(crate) depth: usize,
}

#[derive(Debug)]
pub(crate) struct Tuner {
    workers: Range,
    depth: Range,
    now: Decision,
    /// The observation that the window began with.
    begin: Observation,
    batches: u32,
    /// The fewest batches that waited in the window, and since the last wait.
    fewest: usize,
    spare: usize,
    fewer_workers: Patience,
    less_depth: Patience,
}

/// How long the consumer must not have waited before something is removed.
#[derive(Debug)]
struct Patience {
    calm: u32,
    needed: u32,
    /// The first value of `needed`, which it never goes below.
    least: u32,
    /// Windows since something was removed that has not been needed again yet.
    since: Option<u32>,
}

impl Patience {
    const fn new(least: u32) -> Self {
        Self { calm: 0, needed: least, least, since: None }
    }

    /// Counts a window that has passed.
    fn pass(&mut self) {
        self.since = self.since.map(|windows| windows.saturating_add(1));
    }

    /// Counts a window without need, and returns whether it is time to remove something.
    fn is_over(&mut self) -> bool {
        self.calm += 1;
        if self.calm < self.needed {
            return false;
        }
        (self.calm, self.since) = (0, Some(0));
        true
    }

    /// Notes a window that needed it.
    fn is_needed(&mut self) {
        self.calm = 0;
        match self.since.take() {
            // It was removed only recently: that was too early.
            Some(windows) if windows <= 2 * self.needed => self.needed = (2 * self.needed).min(CALMEST),
            Some(_) => self.needed = (self.needed / 2).max(self.least),
            None => {}
        }
    }
}

impl Tuner {
    /// Begins with all workers, so that the first batches come soon, and some depth.
    pub(crate) fn new(workers: Range, depth: Range) -> Self {
        let now = Decision { workers: workers.most(), depth: depth.clamp(FIRST_DEPTH) };
        Self {
            workers,
            depth,
            now,
            begin: Observation::default(),
            batches: 0,
            fewest: usize::MAX,
            spare: usize::MAX,
            fewer_workers: Patience::new(CALM),
            less_depth: Patience::new(CALM_DEPTH),
        }
    }

    /// Whether there is nothing to choose.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!((self.workers, self.depth), (Range::Fixed(_), Range::Fixed(_)))
    }

    /// The numbers in use now.
    pub(crate) fn now(&self) -> Decision {
        self.now
    }

    /// Observes a batch that has been made. Returns the new numbers, if they change.
    pub(crate) fn observe(&mut self, seen: Observation) -> Option<Decision> {
        self.batches += 1;
        self.fewest = self.fewest.min(seen.queued);
        let lasted = seen.at.saturating_sub(self.begin.at);
        if lasted < WINDOW || self.batches < BATCHES {
            return None;
        }
        let share = |of: fn(&Observation) -> Duration| {
            of(&seen).saturating_sub(of(&self.begin)).as_secs_f64() / lasted.as_secs_f64()
        };
        let (waited, full, worked) = (share(|o| o.waited), share(|o| o.full), share(|o| o.worked));
        let is_first = self.begin.at.is_zero();
        let fewest = std::mem::replace(&mut self.fewest, usize::MAX);
        (self.begin, self.batches) = (seen, 0);
        // The consumer's wait for the first batch says nothing about later ones.
        if is_first {
            return None;
        }
        self.fewer_workers.pass();
        self.less_depth.pass();
        let before = self.now;
        if waited > WAITS {
            self.grow(full, worked)
        } else {
            self.shrink(fewest, worked)
        }
        (self.now != before).then_some(self.now)
    }

    fn grow(&mut self, full: f64, worked: f64) {
        self.spare = usize::MAX;
        // More workers do not help a slow disk.
        if worked > LOAD * self.now.workers as f64 {
            self.now.workers = self.workers.clamp(2 * self.now.workers);
            self.fewer_workers.is_needed();
        }
        // There was time to work ahead, but no room.
        if full > WAITS {
            self.now.depth = self.depth.clamp(4 * self.now.depth);
            self.less_depth.is_needed();
        }
    }

    fn shrink(&mut self, fewest: usize, worked: f64) {
        let enough = (worked / LOAD).ceil().max(1.0) as usize;
        if enough < self.now.workers && self.fewer_workers.is_over() {
            self.now.workers = self.workers.clamp(self.now.workers - 1);
        }
        self.spare = self.spare.min(fewest);
        // Batches that were always queued were not needed, except two that absorb delays.
        if self.spare > LEAST_DEPTH && self.now.depth > LEAST_DEPTH && self.less_depth.is_over() {
            self.now.depth = self.depth.clamp(self.now.depth - 1);
            self.spare = usize::MAX;
        }
    }
}

#[cfg(test)]
mod tests;
