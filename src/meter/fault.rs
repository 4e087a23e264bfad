//! From counters to the cause of the trainer's wait.

use serde::{Deserialize, Serialize};

use super::snapshot::{Meters, share};

/// Workers that are busy for at least this share of the time are all at work.
pub(super) const FULL: f64 = 0.8;

/// The cause of the trainer's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// Most of the wait was for the first batch; the next ones came at once.
    Start,
    /// Reading and decoding the files.
    Source,
    /// The source waits for a store.
    Store,
    /// The source waits for memory.
    Memory,
    /// A custom stage.
    Own,
    /// The tokenizer: all of its workers are busy.
    Tokenize,
    /// Long documents: so few of them that only some workers have one.
    LongDocuments,
    /// The token cache takes tokenized documents too slowly.
    Cache,
    /// The tasks that make rows and batches are busy, mostly with shuffling.
    Shuffle,
    /// The same, with packing.
    Pack,
    /// The same, with copying rows.
    Batch,
    /// The same, with handing documents from stage to stage.
    Documents,
    /// The tasks that make rows and batches had no thread to run on.
    Runtime,
    /// Batches come unevenly: the queue is full at times, and empty at others.
    Depth,
}

impl Fault {
    /// Returns the cause, assuming that there is one.
    pub(super) fn find(meters: &Meters) -> Self {
        let is_first = meters.batches == 0 && meters.first_wait_seconds > meters.consumer_wait_seconds;
        let waits = if is_first { &meters.first_waits } else { &meters.waits };
        let longest = waits.by_cause().into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        // A stage that gets no core looks as slow as one that is busy.
        let is_crowded_out =
            |stage: &str| are_cores_busy(meters) && busy(meters, "tokenize") > busy(meters, stage);
        match longest.map_or("work", |(cause, _)| cause) {
            "source" if is_crowded_out("source") && workers_share(meters, "source") < FULL => {
                Self::of_tokenize(meters)
            }
            "source" => match waits_for_store(meters) {
                true => Self::Store,
                false => Self::Source,
            },
            "memory" => Self::Memory,
            "own" => Self::Own,
            "tokenize" => Self::of_tokenize(meters),
            "cache" => Self::Cache,
            _ if is_crowded_out("prefetch") => Self::of_tokenize(meters),
            _ if meters.setting.is_one_thread => Self::Runtime,
            _ => Self::of_work(meters),
        }
    }

    fn of_tokenize(meters: &Meters) -> Self {
        let is_long = |bytes: u64, documents: u64| documents > 0 && bytes / documents > LONG_DOCUMENT;
        match meters.stage("tokenize") {
            Some(stage)
                if workers_share(meters, "tokenize") < FULL && is_long(stage.bytes, stage.documents) =>
            {
                Self::LongDocuments
            }
            _ => Self::Tokenize,
        }
    }

    /// The stage on which the tasks that make rows and batches spend most of their time.
    fn of_work(meters: &Meters) -> Self {
        let busy = |name: &str| busy(meters, name);
        let documents = if meters.setting.has_own_documents { busy("source") } else { 0.0 };
        let parts = [
            (Self::Source, documents),
            (Self::Own, meters.custom().map(|stage| stage.busy_seconds).sum()),
            (Self::Shuffle, busy("shuffle")),
            (Self::Pack, busy("pack")),
            (Self::Batch, busy("batch")),
        ];
        let rest = busy("prefetch") - parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let parts = parts.into_iter().chain([(Self::Documents, rest)]);
        parts.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Self::Documents, |(fault, _)| fault)
    }

    /// Returns the stage at fault.
    pub fn stage(self) -> &'static str {
        match self {
            Self::Source | Self::Store | Self::Memory => "source",
            Self::Own => "own",
            Self::Tokenize | Self::LongDocuments | Self::Cache => "tokenize",
            Self::Shuffle => "shuffle",
            Self::Pack => "pack",
            Self::Batch => "batch",
            Self::Documents | Self::Runtime | Self::Depth | Self::Start => "prefetch",
        }
    }
}

/// The length of a group of documents, in bytes: a longer document takes one worker's whole job.
const LONG_DOCUMENT: u64 = 512 << 10;

/// How long a stage worked, in seconds.
fn busy(meters: &Meters, stage: &str) -> f64 {
    meters.stage(stage).map_or(0.0, |stage| stage.busy_seconds)
}

/// Whether tokenizing and making batches take all cores. Reading is not counted, because it may wait for a disk.
pub(super) fn are_cores_busy(meters: &Meters) -> bool {
    let busy = busy(meters, "tokenize") + busy(meters, "prefetch");
    meters.setting.cores > 0 && busy >= 0.9 * meters.setting.cores as f64 * meters.wall_seconds
}

/// The share of a stage's workers that were busy, from 0 to 1.
pub(super) fn workers_share(meters: &Meters, stage: &str) -> f64 {
    let stage = meters.stage(stage);
    stage.map_or(0.0, |stage| {
        let workers = stage.workers_at_most(meters.wall_seconds);
        share(stage.busy_seconds, meters.wall_seconds * workers as f64)
    })
}

/// Whether most of the source's work was waiting for remote files.
fn waits_for_store(meters: &Meters) -> bool {
    meters.store.is_some_and(|store| store.wait_seconds > 0.5 * busy(meters, "source"))
}

impl Meters {
    /// Sets the stage that the consumer waited for most.
    pub(crate) fn blame(&mut self) {
        self.at_fault = if self.consumer_wait_seconds > 0.0 { Some(Fault::find(self).stage()) } else { None };
    }
}
