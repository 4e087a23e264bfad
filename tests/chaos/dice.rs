//! Random numbers from a seed, one after the other: SplitMix64.

use crate::trouble::Trouble;

/// A round's random numbers.
#[derive(Debug)]
pub(crate) struct Dice {
    state: u64,
    /// What the round must still meet.
    awaited: Option<Trouble>,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self::dealt(seed, None)
    }

    /// The numbers of a round that is sure to meet a trouble.
    pub(crate) fn dealt(seed: u64, awaited: Option<Trouble>) -> Self {
        Self { state: seed, awaited }
    }

    /// What the round must still meet.
    pub(crate) fn awaited(&self) -> Option<Trouble> {
        self.awaited
    }

    /// Whether to bring a trouble: surely as long as the round must meet it, and else in `percent` of a hundred times.
    pub(crate) fn brings(&mut self, trouble: Trouble, percent: u64) -> bool {
        self.chance(percent) || self.awaited == Some(trouble)
    }

    /// Notes that a trouble was met.
    pub(crate) fn met(&mut self, trouble: Trouble) {
        self.awaited = self.awaited.filter(|awaited| *awaited != trouble);
    }

    /// How often something is tried that is tried `usual` times: more often as long as the round must meet a trouble.
    pub(crate) fn tries(&self, usual: usize) -> usize {
        if self.awaited.is_some() { 10 * usual } else { usual }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to and without `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From `first` to `last`.
    pub(crate) fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below((last - first + 1) as u64) as usize
    }

    /// True in `percent` of a hundred times.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Something in `percent` of a hundred times.
    pub(crate) fn maybe<T>(&mut self, percent: u64, something: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.chance(percent) { Some(something(self)) } else { None }
    }
}
