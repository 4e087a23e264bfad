//! Counters at one moment.

use std::borrow::Cow;

use serde::Serialize;

use super::blame::CAUSES;

/// One stage's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageMeter {
    /// The stage's name.
    pub stage: Cow<'static, str>,
    /// Whether it is a custom stage.
    pub is_custom: bool,
    /// Documents delivered, or packed; 0 for the later stages, which have no documents.
    pub documents: u64,
    /// Documents skipped.
    pub skipped: u64,
    /// Tokens delivered.
    pub tokens: u64,
    /// Bytes of text delivered.
    pub bytes: u64,
    /// Time spent working, in seconds, summed over workers.
    pub busy_seconds: f64,
    /// Time that the pipeline waited for a custom stage that had input and gave nothing yet, in seconds.
    pub awaited_seconds: f64,
    /// Time with room to work and nothing to work on, in seconds. The stages between `tokenize` and
    /// `prefetch` run within `prefetch`'s tasks: in a loader all of them wait when the next batch does.
    pub wait_in_seconds: f64,
    /// Time with finished work that nobody took, in seconds.
    pub wait_out_seconds: f64,
    /// How much it holds now: reads, groups, documents or batches, whichever it passes on.
    pub queued: u64,
    /// How many of these it holds at most; 0 if there is no bound.
    pub capacity: u64,
    /// How many threads it works on at most; 0 if it runs within `prefetch`'s tasks.
    pub workers: u64,
    /// How many of these threads work now.
    pub workers_busy: u64,
}

/// The requests and waits of remote files, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StoreMeter {
    /// How many requests are under way now.
    pub requests: u64,
    /// The limit on requests: `store.concurrency`.
    pub concurrency: u64,
    /// How often the source waited for bytes it had requested.
    pub waits: u64,
    /// How long it waited, in seconds, summed over lanes.
    pub wait_seconds: f64,
    /// How many requests were under way at the beginning of each wait, summed up.
    pub requests_at_waits: u64,
}

/// The causes of the consumer's waits, in seconds. Together these are all of its waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// For documents to be read.
    pub source: f64,
    /// For memory to read them into.
    pub memory: f64,
    /// For a custom stage that had input and gave nothing yet.
    pub own: f64,
    /// For documents to be tokenized.
    pub tokenize: f64,
    /// For a token cache to take what was tokenized.
    pub cache: f64,
    /// For the tasks that make rows and batches, which were working.
    pub work: f64,
}

impl Waits {
    /// Returns the waits by cause, in the order of data flow.
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

    fn minus(&self, earlier: &Self) -> Self {
        let (now, before) = (self.by_cause(), earlier.by_cause());
        std::array::from_fn(|cause| now[cause].1 - before[cause].1).into()
    }
}

impl From<[f64; CAUSES]> for Waits {
    fn from([source, memory, own, tokenize, cache, work]: [f64; CAUSES]) -> Self {
        Self { source, memory, own, tokenize, cache, work }
    }
}

/// Which settings the loader chooses by itself. Serialized as a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "(bool, bool)")]
pub struct Tuned {
    /// `pipeline.workers`.
    pub workers: bool,
    /// `pipeline.depth`.
    pub depth: bool,
}

impl From<Tuned> for (bool, bool) {
    fn from(Tuned { workers, depth }: Tuned) -> Self {
        (workers, depth)
    }
}

/// The settings that the remedy depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Setting {
    /// How many threads the machine runs at once.
    pub cores: usize,
    /// The settings that the loader chooses by itself.
    #[serde(rename = "is_tuned")]
    pub tuned: Tuned,
    /// This rank's share of `pipeline.lanes`.
    pub lanes: usize,
    /// How many of this rank's lanes can get a split of one source in an epoch.
    pub splits: usize,
    /// `pipeline.window`.
    pub window: usize,
    /// Whether rows are packed by best fit.
    pub is_best_fit: bool,
    /// The names of the custom stages, in the order of data flow.
    pub own_stages: Vec<String>,
    /// Whether the program makes the documents.
    pub has_own_documents: bool,
    /// Whether text is tokenized whose ids could be cached, but are not.
    pub can_keep_tokens: bool,
    /// Whether files fetched from stores are cached.
    pub has_store_cache: bool,
    /// Whether the runtime has only one thread: no batch is made while the consumer blocks it.
    pub is_one_thread: bool,
}

/// All counters of a loader at one moment, or [between two moments](Meters::since).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Meters {
    /// Time since the loader was opened, in seconds.
    pub wall_seconds: f64,
    /// Time since the first batch came, in seconds.
    pub consumed_seconds: f64,
    /// Time that the consumer spent in `next()` until the first batch came, in seconds.
    pub first_wait_seconds: f64,
    /// What the consumer waited for during that time.
    pub first_waits: Waits,
    /// Time that the consumer spent in `next()` after the first batch came, in seconds. A `next()` that was dropped
    /// counts until a later one gets its batch.
    pub consumer_wait_seconds: f64,
    /// The share of the time since the first batch that the consumer spent in `next()`, from 0 to 1.
    pub wait_share: f64,
    /// The stage that the consumer waited for most; `None` if it never waited after the first batch.
    pub at_fault: Option<&'static str>,
    /// What the consumer waited for after the first batch.
    pub waits: Waits,
    /// How many batches the consumer took.
    pub batches: u64,
    /// How many of these it took from a full queue, when no more could be made ahead.
    pub batches_of_full: u64,
    /// Whether the stream has ended.
    pub has_ended: bool,
    /// Bytes of text and ids in flight.
    pub bytes_in_flight: u64,
    /// The highest number of such bytes so far.
    pub peak_bytes_in_flight: u64,
    /// The budget, which the lanes and their sources share.
    pub budget_bytes: u64,
    /// Bytes in flight of the lane and source that have used most of their share.
    pub fullest_bytes_in_flight: u64,
    /// The share of that lane and source.
    pub fullest_budget_bytes: u64,
    /// The stores; `None` if all files are local.
    pub store: Option<StoreMeter>,
    /// The settings that the loader was opened with.
    pub setting: Setting,
    /// The stages, in the order of data flow.
    pub stages: Vec<StageMeter>,
}

impl StageMeter {
    /// The number of workers, or the earlier number if there are fewer now: at least as many as worked at once over
    /// `wall` seconds.
    pub(super) fn workers_at_most(&self, wall: f64) -> u64 {
        let worked = if wall > 0.0 { (self.busy_seconds / wall).ceil() as u64 } else { 0 };
        // Ignore differences from rounding.
        if worked > self.workers && self.busy_seconds > 1.01 * self.workers as f64 * wall {
            worked
        } else {
            self.workers
        }
    }
}

impl Meters {
    /// Returns the counters between `earlier`, another snapshot of the same loader, and this one. Values that are not
    /// counters, such as queues and peaks, are those of this snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut between = self.clone();
        between.wall_seconds -= earlier.wall_seconds;
        between.consumed_seconds -= earlier.consumed_seconds;
        between.first_wait_seconds -= earlier.first_wait_seconds;
        between.consumer_wait_seconds -= earlier.consumer_wait_seconds;
        between.wait_share = share(between.consumer_wait_seconds, between.consumed_seconds);
        between.batches -= earlier.batches;
        between.batches_of_full -= earlier.batches_of_full;
        between.first_waits = self.first_waits.minus(&earlier.first_waits);
        between.waits = self.waits.minus(&earlier.waits);
        if let (Some(store), Some(earlier)) = (&mut between.store, &earlier.store) {
            store.waits -= earlier.waits;
            store.wait_seconds -= earlier.wait_seconds;
            store.requests_at_waits -= earlier.requests_at_waits;
        }
        for (stage, earlier) in between.stages.iter_mut().zip(&earlier.stages) {
            stage.documents -= earlier.documents;
            stage.skipped -= earlier.skipped;
            stage.tokens -= earlier.tokens;
            stage.bytes -= earlier.bytes;
            stage.busy_seconds -= earlier.busy_seconds;
            stage.awaited_seconds -= earlier.awaited_seconds;
            stage.wait_in_seconds -= earlier.wait_in_seconds;
            stage.wait_out_seconds -= earlier.wait_out_seconds;
        }
        between.blame();
        between
    }

    /// One stage's counters; none if the loader has no such stage. A custom stage that has the name of one of the
    /// loader's stages is only in [`stages`](Self::stages).
    pub fn stage(&self, name: &str) -> Option<&StageMeter> {
        let mut named = self.stages.iter().filter(|stage| stage.stage == name);
        named.clone().find(|stage| !stage.is_custom).or_else(|| named.next())
    }

    /// The counters of the custom stages, in the order of data flow.
    pub(super) fn custom(&self) -> impl Iterator<Item = &StageMeter> {
        self.stages.iter().filter(|stage| stage.is_custom)
    }
}

/// A part of a whole, from 0 to 1.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meters(factor: u64) -> Meters {
        let f = factor as f64;
        let waits = Waits { source: f, memory: f, own: f, tokenize: 3.0 * f, cache: f, work: f };
        let stage = StageMeter {
            stage: "tokenize".into(),
            is_custom: false,
            documents: 10 * factor,
            skipped: factor,
            tokens: 100 * factor,
            bytes: 1000 * factor,
            busy_seconds: f,
            awaited_seconds: f,
            wait_in_seconds: f,
            wait_out_seconds: f,
            queued: factor,
            capacity: 4,
            workers: 2,
            workers_busy: factor,
        };
        Meters {
            wall_seconds: 20.0 * f,
            consumed_seconds: 16.0 * f,
            consumer_wait_seconds: 8.0 * f,
            wait_share: 0.9,
            waits,
            batches: 10 * factor,
            batches_of_full: factor,
            store: Some(StoreMeter {
                waits: factor,
                wait_seconds: f,
                requests_at_waits: 8 * factor,
                ..StoreMeter::default()
            }),
            stages: vec![stage],
            ..Meters::default()
        }
    }

    #[test]
    fn the_difference_of_two_has_what_was_counted_between_them() {
        let expected = Meters { wait_share: 0.5, at_fault: Some("tokenize"), ..meters(2) };
        let mut between = meters(3).since(&meters(1));
        // A gauge keeps its current value.
        assert_eq!((between.stages[0].queued, between.stages[0].workers_busy), (3, 3));
        (between.stages[0].queued, between.stages[0].workers_busy) = (2, 2);
        assert_eq!(between, expected);
    }
}
