//! What the task behind `prefetch` waits for, and so who keeps the trainer waiting.
//!
//! When the task finds nothing to go on with, it asks the stages that work on threads of their own which of them it
//! is that has nothing to give: the last one that is not itself waiting for another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Meter, State};

/// How many causes of waits there are: those that are waited for, and the task's own work, which is the last.
pub(crate) const CAUSES: usize = 6;

/// What the task may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Documents that are read.
    Source,
    /// Memory to read into.
    Memory,
    /// A stage of one's own that has documents and gives none.
    Own,
    /// Documents that are tokenized.
    Tokenize,
    /// A token cache that takes what was tokenized.
    Cache,
}

/// The stages that work beside the task, and how long it waited for what.
#[derive(Debug)]
pub(crate) struct Chain {
    source: Arc<Meter>,
    own: Option<Arc<Meter>>,
    tokenize: Arc<Meter>,
    /// The task's own.
    task: Arc<Meter>,
    waited: [AtomicU64; CAUSES - 1],
}

impl Chain {
    /// The stages of a loader; `own` stands for all stages of one's own.
    pub(crate) fn new(
        source: &Arc<Meter>,
        own: Option<&Arc<Meter>>,
        tokenize: &Arc<Meter>,
        task: &Arc<Meter>,
    ) -> Self {
        Self {
            source: source.clone(),
            own: own.cloned(),
            tokenize: tokenize.clone(),
            task: task.clone(),
            waited: Default::default(),
        }
    }

    /// What is waited for. It is to be asked while it is missing: afterwards it is there.
    pub(crate) fn lacking(&self) -> Cause {
        if self.tokenize.is(State::Blocked) {
            return Cause::Cache;
        }
        if !self.tokenize.is(State::Starved) {
            return Cause::Tokenize;
        }
        if self.own.as_ref().is_some_and(|own| !own.is(State::Starved)) {
            return Cause::Own;
        }
        if self.source.is(State::Starved) { Cause::Memory } else { Cause::Source }
    }

    /// Adds time that the task waited.
    pub(crate) fn add(&self, cause: Cause, time: Duration) {
        self.waited[cause as usize].fetch_add(time.as_nanos() as u64, Relaxed);
        match cause {
            Cause::Tokenize | Cause::Cache => {}
            Cause::Source | Cause::Memory | Cause::Own => self.tokenize.add_wait_in(time),
        }
        if let (Some(own), Cause::Source | Cause::Memory) = (&self.own, cause) {
            own.add_wait_in(time);
        }
    }

    /// How long the task did what, in nanoseconds.
    pub(crate) fn spent(&self) -> [u64; CAUSES] {
        let mut spent = [0; CAUSES];
        for (spent, waited) in spent.iter_mut().zip(&self.waited) {
            *spent = waited.load(Relaxed);
        }
        spent[CAUSES - 1] = self.task.busy_nanos();
        spent
    }

    /// How long reading and tokenizing took so far, in nanoseconds.
    pub(crate) fn beside(&self) -> [u64; 2] {
        [self.source.busy_nanos(), self.tokenize.busy_nanos()]
    }

    /// Adds time in which the task did everything by itself; reading and tokenizing had taken `before` when it began.
    pub(crate) fn add_alone(&self, time: Duration, before: [u64; 2]) {
        let mut rest = time;
        for ((cause, now), before) in
            [Cause::Source, Cause::Tokenize].into_iter().zip(self.beside()).zip(before)
        {
            let taken = now.saturating_sub(before);
            self.waited[cause as usize].fetch_add(taken, Relaxed);
            rest = rest.saturating_sub(Duration::from_nanos(taken));
        }
        self.task.add_busy(rest);
    }

    /// Shares `time` that the consumer waited out among the causes, by what the task did since it had `spent` so much.
    pub(crate) fn share_out(&self, time: Duration, spent: &[u64; CAUSES]) -> [f64; CAUSES] {
        let now = self.spent();
        let mut shares: [f64; CAUSES] = std::array::from_fn(|cause| (now[cause] - spent[cause]) as f64);
        let total: f64 = shares.iter().sum();
        if total == 0.0 {
            // Nothing has come to its end since.
            shares[self.lacking() as usize] = 1.0;
        }
        shares.map(|share| share / total.max(1.0) * time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(has_own: bool) -> Chain {
        let [source, own, tokenize, task] = ["source", "own", "tokenize", "prefetch"].map(Meter::new);
        Chain::new(&source, has_own.then_some(&own), &tokenize, &task)
    }

    #[test]
    fn the_last_stage_that_waits_for_no_other_is_the_cause() {
        let chain = chain(true);
        let own = chain.own.as_ref().expect("one");
        assert_eq!(chain.lacking(), Cause::Tokenize);
        chain.tokenize.set_state(State::Starved);
        assert_eq!(chain.lacking(), Cause::Own);
        own.set_state(State::Starved);
        assert_eq!(chain.lacking(), Cause::Source);
        chain.source.set_state(State::Starved);
        assert_eq!(chain.lacking(), Cause::Memory);
        chain.tokenize.set_state(State::Blocked);
        assert_eq!(chain.lacking(), Cause::Cache);
    }

    #[test]
    fn a_wait_is_shared_out_by_what_the_task_did_meanwhile() {
        let chain = chain(false);
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
        let chain = chain(false);
        chain.tokenize.set_state(State::Starved);
        let shares = chain.share_out(Duration::from_secs(2), &chain.spent());
        assert_eq!(shares, [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
