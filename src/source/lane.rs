//! The part of a corpus that a stream reads.

use super::catalog::holdout::Holdout;

/// The part of the corpus that a stream reads, and its order.
///
/// The default is all of it once, in file order: lane 0 of 1, no shuffle, one epoch, nothing held out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// Which lane, from 0.
    pub lane: usize,
    /// How many lanes the splits are dealt to, at least 1.
    pub lanes: usize,
    /// The seed of each epoch's order of splits, and of its sample of weighted documents.
    pub seed: u64,
    /// Whether each epoch reads the splits in another order; if not, in file order.
    pub shuffle_splits: bool,
    /// Whether all documents of the corpus come in one order of the epoch, as if they were shuffled together. Their
    /// tokens have to be stored in token shards.
    pub shuffle_global: bool,
    /// How many splits are read side by side, so that neighbouring documents come from different places; 1 reads one
    /// split after the other. [`Source::interleave`](super::Source::interleave) gives a good number.
    pub interleave: usize,
    /// How many times the corpus is read; endless if `None`.
    pub epochs: Option<u64>,
    /// Which documents are left out.
    pub holdout: Holdout,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            lane: 0,
            lanes: 1,
            seed: 0,
            shuffle_splits: false,
            shuffle_global: false,
            interleave: 1,
            epochs: Some(1),
            holdout: Holdout::default(),
        }
    }
}
