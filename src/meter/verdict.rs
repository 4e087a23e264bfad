//! From counters to the cause of a wait, and from there to a sentence.
//!
//! The loader knows what held batches up while the consumer waited ([`Waits`](super::Waits)). The longest of these
//! waits names a stage, and the stage's own counters say why it is slow. A remedy is given only where
//! there is one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::snapshot::{Meters, share};
use super::words;

#[cfg(test)]
mod tests;

/// A trainer that waits for less than this share of its time does not wait.
const NEVER: f64 = 0.001;

/// A trainer that waits for less than this share of its time needs no remedy.
const HARDLY: f64 = 0.01;

/// Batches that were taken within this time were taken at once, in seconds.
const AT_ONCE: f64 = 0.02;

/// If at least this share of the batches came from a full queue, the pipeline keeps up on the whole.
const UNEVEN: f64 = 0.25;

/// Whether it is too early for a verdict: after one batch (unless it is between two snapshots and came at once), or
/// after only those batches that were ready with the first, if they were taken all at once.
fn is_too_few(meters: &Meters, wait_share: f64) -> bool {
    let begins = meters.first_wait_seconds > 0.0;
    let ready = meters.stage("prefetch").map_or(0, |stage| stage.capacity) + 1;
    match meters.batches {
        1 => begins || wait_share >= NEVER,
        few => begins && few <= ready && meters.consumed_seconds < AT_ONCE,
    }
}

/// Whether a longer queue would help: the pipeline stood still for lack of room longer than the trainer waited for
/// batches. A single long pause of the trainer, such as a validation, fills one queue and no more.
fn is_uneven(meters: &Meters) -> bool {
    let stood_still = meters.stage("prefetch").map_or(0.0, |stage| stage.wait_out_seconds);
    let is_often_full = share(meters.batches_of_full as f64, meters.batches as f64) >= UNEVEN;
    is_often_full && stood_still >= meters.consumer_wait_seconds
}

/// The cause of the trainer's wait, and the remedy. Its `Display` is one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The share of its time that the trainer waits, from 0 to 1.
    pub wait_share: f64,
    /// The cause; `None` if the trainer does not wait, or if it is too early to tell, as `finding` then says.
    pub fault: Option<Fault>,
    /// The stage at fault.
    pub stage: Option<String>,
    /// The finding, in words.
    pub finding: String,
    /// The remedy, if a setting would help.
    pub remedy: Option<String>,
    /// The whole verdict in one sentence.
    pub sentence: String,
}

impl Verdict {
    /// Returns the verdict on `meters` for a trainer that measures itself which share of its time it waited, including
    /// the wait for the first batch.
    pub fn from_meters(meters: &Meters, wait_share: f64) -> Self {
        Self::judge(meters, wait_share, meters.first_wait_seconds > meters.consumer_wait_seconds)
    }

    /// The same. `is_start` says whether most of the waiting was for the first batch.
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
            return Self::new(wait_share, None, finding, None, sentence);
        }
        if !is_start && share(meters.consumer_wait_seconds, meters.consumed_seconds) < NEVER {
            let finding =
                "batches were ready, and the cores are busy: the model is the bottleneck".to_owned();
            let sentence = format!("the trainer waits {waits} of the time: {finding}");
            return Self::new(wait_share, None, finding, None, sentence);
        }
        let fault = Fault::find(meters);
        let is_uneven = is_uneven(meters);
        let (fault, cause) = match fault {
            _ if is_start => (Fault::Start, None),
            _ if is_uneven => (Fault::Depth, Some(fault)),
            _ => (fault, None),
        };
        if wait_share < HARDLY {
            let stage_waited_for = cause.unwrap_or(fault).stage();
            let finding = "the model is the bottleneck".to_owned();
            let sentence =
                format!("the trainer waits {waits} of the time, mostly for {stage_waited_for}: {finding}");
            return Self::new(wait_share, Some(fault), finding, None, sentence);
        }
        let finding = words::finding(fault, cause, meters);
        let remedy = words::remedy(fault, meters);
        let sentence =
            words::sentence(&format!("the trainer waits {waits} of the time"), &finding, remedy.as_deref());
        Self::new(wait_share, Some(fault), finding, remedy, sentence)
    }

    fn new(
        wait_share: f64,
        fault: Option<Fault>,
        finding: String,
        remedy: Option<String>,
        sentence: String,
    ) -> Self {
        let stage = fault.map(|fault| fault.stage().to_owned());
        Self { wait_share, fault, stage, finding, remedy, sentence }
    }

    /// Returns the verdict in a few words, such as `waits 12% for tokenize`; none if it is too early to tell.
    pub fn brief(&self) -> String {
        let waits = words::percent(self.wait_share);
        match &self.stage {
            Some(stage) => format!("waits {waits} for {stage}"),
            None if self.finding == self.sentence => String::new(),
            None if self.wait_share < NEVER => "never waits".to_owned(),
            None => format!("waits {waits}"),
        }
    }

    /// The verdict when there is too little to judge by.
    fn unknown(wait_share: f64, finding: String) -> Self {
        Self::new(wait_share, None, finding.clone(), None, finding)
    }

    fn before_the_first(meters: &Meters) -> Self {
        let causes = meters.waits.by_cause().into_iter().chain(meters.first_waits.by_cause());
        let is_awaited = causes.map(|(_, seconds)| seconds).sum::<f64>() > 0.0;
        let fault = is_awaited.then(|| Fault::find(meters));
        let finding = fault.map(|fault| words::finding(fault, None, meters));
        let finding = finding.unwrap_or_else(|| "nobody has asked for one".to_owned());
        let sentence = format!("no batch yet after {:.1} s: {finding}", meters.wall_seconds);
        Self::new(0.0, fault, finding, None, sentence)
    }
}

impl Meters {
    /// Returns the cause of the trainer's wait, and the remedy.
    pub fn verdict(&self) -> Verdict {
        Verdict::judge(self, self.wait_share, false)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
