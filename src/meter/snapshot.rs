//! Counters at one moment.

use serde::Serialize;

/// One stage's counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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
    /// How many of them it holds at most; 0 if there is no bound.
    pub capacity: u64,
    /// How many threads it works on at most; 0 if it runs within `prefetch`'s task.
    pub workers: u64,
    /// How many of them work now.
    pub workers_busy: u64,
}

/// What remote files cost, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StoreMeter {
    /// How many requests are under way now.
    pub requests: u64,
    /// How many may be: `store.concurrency`.
    pub concurrency: u64,
    /// How often the source waited for bytes that were asked for.
    pub waits: u64,
    /// How long, in seconds, summed over lanes.
    pub wait_seconds: f64,
    /// How many requests were under way at the beginning of each of these waits, summed up.
    pub requests_at_waits: u64,
}

/// What the consumer waited for, in seconds; together they are all that it waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// For documents to be read.
    pub source: f64,
    /// For memory to read them into.
    pub memory: f64,
    /// For a stage of one's own that had documents and gave none.
    pub own: f64,
    /// For documents to be tokenized.
    pub tokenize: f64,
    /// For a token cache to take them.
    pub cache: f64,
    /// For the task that makes batches, which was at work.
    pub work: f64,
}

impl Waits {
    /// By cause, in the order of the journey.
    pub fn by_cause(&self) -> [(&'static str, f64); 6] {
        [
            ("source", self.source),
            ("memory", self.memory),
            ("own", self.own),
            ("tokenize", self.tokenize),
            ("cache", self.cache),
            ("work", self.work),
        ]
    }

    pub(super) fn minus(&self, earlier: &Self) -> Self {
        Self {
            source: self.source - earlier.source,
            memory: self.memory - earlier.memory,
            own: self.own - earlier.own,
            tokenize: self.tokenize - earlier.tokenize,
            cache: self.cache - earlier.cache,
            work: self.work - earlier.work,
        }
    }
}

/// What the loader was opened with, as far as it decides what helps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Setting {
    /// How many threads the machine runs at once.
    pub cores: usize,
    /// Whether the workers and the depth are left to the loader.
    pub is_tuned: (bool, bool),
    /// `pipeline.lanes`, as far as they are this rank's.
    pub lanes: usize,
    /// How many of this rank's lanes can have a split of one source in an epoch.
    pub splits: usize,
    /// `pipeline.window`.
    pub window: usize,
    /// Whether rows are packed by best fit.
    pub is_best_fit: bool,
    /// The stages of one's own.
    pub own_stages: Vec<String>,
    /// Whether the documents are one's own.
    pub has_own_documents: bool,
    /// Whether text is tokenized of which the ids could be kept, and are not.
    pub can_keep_tokens: bool,
    /// Whether what is fetched from stores is kept.
    pub has_store_cache: bool,
    /// Whether the runtime has one thread: nothing is made while the consumer blocks it.
    pub is_one_thread: bool,
}

/// All of a loader's counters at one moment, or [between two](Meters::since).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Meters {
    /// Time since the loader was opened, in seconds.
    pub wall_seconds: f64,
    /// Time since the first batch had come, in seconds.
    pub consumed_seconds: f64,
    /// Time that the consumer spent in `next()` until the first batch came, in seconds.
    pub first_wait_seconds: f64,
    /// What it waited for then.
    pub first_waits: Waits,
    /// Time that the consumer spent in `next()`, in seconds, after the first batch had come. A `next()` that
    /// was given up counts until a later one gets its batch.
    pub consumer_wait_seconds: f64,
    /// The share of the time since the first batch that the consumer spent in `next()`, from 0 to 1.
    pub wait_share: f64,
    /// The stage that the consumer waited for most; none if it never waited after the first batch.
    pub at_fault: Option<&'static str>,
    /// What it waited for.
    pub waits: Waits,
    /// How many batches it took.
    pub batches: u64,
    /// How many of them when the queue was full: nothing more could be made ahead of it.
    pub batches_of_full: u64,
    /// Whether the stream has ended.
    pub has_ended: bool,
    /// Bytes of text and ids in flight.
    pub bytes_in_flight: u64,
    /// The most there ever were.
    pub peak_bytes_in_flight: u64,
    /// The budget, which the lanes and their sources share.
    pub budget_bytes: u64,
    /// Bytes in flight of the lane and source that have most of their share in flight.
    pub fullest_bytes_in_flight: u64,
    /// Their share.
    pub fullest_budget_bytes: u64,
    /// The stores; none if all files are local.
    pub store: Option<StoreMeter>,
    /// What the loader was opened with.
    pub setting: Setting,
    /// The stages, in the order of the journey.
    pub stages: Vec<StageMeter>,
}

impl StageMeter {
    /// How many workers it has, or had before they became fewer: as many at least as worked at once over `wall` seconds.
    pub(super) fn workers_at_most(&self, wall: f64) -> u64 {
        let worked = if wall > 0.0 { (self.busy_seconds / wall).ceil() as u64 } else { 0 };
        // What rounds to nothing is no worker.
        if worked > self.workers && self.busy_seconds > 1.01 * self.workers as f64 * wall {
            worked
        } else {
            self.workers
        }
    }
}

impl Meters {
    /// One stage's counters; none if the loader has no such stage.
    pub fn stage(&self, name: &str) -> Option<&StageMeter> {
        self.stages.iter().find(|stage| stage.stage == name)
    }
}

/// A part of a whole, from 0 to 1.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
