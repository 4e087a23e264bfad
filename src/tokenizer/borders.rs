//! Where what is learned from begins, one id may stand for text on both sides. Such ids are counted for each source, and
//! many of them are said once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// So many of them, and one in so many places, are said.
const FEWEST: u64 = 10;
const PLACES: u64 = 10;

/// The places of one source.
#[derive(Debug, Default)]
pub(super) struct Borders {
    all: AtomicU64,
    joined: AtomicU64,
    is_said: AtomicBool,
}

impl Borders {
    /// Counts `all` places of a document of this source, of which `joined` are within an id. Says once that they are many.
    pub(super) fn count(&self, source: usize, all: u64, joined: u64) {
        if let Some((joined, all)) = self.many(all, joined) {
            tracing::warn!(
                "at {joined} of {all} places where the model begins to write, one id stands for the end of the prompt and \
                 the beginning of the answer: a model that writes never sees it; with source.{source}.chat.border = \
                 \"split\" it learns the ids that it will see"
            );
        }
    }

    /// Counts places, and returns all so far if they are to be said now.
    fn many(&self, all: u64, joined: u64) -> Option<(u64, u64)> {
        let all = self.all.fetch_add(all, Relaxed) + all;
        let joined = self.joined.fetch_add(joined, Relaxed) + joined;
        let is_many = joined >= FEWEST && joined * PLACES >= all;
        (is_many && !self.is_said.swap(true, Relaxed)).then_some((joined, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_said_once() {
        let (all, few) = (Borders::default(), Borders::default());
        let said: Vec<_> = (0..30).filter_map(|_| all.many(2, 1)).collect();
        assert_eq!(said, [(10, 20)]);
        assert!((0..100).all(|_| few.many(11, 1).is_none()));
        assert_eq!(few.many(0, 10), Some((110, 1100)));
    }
}
