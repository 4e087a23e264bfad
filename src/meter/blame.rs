//! Finds what the tasks behind `prefetch` wait for, and so what keeps the trainer waiting.
//!
//! Each lane has a task that makes its rows, and one more task makes batches of them. At each moment one cause holds the
//! next batch up. It is work while the last task works, and while it waits for rows but no lane lacks input: then lanes
//! are at work. If a lane lacks input, the cause is among the stages with threads of their own: the last one that has
//! nothing to give and does not itself wait for another. Custom stages run within the lanes' tasks; each counts the
//! streams for which it has input and gives nothing yet.
//!
//! So the causes add up to the time that has passed, however many tasks there are. The tasks' own times are in their
//! meter, where they add up over the tasks.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Meter, MeterState};
use crate::threads::lock;

pub(crate) const CAUSES: usize = 6;

/// What holds the next batch up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Source,
    /// Memory to read into.
    Memory,
    /// A custom stage that has documents and gives none.
    Own(usize),
    Tokenize,
    /// A token cache, to take what was tokenized.
    Cache,
    Work,
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
            Self::Work => 5,
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

    pub(crate) fn documents(&self) -> &[Arc<Meter>] {
        &self.all[..self.documents]
    }

    pub(crate) fn tokens(&self) -> &[Arc<Meter>] {
        &self.all[self.documents..self.before_packing]
    }

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
            Cause::Work => self.all.len(),
        }
    }
}

/// The stages that work beside the tasks, and how long each cause held the next batch up.
#[derive(Debug)]
pub(crate) struct Chain {
    source: Arc<Meter>,
    custom: CustomMeters,
    tokenize: Arc<Meter>,
    tasks: Arc<Meter>,
    timeline: Mutex<Timeline>,
}

#[derive(Debug, Default)]
struct Timeline {
    /// How long each cause has lasted, up to the current one's beginning.
    spent: [Duration; CAUSES],
    /// The current cause, and since when; `None` where no task runs.
    now: Option<(Cause, Instant)>,
    /// Whether the task that makes batches waits for rows.
    is_waiting: bool,
    /// How many lanes lack input.
    starving: usize,
}

impl Chain {
    pub(crate) fn new(
        source: &Arc<Meter>,
        custom: &CustomMeters,
        tokenize: &Arc<Meter>,
        tasks: &Arc<Meter>,
    ) -> Self {
        Self {
            source: source.clone(),
            custom: custom.clone(),
            tokenize: tokenize.clone(),
            tasks: tasks.clone(),
            timeline: Mutex::default(),
        }
    }

    pub(super) fn tasks(&self) -> &Arc<Meter> {
        &self.tasks
    }

    /// Notes that tasks run from now on.
    pub(crate) fn begin(&self) {
        lock(&self.timeline).now = Some((Cause::Work, Instant::now()));
    }

    /// Notes whether the task that makes batches waits for rows.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        self.change(|timeline| timeline.is_waiting = is_waiting);
    }

    /// Notes that one lane more, or one fewer, lacks input.
    pub(super) fn set_starving(&self, is_starving: bool) {
        self.change(|timeline| match is_starving {
            true => timeline.starving += 1,
            false => timeline.starving -= 1,
        });
    }

    /// Changes the state of the tasks. The time up to now was the current cause's.
    fn change(&self, change: impl FnOnce(&mut Timeline)) {
        let mut timeline = lock(&self.timeline);
        change(&mut timeline);
        let Some((cause, since)) = timeline.now else { return };
        let next = match timeline.is_waiting && timeline.starving > 0 {
            true => self.lacking(),
            false => Cause::Work,
        };
        let now = Instant::now();
        timeline.now = Some((next, now));
        timeline.spent[cause.number()] += now - since;
        drop(timeline);
        self.add_wait(cause, now - since);
    }

    /// Returns the cause of missing input. Call it while the input is still missing.
    fn lacking(&self) -> Cause {
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

    /// Counts a wait for `cause` in the meters of the stages behind it.
    fn add_wait(&self, cause: Cause, time: Duration) {
        if cause == Cause::Work {
            return;
        }
        self.tasks.add_wait_in(time);
        match cause {
            Cause::Source | Cause::Memory => self.tokenize.add_wait_in(time),
            Cause::Own(stage) => {
                self.custom.all[stage].add_awaited(time);
                if stage < self.custom.documents {
                    self.tokenize.add_wait_in(time);
                }
            }
            Cause::Tokenize | Cause::Cache | Cause::Work => {}
        }
        self.custom.all[self.custom.before(cause)..].iter().for_each(|stage| stage.add_wait_in(time));
    }

    /// How long each cause has held the next batch up, in nanoseconds.
    pub(crate) fn spent(&self) -> [u64; CAUSES] {
        let timeline = lock(&self.timeline);
        let mut spent = timeline.spent;
        if let Some((cause, since)) = timeline.now {
            spent[cause.number()] += since.elapsed();
        }
        spent.map(|spent| spent.as_nanos() as u64)
    }

    /// How long reading and tokenizing have taken so far, in nanoseconds.
    pub(crate) fn beside(&self) -> [u64; 2] {
        [self.source.busy_nanos(), self.tokenize.busy_nanos()]
    }

    /// Adds time in which one task did everything itself. Reading and tokenizing had taken `before` when that time began.
    pub(crate) fn add_alone(&self, time: Duration, before: [u64; 2]) {
        let mut rest = time;
        let mut timeline = lock(&self.timeline);
        for ((cause, now), before) in
            [Cause::Source, Cause::Tokenize].into_iter().zip(self.beside()).zip(before)
        {
            let taken = Duration::from_nanos(now.saturating_sub(before));
            timeline.spent[cause.number()] += taken;
            rest = rest.saturating_sub(taken);
        }
        timeline.spent[Cause::Work.number()] += rest;
        self.tasks.add_busy(rest);
    }

    /// Divides `time` that the consumer waited among the causes, by how long each has lasted since `spent`.
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
        let causes = [Cause::Source, Cause::Own(0), Cause::Tokenize, Cause::Own(2), Cause::Work];
        (0..).zip(causes).for_each(|(power, cause)| chain.add_wait(cause, Duration::from_secs(1 << power)));
        let of = |stage: &Arc<Meter>| (stage.snapshot().wait_in_seconds, stage.snapshot().awaited_seconds);
        let waits: Vec<_> = custom.all.iter().map(of).collect();
        assert_eq!(waits, [(1.0, 2.0), (3.0, 0.0), (7.0, 8.0), (15.0, 0.0)]);
        assert_eq!(chain.tokenize.snapshot().wait_in_seconds, 3.0);
        assert_eq!(chain.tasks.snapshot().wait_in_seconds, 15.0);
    }

    #[test]
    fn a_wait_is_shared_out_by_the_causes_meanwhile() {
        let chain = chain(CustomMeters::default());
        let lasted = |cause: Cause, seconds: u64| {
            lock(&chain.timeline).spent[cause.number()] += Duration::from_secs(seconds);
        };
        lasted(Cause::Tokenize, 50);
        let before = chain.spent();
        lasted(Cause::Source, 3);
        lasted(Cause::Work, 1);
        let shares = chain.share_out(Duration::from_secs(8), &before);
        assert_eq!(shares, [6.0, 0.0, 0.0, 0.0, 0.0, 2.0]);
    }

    #[test]
    fn a_wait_that_lasts_is_for_what_is_missing_now() {
        let chain = chain(CustomMeters::default());
        let mut lane = Held::new(chain.tokenize.clone());
        lane.set_state(MeterState::Starved);
        let shares = chain.share_out(Duration::from_secs(2), &chain.spent());
        assert_eq!(shares, [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn lanes_that_do_not_lack_input_are_at_work_and_those_that_do_matter_only_if_batches_wait() {
        let chain = chain(CustomMeters::default());
        chain.begin();
        // Each state lasts for a moment, and what has grown in it is its cause.
        let grown = || {
            let before = chain.spent();
            std::thread::sleep(Duration::from_millis(1));
            let spent = chain.spent();
            (0..CAUSES).filter(|&cause| spent[cause] > before[cause]).collect::<Vec<_>>()
        };
        let [work, tokenize] = [Cause::Work, Cause::Tokenize].map(|cause| vec![cause.number()]);
        assert_eq!(grown(), work);
        chain.set_starving(true);
        assert_eq!(grown(), work, "batches are being made");
        chain.set_waiting(true);
        assert_eq!(grown(), tokenize, "also while it lasts");
        chain.set_starving(true);
        chain.set_starving(false);
        assert_eq!(grown(), tokenize, "one of two");
        assert!(chain.tasks.snapshot().wait_in_seconds > 0.0);
        chain.set_starving(false);
        assert_eq!(grown(), work, "the lanes are at work");
        chain.set_waiting(false);
        let waited = chain.tasks.snapshot().wait_in_seconds;
        assert_eq!(grown(), work);
        chain.set_waiting(true);
        assert_eq!(chain.tasks.snapshot().wait_in_seconds, waited);
    }
}
