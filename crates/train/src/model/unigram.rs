//! Computes the loss of a model that knows only how frequent each token is. Holds one count per id.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use millstream::batch::Batch;
use millstream::error::{Error, Result};

/// How often each id was a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unigram {
    counts: Vec<u64>,
}

impl Unigram {
    /// Creates empty counts, for ids below `vocab`.
    pub fn new(vocab: usize) -> Self {
        Self { counts: vec![0; vocab] }
    }

    /// The number of ids: one more than the largest.
    pub fn vocab(&self) -> usize {
        self.counts.len()
    }

    /// Counts the targets of `batch` in `scope`.
    ///
    /// # Panics
    /// If an id is `vocab` or more.
    pub fn count(&mut self, batch: &Batch, scope: Scope) {
        for (row, targets) in scope.targets(batch) {
            for &id in &batch.row(row)[targets] {
                self.counts[id as usize] += 1;
            }
        }
    }

    /// The entropy of the counted targets, in nats per token: the lowest loss that token frequencies alone can give. 0
    /// before anything is counted.
    pub fn loss(&self) -> f64 {
        let total = self.counts.iter().sum::<u64>() as f64;
        let entropy: f64 = self
            .counts
            .iter()
            .filter(|&&count| count > 0)
            .map(|&count| count as f64 / total)
            .map(|share| -share * share.ln())
            .sum();
        entropy.max(0.0)
    }

    /// The counts as little-endian 64-bit numbers, one per id: a hundredth of the size of the embedding.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.counts.iter().flat_map(|count| count.to_le_bytes()).collect()
    }

    /// Adds other counts.
    pub(crate) fn join(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// Reads the counts that a checkpoint has at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Checkpoint`] if it does not hold `vocab` counts.
    pub fn load(path: &Path, vocab: usize) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read the unigram counts", e))?;
        let (counts, rest) = bytes.as_chunks::<8>();
        if counts.len() != vocab || !rest.is_empty() {
            return Err(Error::Checkpoint {
                path: path.to_owned(),
                problem: format!("{} bytes are not the counts of {vocab} ids", bytes.len()),
                resume: None,
            });
        }
        Ok(Self { counts: counts.iter().map(|count| u64::from_le_bytes(*count)).collect() })
    }
}
