//! The meters of one loader, its budgets, and what its consumer waits.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::meter::{Interval, Meter, Meters, StageMeter};

/// What one lane's chains count in: the meters of all lanes, and the lane's own budgets.
#[derive(Clone, Debug)]
pub(super) struct LaneGauge {
    pub(super) source: Arc<Meter>,
    pub(super) tokenize: Arc<Meter>,
    pub(super) shuffle: Arc<Meter>,
    pub(super) pack: Arc<Meter>,
    /// One for each source.
    pub(super) budgets: Vec<Arc<Budget>>,
}

#[derive(Debug)]
pub(super) struct Gauge {
    source: Arc<Meter>,
    pub(super) tokenize: Arc<Meter>,
    shuffle: Arc<Meter>,
    pack: Arc<Meter>,
    pub(super) batch: Arc<Meter>,
    pub(super) prefetch: Arc<Meter>,
    /// One for each own lane and source: what one holds never keeps another from going on.
    budgets: Vec<Vec<Arc<Budget>>>,
    /// How many ranks share the lanes.
    world: usize,
    opened: Instant,
    first: Option<Instant>,
    waiting: Interval,
    waited: Duration,
}

impl Gauge {
    /// The meters of a rank of `world`; `budgets` has those of each source, for each of its lanes.
    pub(super) fn new((budgets, world): (Vec<Vec<Arc<Budget>>>, usize)) -> Self {
        Self {
            source: Meter::new("source"),
            tokenize: Meter::new("tokenize"),
            shuffle: Meter::new("shuffle"),
            pack: Meter::new("pack"),
            batch: Meter::new("batch"),
            prefetch: Meter::new("prefetch"),
            budgets,
            world,
            opened: Instant::now(),
            first: None,
            waiting: Interval::default(),
            waited: Duration::ZERO,
        }
    }

    /// What one lane's chains count in.
    pub(super) fn of_lane(&self, lane: usize) -> LaneGauge {
        LaneGauge {
            source: self.source.clone(),
            tokenize: self.tokenize.clone(),
            shuffle: self.shuffle.clone(),
            pack: self.pack.clone(),
            budgets: self.budgets[lane / self.world].clone(),
        }
    }

    /// Notes what the consumer got when it asked for a batch.
    pub(super) fn polled<T>(&mut self, next: &Poll<Option<T>>) {
        if next.is_pending() {
            self.waiting.begin();
            return;
        }
        let waited = self.waiting.end();
        match self.first {
            None => self.first = Some(Instant::now()),
            Some(_) => self.waited += waited,
        }
    }

    pub(super) fn snapshot(&self) -> Meters {
        let stages = [&self.source, &self.tokenize, &self.shuffle, &self.pack, &self.batch, &self.prefetch];
        let mut stages: Vec<StageMeter> = stages.iter().map(|meter| meter.snapshot()).collect();
        // These run within prefetch's task: they wait when it does, for the same.
        let task = self.prefetch.snapshot();
        for stage in stages.iter_mut().filter(|stage| ["shuffle", "pack", "batch"].contains(&stage.stage)) {
            stage.wait_in_seconds = task.wait_in_seconds;
            stage.wait_out_seconds = task.wait_out_seconds;
        }
        let consumed = self.first.map_or(0.0, |first| first.elapsed().as_secs_f64());
        let waited = self.waited.as_secs_f64();
        let total =
            |of: fn(&Budget) -> usize| self.budgets.iter().flatten().map(|budget| of(budget) as u64).sum();
        Meters {
            wall_seconds: self.opened.elapsed().as_secs_f64(),
            consumer_wait_seconds: waited,
            wait_share: if consumed > 0.0 { (waited / consumed).min(1.0) } else { 0.0 },
            at_fault: (waited > 0.0).then(|| self.slowest()),
            bytes_in_flight: total(Budget::used),
            peak_bytes_in_flight: total(Budget::peak),
            budget_bytes: total(Budget::limit),
            stages,
        }
    }

    /// The stage that the task behind `prefetch` spent most of its time on or waiting for.
    fn slowest(&self) -> &'static str {
        let (tokenize, prefetch) = (self.tokenize.snapshot(), self.prefetch.snapshot());
        let waits = [
            ("source", tokenize.wait_in_seconds),
            ("tokenize", prefetch.wait_in_seconds - tokenize.wait_in_seconds),
            ("batch", prefetch.busy_seconds),
        ];
        let longest = waits.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        longest.map_or("batch", |(stage, _)| stage)
    }
}
