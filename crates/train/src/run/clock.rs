//! How a session's time was spent: sums of times and targets.

use std::time::Duration;

use crate::events::Rates;
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
}

impl Clock {
    pub(super) fn pass(&mut self, waited: Duration, trained: Duration, summed: Option<Duration>) {
        self.waited += waited;
        self.trained += trained;
        self.summed = summed.map(|summed| summed + self.summed.unwrap_or_default()).or(self.summed);
    }

    pub(super) fn count(&mut self, step: &Step) {
        self.tokens += step.tokens as u64;
        self.flops += step.flops.unwrap_or(0.0);
    }

    /// The rates in this time. `mfu` is the share of the device's peak, given the rate of operations.
    pub(super) fn rates(&self, mfu: impl Fn(f64) -> Option<f64>) -> Rates {
        let seconds = (self.waited + self.trained).as_secs_f64();
        let share = |of: Duration| if of.is_zero() { 0.0 } else { of.as_secs_f64() / seconds };
        let flops_per_second = (self.flops > 0.0).then(|| self.flops / seconds);
        Rates {
            tokens_per_second: if self.tokens == 0 { 0.0 } else { self.tokens as f64 / seconds },
            wait_share: share(self.waited),
            sum_share: self.summed.map(share),
            flops_per_second,
            mfu: flops_per_second.and_then(mfu),
        }
    }
}
