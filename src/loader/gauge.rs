//! The meters of one loader, its budgets, and how long its consumer waits.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::Span;

use super::custom::CustomStages;
use crate::budget::Budget;
use crate::config::{Config, OrAuto, PackRule};
use crate::cursor::{Cursor, Ledger};
use crate::meter::{
    CAUSES, Chain, CustomMeters, Interval, Meter, Meters, Setting, Skipped, StageMeter, Tuned, share,
    stage_span,
};
use crate::source::{AHEAD, Origin, Source};
use crate::stage::{LeftBehind, SPARE_JOBS, Workers};
use crate::store::Stores;
use crate::threads::lock;
use crate::world::World;

#[derive(Debug)]
pub(super) struct Gauge {
    pub(super) source: Arc<Meter>,
    pub(super) custom: CustomMeters,
    pub(super) tokenize: Arc<Meter>,
    pub(super) shuffle: Arc<Meter>,
    pub(super) pack: Arc<Meter>,
    pub(super) batch: Arc<Meter>,
    pub(super) prefetch: Arc<Meter>,
    pub(super) chain: Arc<Chain>,
    /// One for each own lane and source, so that no lane or source blocks another.
    budgets: Vec<Vec<Arc<Budget>>>,
    /// What each own lane has left out of each source behind its last row.
    left_behind: Vec<Vec<LeftBehind>>,
    /// The cursor at the end of the stream, if its last batches are excluded.
    pub(super) excluded_end: Arc<OnceLock<Arc<Cursor>>>,
    /// How many ranks share the lanes.
    world: usize,
    workers: Workers,
    stores: Option<Arc<Stores>>,
    setting: Setting,
    opened: Instant,
    consumer: Mutex<Consumer>,
}

/// The consumer's batches and waits.
#[derive(Debug, Default)]
struct Consumer {
    first: Option<Instant>,
    before_first: Waited,
    after_first: Waited,
    waiting: Interval,
    /// How long each cause had held batches up when the wait began.
    spent: [u64; CAUSES],
    span: Option<Span>,
    batches: u64,
    of_full: u64,
    has_ended: bool,
}

/// How long the consumer waited, in seconds, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    time: Duration,
    by_cause: [f64; CAUSES],
}

impl Waited {
    /// Adds a wait. `spent` is how long each cause had held batches up before it.
    fn add(&mut self, chain: &Chain, time: Duration, spent: &[u64; CAUSES]) {
        self.time += time;
        let shares = chain.share_out(time, spent);
        self.by_cause.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
    }
}

impl Consumer {
    /// Begins a wait, unless one has begun already.
    fn begin(&mut self, chain: &Chain) {
        if !self.waiting.has_begun() {
            self.waiting.begin();
            self.spent = chain.spent();
            self.span = Some(stage_span!("trainer", "wait"));
        }
    }
}

impl Gauge {
    /// Creates the meters of a rank. `budgets` has the budgets of each own lane, one for each source, and `world` is
    /// the number of ranks.
    pub(super) fn new(
        budgets: Vec<Vec<Arc<Budget>>>,
        world: usize,
        setting: Setting,
        custom: CustomMeters,
        workers: Workers,
        stores: Option<Arc<Stores>>,
    ) -> Self {
        let [source, tokenize, prefetch] = ["source", "tokenize", "prefetch"].map(Meter::new);
        Self {
            chain: Arc::new(Chain::new(&source, &custom, &tokenize, &prefetch)),
            source,
            custom,
            tokenize,
            shuffle: Meter::new("shuffle"),
            pack: Meter::new("pack"),
            batch: Meter::new("batch"),
            prefetch,
            left_behind: budgets
                .iter()
                .map(|lane| lane.iter().map(|_| LeftBehind::default()).collect())
                .collect(),
            excluded_end: Arc::default(),
            budgets,
            world,
            workers,
            stores,
            setting,
            opened: Instant::now(),
            consumer: Mutex::default(),
        }
    }

    pub(super) fn budget(&self, lane: usize, source: usize) -> &Arc<Budget> {
        &self.budgets[lane / self.world][source]
    }

    /// Whether the stream has ended without an error.
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.consumer).has_ended
    }

    pub(super) fn left_behind(&self, lane: usize, source: usize) -> &LeftBehind {
        &self.left_behind[lane / self.world][source]
    }

    /// The ledger at the end of the stream, whose last batch has the cursor `last`: with what was left out behind the last
    /// rows of those own lanes that have delivered all of theirs.
    pub(super) fn ledger_at_end(&self, last: &Cursor) -> Ledger {
        let last = self.excluded_end.get().map_or(last, |end| end);
        let mut ledger = last.ledger();
        for (lane, left_behind) in last.known_lanes().zip(&self.left_behind) {
            for (nth, left_behind) in left_behind.iter().enumerate() {
                let left_out = left_behind.lock().counted(last.own(lane), nth);
                let (name, source) = &mut ledger.sources[nth];
                *source += left_out.all;
                if let Some(values) = &left_out.values {
                    let name = name.clone();
                    ledger.add_values(&name, values);
                }
            }
        }
        ledger
    }

    /// Notes that the consumer asks for a batch that is made while it waits.
    pub(super) fn asked(&self) {
        lock(&self.consumer).begin(&self.chain);
    }

    /// Notes the answer to the consumer's request for a batch, and whether the queue was full at that moment. The queue
    /// holds `queued` now.
    pub(super) fn polled<T>(&self, next: &Poll<Option<T>>, was_full: bool, queued: usize) {
        let consumer = &mut *lock(&self.consumer);
        if next.is_pending() {
            consumer.begin(&self.chain);
            return;
        }
        let waited = consumer.waiting.end();
        consumer.span = None;
        let is_first = consumer.first.is_none();
        consumer.first.get_or_insert_with(Instant::now);
        if !waited.is_zero() {
            let sum = if is_first { &mut consumer.before_first } else { &mut consumer.after_first };
            sum.add(&self.chain, waited, &consumer.spent);
        }
        if matches!(next, Poll::Ready(Some(_))) {
            consumer.batches += 1;
            consumer.of_full += u64::from(was_full);
            self.prefetch.set_queued(queued);
        } else {
            consumer.has_ended = true;
        }
    }

    pub(super) fn snapshot(&self) -> Meters {
        let mut meters = self.consumed();
        let total =
            |of: fn(&Budget) -> usize| self.budgets.iter().flatten().map(|budget| of(budget) as u64).sum();
        meters.wall_seconds = self.opened.elapsed().as_secs_f64();
        meters.bytes_in_flight = total(Budget::used);
        meters.peak_bytes_in_flight = total(Budget::peak);
        meters.budget_bytes = total(Budget::limit);
        let full = |budget: &Budget| budget.used() as f64 / budget.limit().max(1) as f64;
        let budgets = self.budgets.iter().flatten();
        if let Some(fullest) = budgets.max_by(|a, b| full(a).total_cmp(&full(b))) {
            meters.fullest_bytes_in_flight = fullest.used() as u64;
            meters.fullest_budget_bytes = fullest.limit() as u64;
        }
        meters.store = self.stores.as_ref().map(|stores| stores.meter());
        meters.setting = self.setting.clone();
        meters.stages = self.stages();
        meters.blame();
        meters
    }

    /// The consumer's counts and waits, including a wait that still lasts.
    fn consumed(&self) -> Meters {
        let consumer = lock(&self.consumer);
        let (mut first, mut later) = (consumer.before_first, consumer.after_first);
        if consumer.waiting.has_begun() {
            let waited = if consumer.first.is_some() { &mut later } else { &mut first };
            waited.add(&self.chain, consumer.waiting.elapsed(), &consumer.spent);
        }
        let consumed = consumer.first.map_or(0.0, |first| first.elapsed().as_secs_f64());
        let waited = later.time.as_secs_f64();
        Meters {
            consumed_seconds: consumed,
            first_wait_seconds: first.time.as_secs_f64(),
            first_waits: first.by_cause.into(),
            consumer_wait_seconds: waited,
            waits: later.by_cause.into(),
            wait_share: share(waited, consumed),
            batches: consumer.batches,
            batches_of_full: consumer.of_full,
            has_ended: consumer.has_ended,
            ..Meters::default()
        }
    }

    fn stages(&self) -> Vec<StageMeter> {
        let chains = self.budgets.iter().map(Vec::len).sum::<usize>();
        let window = self.setting.window;
        self.source.set_workers(chains);
        self.source.set_capacity(AHEAD * chains);
        self.tokenize.set_workers(self.workers.count());
        self.tokenize.set_capacity(self.workers.ahead(SPARE_JOBS) * chains);
        self.shuffle.set_capacity(window.saturating_mul(chains));
        self.prefetch.set_workers(self.threads());
        let custom = &self.custom;
        let stages = std::iter::once(&self.source).chain(custom.documents()).chain([&self.tokenize]);
        let stages = stages.chain(custom.tokens()).chain([&self.shuffle, &self.pack]).chain(custom.rows());
        let stages = stages.chain([&self.batch, &self.prefetch]);
        let mut stages: Vec<StageMeter> = stages.map(|meter| meter.snapshot()).collect();
        // These run within prefetch's tasks, so they wait when these do, for the same reason.
        let task = self.prefetch.snapshot();
        let is_within =
            |stage: &StageMeter| !stage.is_custom && ["shuffle", "pack", "batch"].contains(&&*stage.stage);
        for stage in stages.iter_mut().filter(|stage| is_within(stage)) {
            stage.wait_in_seconds = task.wait_in_seconds;
            stage.wait_out_seconds = task.wait_out_seconds;
        }
        stages
    }

    /// How many threads the tasks behind `prefetch` work on at most: there is one task for each lane, and one for the
    /// batches.
    fn threads(&self) -> usize {
        let Setting { cores, is_one_thread, .. } = self.setting;
        match is_one_thread || self.workers.is_on_demand() {
            true => 1,
            false => (self.budgets.len() + 1).min(cores.max(1)),
        }
    }
}

/// The settings that advice for a waiting trainer depends on, for a rank in `world`.
pub(super) fn setting(config: &Config, source: &Source, stages: &CustomStages, world: World) -> Setting {
    let pipeline = &config.pipeline;
    let has_own_documents = source.is_custom();
    // Standard input can be read only once, and shards are tokens already.
    let is_text = |index: usize| matches!(source.origin(index), Origin::Files);
    let is_cached = |index: usize| config.sources[index].cache.is_some();
    let can_cache = (0..config.sources.len()).any(|index| is_text(index) && !is_cached(index));
    let most_splits = (0..config.sources.len()).map(|index| source.only(index).splits()).max();
    Setting {
        cores: available_parallelism().map_or(1, usize::from),
        tuned: Tuned { workers: pipeline.workers == OrAuto::Auto, depth: pipeline.depth == OrAuto::Auto },
        lanes: pipeline.lanes() / world.size,
        splits: most_splits.unwrap_or(0).div_ceil(world.size),
        window: pipeline.waiting(),
        is_best_fit: pipeline.pack == PackRule::BestFit,
        can_keep_tokens: can_cache && stages.documents.is_empty() && !has_own_documents,
        own_stages: stages.names(),
        has_own_documents,
        has_store_cache: config.store.cache.is_some(),
        is_one_thread: Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread,
    }
}

/// A handle to a loader's meters. You can read them anywhere while the loader is polled elsewhere, and after it is
/// gone. Clones are cheap and watch the same loader. A handle keeps only the counters alive.
#[derive(Clone)]
pub struct Watch(Arc<Gauge>);

impl Watch {
    pub(super) fn new(gauge: &Arc<Gauge>) -> Self {
        Self(gauge.clone())
    }

    /// Returns the same as [`Loader::meters`](super::Loader::meters).
    pub fn meters(&self) -> Meters {
        self.0.snapshot()
    }

    /// Takes the documents that were skipped since this was last called, by whichever handle, with their reasons: as
    /// they are read, ahead of the batches. Up to 1000 of a stage are kept until then; the [meters](Meters) count all.
    pub fn take_skipped(&self) -> Vec<Skipped> {
        let Gauge { source, tokenize, pack, .. } = &*self.0;
        [source, tokenize, pack].into_iter().flat_map(|stage| stage.take_skipped()).collect()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
