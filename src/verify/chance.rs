//! The random moments.

use crate::order::uniform;

/// Random numbers drawn from a seed, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// Returns a number from 0 to `last`, each about equally likely.
    pub(super) fn up_to(&mut self, last: u64) -> u64 {
        self.drawn += 1;
        (uniform("verify", &[self.seed, self.drawn]) * (last as f64 + 1.0)) as u64
    }
}
