//! From counters to who is at fault, and from there to a sentence.
//!
//! The loader knows what the task behind `prefetch` did while the consumer waited ([`Waits`](super::Waits)); the longest of
//! these names a stage, and the stage's own counters say why it is slow. What would help is only said where it can.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::snapshot::{Meters, share};
use super::words;

#[cfg(test)]
mod tests;

/// Below this share of its time the trainer does not wait.
const NEVER: f64 = 0.001;

/// Below this share it is not worth a remedy.
const HARDLY: f64 = 0.01;

/// Batches that were taken in less time, in seconds, were taken at once.
const AT_ONCE: f64 = 0.02;

/// From this share of their time on, workers are all at work.
pub(super) const FULL: f64 = 0.8;

/// From this share of the batches on that were taken from a full queue, the pipeline keeps up on the whole.
const UNEVEN: f64 = 0.25;

/// Who keeps the trainer waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The first batch took its time, and those behind it came at once.
    Start,
    /// The source reads and decodes.
    Source,
    /// The source waits for a store.
    Store,
    /// The source waits for memory.
    Memory,
    /// A stage of one's own.
    Own,
    /// The tokenizer, all of whose workers are busy.
    Tokenize,
    /// Single documents that are long: few workers have any.
    LongDocuments,
    /// The token cache is slow to take what was tokenized.
    Cache,
    /// The task that makes batches is busy, mostly with shuffling.
    Shuffle,
    /// The same, with packing.
    Pack,
    /// The same, with copying rows into batches.
    Batch,
    /// The same, with handing documents from stage to stage.
    Documents,
    /// The task that makes batches had no thread to run on.
    Runtime,
    /// Batches come unevenly: the queue is full at times, and empty at others.
    Depth,
}

impl Fault {
    /// Who is at fault, supposing that somebody is.
    pub(super) fn of(meters: &Meters) -> Self {
        let is_first = meters.batches == 0 && meters.first_wait_seconds > meters.consumer_wait_seconds;
        let waits = if is_first { &meters.first_waits } else { &meters.waits };
        let longest = waits.by_cause().into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        // Whoever has no core to run on seems as slow as who has one and is busy.
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

    /// Why tokenizing is slow.
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

    /// What the task that makes batches spends most of its time on.
    fn of_work(meters: &Meters) -> Self {
        let busy = |name: &str| busy(meters, name);
        let documents = if meters.setting.has_own_documents { busy("source") } else { 0.0 };
        let parts = [
            (Self::Source, documents),
            (Self::Own, busy("own")),
            (Self::Shuffle, busy("shuffle")),
            (Self::Pack, busy("pack")),
            (Self::Batch, busy("batch")),
        ];
        let rest = busy("prefetch") - parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let parts = parts.into_iter().chain([(Self::Documents, rest)]);
        parts.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Self::Documents, |(fault, _)| fault)
    }

    /// The stage that it stands in.
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

/// A group of documents is as long: one that is longer is a worker's whole job.
const LONG_DOCUMENT: u64 = 512 << 10;

/// How long a stage worked, in seconds.
fn busy(meters: &Meters, stage: &str) -> f64 {
    meters.stage(stage).map_or(0.0, |stage| stage.busy_seconds)
}

/// Whether tokenizing and making batches take all cores. What reads may wait for a disk, and is not counted.
pub(super) fn are_cores_busy(meters: &Meters) -> bool {
    let busy = busy(meters, "tokenize") + busy(meters, "prefetch");
    meters.setting.cores > 0 && busy >= 0.9 * meters.setting.cores as f64 * meters.wall_seconds
}

/// The share of the workers of a stage that was busy, from 0 to 1.
pub(super) fn workers_share(meters: &Meters, stage: &str) -> f64 {
    let stage = meters.stage(stage);
    stage.map_or(0.0, |stage| {
        let workers = stage.workers_at_most(meters.wall_seconds);
        share(stage.busy_seconds, meters.wall_seconds * workers as f64)
    })
}

/// Whether nothing can be told yet: of one batch, unless it is one between two snapshots that came at once, and of as
/// many as were ready at the first if they were taken all at once.
fn is_too_few(meters: &Meters, wait_share: f64) -> bool {
    let begins = meters.first_wait_seconds > 0.0;
    let ready = meters.stage("prefetch").map_or(0, |stage| stage.capacity) + 1;
    match meters.batches {
        1 => begins || wait_share >= NEVER,
        few => begins && few <= ready && meters.consumed_seconds < AT_ONCE,
    }
}

/// Whether a longer queue would do: the pipeline stood still for want of room longer than the trainer did for want of
/// batches. Single long pauses of the trainer, such as a validation, fill one queue and no more.
fn is_uneven(meters: &Meters) -> bool {
    let stood_still = meters.stage("prefetch").map_or(0.0, |stage| stage.wait_out_seconds);
    let is_often_full = share(meters.batches_of_full as f64, meters.batches as f64) >= UNEVEN;
    is_often_full && stood_still >= meters.consumer_wait_seconds
}

/// Whether most of the source's work was waiting for remote files.
fn waits_for_store(meters: &Meters) -> bool {
    meters.store.is_some_and(|store| store.wait_seconds > 0.5 * busy(meters, "source"))
}

/// What the trainer waits for, and what would help. It prints as one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The share of its time that the trainer waits, from 0 to 1.
    pub wait_share: f64,
    /// Who is at fault; none if it does not wait, or there is too little to tell by, which `finding` says.
    pub fault: Option<Fault>,
    /// The stage at fault.
    pub stage: Option<String>,
    /// What was found.
    pub finding: String,
    /// What would help, if a setting would.
    pub remedy: Option<String>,
    /// All of it in one sentence.
    pub sentence: String,
}

impl Verdict {
    /// The verdict on `meters`, by a trainer that says itself which share of its time it waited, the wait for the
    /// first batch included.
    pub fn of(meters: &Meters, wait_share: f64) -> Self {
        Self::judge(meters, wait_share, meters.first_wait_seconds > meters.consumer_wait_seconds)
    }

    /// The same; `is_start` says whether most of what was waited was for the first batch.
    pub(super) fn judge(meters: &Meters, wait_share: f64, is_start: bool) -> Self {
        match meters.batches {
            0 if meters.has_ended => {
                return Self::unknown(0.0, "the stream ended before a batch came".to_owned());
            }
            0 => return Self::before_the_first(meters),
            few if is_too_few(meters, wait_share) => {
                let few = if few == 1 { "one batch is".to_owned() } else { format!("{few} batches are") };
                return Self::unknown(
                    wait_share,
                    format!("{few} too few to tell what the trainer waits for"),
                );
            }
            _ => {}
        }
        let waits = words::percent(wait_share);
        if wait_share < NEVER {
            let finding = "the model is the bottleneck".to_owned();
            let sentence = format!("the trainer never waits ({waits}): {finding}");
            return Self { wait_share, fault: None, stage: None, finding, remedy: None, sentence };
        }
        if !is_start && share(meters.consumer_wait_seconds, meters.consumed_seconds) < NEVER {
            let finding =
                "batches were ready, and the cores are busy: the model is the bottleneck".to_owned();
            let sentence = format!("the trainer waits {waits} of the time: {finding}");
            return Self { wait_share, fault: None, stage: None, finding, remedy: None, sentence };
        }
        let fault = Fault::of(meters);
        let is_uneven = is_uneven(meters);
        let (fault, cause) = match fault {
            _ if is_start => (Fault::Start, None),
            _ if is_uneven => (Fault::Depth, Some(fault)),
            _ => (fault, None),
        };
        let stage = Some(fault.stage().to_owned());
        if wait_share < HARDLY {
            let stage_waited_for = cause.unwrap_or(fault).stage();
            let finding = "the model is the bottleneck".to_owned();
            let sentence =
                format!("the trainer waits {waits} of the time, mostly for {stage_waited_for}: {finding}");
            return Self { wait_share, fault: Some(fault), stage, finding, remedy: None, sentence };
        }
        let finding = words::finding(fault, cause, meters);
        let remedy = words::remedy(fault, meters);
        let sentence =
            words::sentence(&format!("the trainer waits {waits} of the time"), &finding, remedy.as_deref());
        Self { wait_share, fault: Some(fault), stage, finding, remedy, sentence }
    }

    /// There is nothing to judge by.
    fn unknown(wait_share: f64, finding: String) -> Self {
        Self { wait_share, fault: None, stage: None, sentence: finding.clone(), finding, remedy: None }
    }

    /// No batch has come yet.
    fn before_the_first(meters: &Meters) -> Self {
        let causes = meters.waits.by_cause().into_iter().chain(meters.first_waits.by_cause());
        let is_awaited = causes.map(|(_, seconds)| seconds).sum::<f64>() > 0.0;
        let fault = is_awaited.then(|| Fault::of(meters));
        let finding = fault.map(|fault| words::finding(fault, None, meters));
        let finding = finding.unwrap_or_else(|| "nobody has asked for one".to_owned());
        let sentence = format!("no batch yet after {:.1} s: {finding}", meters.wall_seconds);
        let stage = fault.map(|fault| fault.stage().to_owned());
        Self { wait_share: 0.0, fault, stage, finding, remedy: None, sentence }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
