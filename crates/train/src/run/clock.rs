//! How a session's time was spent: sums of times and targets.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::events::SourceLoss;
use crate::trainer::Step;

/// Time and targets since some moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    waited: Duration,
    trained: Duration,
    /// The part of `trained` that went into waiting for other ranks and summing; `None` if there are no others.
    summed: Option<Duration>,
    tokens: u64,
    flops: f64,
    sources: BTreeMap<String, SourceLoss>,
}

impl Clock {
    pub(super) fn pass(&mut self, waited: Duration, trained: Duration) {
        self.waited += waited;
        self.trained += trained;
    }

    pub(super) fn sum(&mut self, summed: Option<Duration>) {
        self.summed = summed.map(|summed| summed + self.summed.unwrap_or_default());
    }

    pub(super) fn count(&mut self, step: &Step) {
        self.tokens += step.tokens as u64;
        self.flops += step.flops.unwrap_or(0.0);
        for (name, loss) in &step.sources {
            self.sources.entry(name.clone()).or_insert(SourceLoss { loss: 0.0, tokens: 0 }).add(loss);
        }
    }

    fn seconds(&self) -> f64 {
        (self.waited + self.trained).as_secs_f64()
    }

    pub(super) fn tokens_per_second(&self) -> f64 {
        if self.tokens == 0 { 0.0 } else { self.tokens as f64 / self.seconds() }
    }

    pub(super) fn flops_per_second(&self) -> Option<f64> {
        (self.flops > 0.0).then(|| self.flops / self.seconds())
    }

    pub(super) fn sources(&self) -> &BTreeMap<String, SourceLoss> {
        &self.sources
    }

    pub(super) fn sum_share(&self) -> Option<f64> {
        let share = |summed: Duration| summed.as_secs_f64() / self.seconds();
        self.summed.map(|summed| if summed.is_zero() { 0.0 } else { share(summed) })
    }

    pub(super) fn wait_share(&self) -> f64 {
        if self.waited.is_zero() { 0.0 } else { self.waited.as_secs_f64() / self.seconds() }
    }
}
