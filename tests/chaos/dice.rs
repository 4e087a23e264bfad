//! Random numbers from a seed, one after the other: SplitMix64.

/// A round's random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
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
