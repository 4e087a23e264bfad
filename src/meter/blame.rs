//! Finds what the task behind `prefetch` waits for, and so what keeps the trainer waiting.
//!
//! When the task has nothing to work on, it looks for the cause among the stages with threads of their own: the last
//! one that has nothing to give and does not itself wait for another. Custom stages run within the task; each counts
//! the streams for which it has input and gives nothing yet.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Meter, MeterState};

/// The number of causes: everything that can be waited for, and last the task's own work.
pub(crate) const CAUSES: usize = 6;

/// The causes of the task's waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Documents to be read.
    Source,
    /// Memory to read into.
    Memory,
    /// A custom stage that has documents and gives none.
    Own(usize),
    /// Documents to be tokenized.
    Tokenize,
    /// A token cache, to take what was tokenized.
    Cache,
}

impl Cause {
    /// Its place among all causes.
    fn number(self) -> usize {
        match self {
            Self::Source => 0,
            Self::Memory => 1,
            Self::Own(_) => 2,
            Self::Tokenize => 3,
            Self::Cache => 4,
        }
    }
}

/// The meters of a loader's custom stages: before the tokenizer, after it, and after packing.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomMeters {
    /// All of them, in the order of data flow.
    all: Vec<Arc<Meter>>,
    /// How many take documents.
    documents: usize,
    /// How many take documents or tokens.
    before_packing: usize,
}

impl CustomMeters {
    /// The meters of the stages of these names.
    pub(crate) fn new(documents: &[&str], tokens: &[&str], rows: &[&str]) -> Self {
        let all = [documents, tokens, rows].concat();
        Self {
            all: all.into_iter().map(Meter::custom).collect(),
            documents: documents.len(),
            before_packing: documents.len() + tokens.len(),
        }
    }

    /// The meters of the stages that take documents.
    pub(crate) fn documents(&self) -> &[Arc<Meter>] {
        &self.all[..self.documents]
    }

    /// The meters of the stages that take tokens.
    pub(crate) fn tokens(&self) -> &[Arc<Meter>] {
        &self.all[self.documents..self.before_packing]
    }

    /// The meters of the stages that take rows.
    pub(crate) fn rows(&self) -> &[Arc<Meter>] {
        &self.all[self.before_packing..]
    }

    /// The last stage of some that streams wait for.
    fn awaited(&self, stages: Range<usize>) -> Option<Cause> {
        stages.rev().find(|&stage| self.all[stage].is_awaited()).map(Cause::Own)
    }

    /// How many custom stages come before the cause, and so do not wait for it.
    fn before(&self, cause: Cause) -> usize {
        match cause {
            Cause::Source | Cause::Memory => 0,
            Cause::Own(stage) => stage + 1,
            Cause::Tokenize | Cause::Cache => self.documents,
        }
    }
}

/// The stages that work beside the task, and its waits by cause.
#[derive(Debug)]
pub(crate) struct Chain {
    source: Arc<Meter>,
    custom: CustomMeters,
    tokenize: Arc<Meter>,
    /// The meter of the task itself.
    task: Arc<Meter>,
    waited: [AtomicU64; CAUSES - 1],
}

impl Chain {
    /// The stages of a loader.
    pub(crate) fn new(
        source: &Arc<Meter>,
        custom: &CustomMeters,
        tokenize: &Arc<Meter>,
        task: &Arc<Meter>,
    ) -> Self {
        Self {
            source: source.clone(),
            custom: custom.clone(),
            tokenize: tokenize.clone(),
            task: task.clone(),
            waited: Default::default(),
        }
    }

    /// Returns the missing input's cause. Call it while the input is still missing.
    pub(crate) fn lacking(&self) -> Cause {
        let custom = &self.custom;
        if let Some(stage) = custom.awaited(custom.documents..custom.all.len()) {
            return stage;
        }
        if self.tokenize.most_are(MeterState::Blocked) {
            return Cause::Cache;
        }
        if !self.tokenize.most_are(MeterState::Starved) {
            return Cause::Tokenize;
        }
        if let Some(stage) = custom.awaited(0..custom.documents) {
            return stage;
        }
        if self.source.most_are(MeterState::Starved) { Cause::Memory } else { Cause::Source }
    }

    /// Adds time that the task waited for `cause`.
    pub(crate) fn add(&self, cause: Cause, time: Duration) {
        self.waited[cause.number()].fetch_add(time.as_nanos() as u64, Relaxed);
        let before = self.custom.before(cause);
        match cause {
            Cause::Tokenize | Cause::Cache => {}
            Cause::Source | Cause::Memory => self.tokenize.add_wait_in(time),
            Cause::Own(stage) => {
                self.custom.all[stage].add_awaited(time);
                if stage < self.custom.documents {
                    self.tokenize.add_wait_in(time);
                }
            }
        }
        self.custom.all[before..].iter().for_each(|stage| stage.add_wait_in(time));
    }

    /// How long the task spent on each cause, in nanoseconds.
    pub(crate) fn spent(&self) -> [u64; CAUSES] {
        let mut spent = [0; CAUSES];
        for (spent, waited) in spent.iter_mut().zip(&self.waited) {
            *spent = waited.load(Relaxed);
        }
        spent[CAUSES - 1] = self.task.busy_nanos();
        spent
    }

    /// How long reading and tokenizing have taken so far, in nanoseconds.
    pub(crate) fn beside(&self) -> [u64; 2] {
        [self.source.busy_nanos(), self.tokenize.busy_nanos()]
    }

    /// Adds time in which the task did everything itself. Reading and tokenizing had taken `before` when that time
    /// began.
    pub(crate) fn add_alone(&self, time: Duration, before: [u64; 2]) {
        let mut rest = time;
        for ((cause, now), before) in
            [Cause::Source, Cause::Tokenize].into_iter().zip(self.beside()).zip(before)
        {
            let taken = now.saturating_sub(before);
            self.waited[cause.number()].fetch_add(taken, Relaxed);
            rest = rest.saturating_sub(Duration::from_nanos(taken));
        }
        self.task.add_busy(rest);
    }

    /// Divides `time` that the consumer waited among the causes, by what the task has spent since `spent`.
    pub(crate) fn share_out(&self, time: Duration, spent: &[u64; CAUSES]) -> [f64; CAUSES] {
        let now = self.spent();
        let mut shares: [f64; CAUSES] = std::array::from_fn(|cause| (now[cause] - spent[cause]) as f64);
        let total: f64 = shares.iter().sum();
        if total == 0.0 {
            // Nothing has finished since.
            shares[self.lacking().number()] = 1.0;
        }
        shares.map(|share| share / total.max(1.0) * time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Held;

    fn chain(custom: CustomMeters) -> Chain {
        let [source, tokenize, task] = ["source", "tokenize", "prefetch"].map(Meter::new);
        Chain::new(&source, &custom, &tokenize, &task)
    }

    #[test]
    fn the_last_stage_that_waits_for_no_other_is_the_cause() {
        let custom = CustomMeters::new(&["a", "b"], &["c"], &["d"]);
        let chain = chain(custom.clone());
        (0..3).for_each(|stage| custom.all[stage].set_awaited(true));
        assert_eq!(chain.lacking(), Cause::Own(2));
        custom.all[2].set_awaited(false);
        assert_eq!(chain.lacking(), Cause::Tokenize, "whoever makes documents is in nobody's way");
        let (mut source, mut tokenize) = (Held::new(chain.source.clone()), Held::new(chain.tokenize.clone()));
        tokenize.set_state(MeterState::Starved);
        assert_eq!(chain.lacking(), Cause::Own(1));
        custom.all[1].set_awaited(false);
        assert_eq!(chain.lacking(), Cause::Own(0));
        custom.all[0].set_awaited(false);
        assert_eq!(chain.lacking(), Cause::Source);
        source.set_state(MeterState::Starved);
        assert_eq!(chain.lacking(), Cause::Memory);
        tokenize.set_state(MeterState::Blocked);
        assert_eq!(chain.lacking(), Cause::Cache);
    }

    #[test]
    fn what_most_lanes_lack_is_the_cause_whichever_spoke_last() {
        let chain = chain(CustomMeters::default());
        let mut lanes: Vec<Held> = (0..3).map(|_| Held::new(chain.tokenize.clone())).collect();
        lanes[0].set_state(MeterState::Starved);
        lanes[1].set_state(MeterState::Starved);
        lanes[2].set_state(MeterState::Working);
        assert_eq!(chain.lacking(), Cause::Source);
        lanes[0].set_state(MeterState::Working);
        lanes[1].set_state(MeterState::Working);
        lanes[2].set_state(MeterState::Starved);
        assert_eq!(chain.lacking(), Cause::Tokenize);
        // A lane that has ended does nothing any more.
        lanes.drain(..2);
        assert_eq!(chain.lacking(), Cause::Source);
    }

    #[test]
    fn a_wait_is_counted_for_all_that_stand_behind_what_is_waited_for() {
        let custom = CustomMeters::new(&["a", "b"], &["c"], &["d"]);
        let chain = chain(custom.clone());
        let causes = [Cause::Source, Cause::Own(0), Cause::Tokenize, Cause::Own(2)];
        (0..).zip(causes).for_each(|(power, cause)| chain.add(cause, Duration::from_secs(1 << power)));
        let of = |stage: &Arc<Meter>| (stage.snapshot().wait_in_seconds, stage.snapshot().awaited_seconds);
        let waits: Vec<_> = custom.all.iter().map(of).collect();
        assert_eq!(waits, [(1.0, 2.0), (3.0, 0.0), (7.0, 8.0), (15.0, 0.0)]);
        assert_eq!(chain.tokenize.snapshot().wait_in_seconds, 3.0);
        assert_eq!(chain.spent(), [1, 0, 10, 4, 0, 0].map(|seconds| seconds * 1_000_000_000));
    }

    #[test]
    fn a_wait_is_shared_out_by_what_the_task_did_meanwhile() {
        let chain = chain(CustomMeters::default());
        chain.add(Cause::Tokenize, Duration::from_secs(50));
        let before = chain.spent();
        chain.add(Cause::Source, Duration::from_secs(3));
        chain.task.add_busy(Duration::from_secs(1));
        let shares = chain.share_out(Duration::from_secs(8), &before);
        assert_eq!(shares, [6.0, 0.0, 0.0, 0.0, 0.0, 2.0]);
        assert_eq!(chain.tokenize.snapshot().wait_in_seconds, 3.0);
    }

    #[test]
    fn a_wait_that_lasts_is_for_what_is_missing_now() {
        let chain = chain(CustomMeters::default());
        let mut lane = Held::new(chain.tokenize.clone());
        lane.set_state(MeterState::Starved);
        let shares = chain.share_out(Duration::from_secs(2), &chain.spent());
        assert_eq!(shares, [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
