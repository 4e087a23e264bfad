//! How many workers tokenize and how many batches wait ahead, found while the loader runs.
//!
//! What goes in is what was seen since the last time: what the consumer waited, what the pipeline waited for room,
//! what the workers worked. What comes out is a number of workers and a depth. There is no clock in here.
//!
//! A consumer that waits gets more at once: twice the workers, where all of them are at work, and four times the depth,
//! where the queue was full before it was empty. What is not needed goes slowly: workers after [`CALM`] windows in
//! which nobody waited and fewer would have had the time for the same work, a batch of the depth where so many of them
//! were always there, and later still, since a consumer's slow times are when what waits is made. Where something was
//! taken away too early, twice as many windows must pass before the next time, so that it does not swing; and half as
//! many, though no fewer than at first, where it was missed only long after.
//!
//! The order never hangs on either number.

use std::time::Duration;

/// The least that one window lasts: below it, chance is most of what is seen.
const WINDOW: Duration = Duration::from_millis(50);

/// Batches of one window at least.
const BATCHES: u32 = 4;

/// From this share of its time on, the consumer waits.
const WAITS: f64 = 0.004;

/// The share of their time that the workers may be at work where nobody waits.
const LOAD: f64 = 0.7;

/// Windows in a row without a wait before anything goes.
const CALM: u32 = 8;

/// The same for the depth.
const CALM_DEPTH: u32 = 64;

/// It never takes more of them than this.
const CALMEST: u32 = 512;

/// The depth that it begins with, if there is room.
const FIRST_DEPTH: usize = 4;

/// No depth that it chose is less: one batch is taken while the next one is made.
const LEAST_DEPTH: usize = 2;

/// Within what a number is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Fixed(usize),
    /// From 1 to this.
    Auto(usize),
}

impl Range {
    /// The largest number that it can be.
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

/// All that was seen since the stream was opened, when a batch has been made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observation {
    pub(crate) at: Duration,
    /// What the consumer waited for batches.
    pub(crate) waited: Duration,
    /// What finished batches waited for room.
    pub(crate) full: Duration,
    /// What workers worked, all together.
    pub(crate) worked: Duration,
    /// How many batches wait now.
    pub(crate) queued: usize,
}

/// What is to be from now on.
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

/// How long nothing may have been waited for before something goes.
#[derive(Debug)]
struct Patience {
    calm: u32,
    needed: u32,
    /// What `needed` was at first, which it is never less than.
    least: u32,
    /// Windows since it took something away that was not needed again yet.
    since: Option<u32>,
}

impl Patience {
    const fn new(least: u32) -> Self {
        Self { calm: 0, needed: least, least, since: None }
    }

    /// A window has passed.
    fn pass(&mut self) {
        self.since = self.since.map(|windows| windows.saturating_add(1));
    }

    /// It was a window without need; whether it is time.
    fn is_over(&mut self) -> bool {
        self.calm += 1;
        if self.calm < self.needed {
            return false;
        }
        (self.calm, self.since) = (0, Some(0));
        true
    }

    /// It was a window in which it was needed.
    fn is_needed(&mut self) {
        self.calm = 0;
        match self.since.take() {
            // It was just taken away: that was too early.
            Some(windows) if windows <= 2 * self.needed => self.needed = (2 * self.needed).min(CALMEST),
            Some(_) => self.needed = (self.needed / 2).max(self.least),
            None => {}
        }
    }
}

impl Tuner {
    /// All workers, so that the first batches come soon, and some depth.
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

    /// What is to be now.
    pub(crate) fn now(&self) -> Decision {
        self.now
    }

    /// Takes notice of a batch that has been made; what is to be, if that changes.
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
        // The consumer's wait for the first batch says nothing of those that follow.
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
        // A disk that is slow is helped by no worker.
        if worked > LOAD * self.now.workers as f64 {
            self.now.workers = self.workers.clamp(2 * self.now.workers);
            self.fewer_workers.is_needed();
        }
        // There was time to work ahead, and no room.
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
        // Those that were always there were there for nothing, but for two that others' delays may take.
        if self.spare > LEAST_DEPTH && self.now.depth > LEAST_DEPTH && self.less_depth.is_over() {
            self.now.depth = self.depth.clamp(self.now.depth - 1);
            self.spare = usize::MAX;
        }
    }
}

#[cfg(test)]
mod tests;
