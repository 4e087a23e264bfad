//! `[pipeline]`: how ids become batches.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::{ByteCount, Pack, Packing, require};
use crate::error::Result;

/// The order of documents, the shape of batches, and how much runs ahead.
///
/// `lanes` to `holdout` are the order that a cursor depends on. `batch_size` and `epochs` say how it is cut and
/// how long it is. What follows never changes a byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineConfig {
    /// How many independent streams the splits are dealt to; row i comes from lane i mod lanes.
    pub lanes: NonZeroUsize,
    /// Whether each epoch deals the splits in another order.
    pub shuffle_splits: bool,
    /// How many documents of a lane are shuffled together; 1 keeps their order.
    pub window: NonZeroUsize,
    /// How many inputs a row has, and how many targets of the next id.
    pub seq_len: usize,
    /// The rule by which documents fill rows.
    pub pack: Pack,
    /// How many ids ahead of each input are its targets: rows are `seq_len + ahead` ids wide.
    pub ahead: NonZeroUsize,
    /// How many documents a row holds at most, or parts of them; as many as fit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_segments: Option<NonZeroUsize>,
    /// How many documents of a lane are fitted together; `pack = "best_fit"` only.
    pub pack_window: NonZeroUsize,
    /// The share of documents that is held out for validation and never trained on, from 0 to 1. It is
    /// drawn by a digest of the text, so that copies of one document fall on the same side.
    pub holdout: f64,
    /// How many rows a batch has.
    pub batch_size: NonZeroUsize,
    /// How many times the corpus is read; endless if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,

    /// How many groups of documents are tokenized at once.
    pub workers: NonZeroUsize,
    /// How many finished batches wait ahead of the trainer.
    pub depth: NonZeroUsize,
    /// The bound on the text, ids and batches in flight.
    pub memory: ByteCount,
}

const fn non_zero(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("a constant above zero")
}

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            lanes: non_zero(1),
            shuffle_splits: true,
            window: non_zero(2048),
            seq_len: 1024,
            pack: Pack::default(),
            ahead: NonZeroUsize::MIN,
            max_segments: None,
            pack_window: Packing::WINDOW,
            holdout: 0.0,
            batch_size: non_zero(16),
            epochs: None,
            workers: std::thread::available_parallelism().unwrap_or(non_zero(2)),
            depth: non_zero(4),
            memory: ByteCount::mib(512),
        }
    }
}

impl PipelineConfig {
    /// How documents fill rows, in one value.
    pub fn packing(&self) -> Packing {
        let Self { pack: mode, seq_len, ahead, max_segments, pack_window: window, .. } = *self;
        Packing { mode, seq_len, ahead, max_segments, window }
    }

    pub(super) fn validate(&self) -> Result<()> {
        require(
            (1..=1 << 24).contains(&self.seq_len),
            "pipeline.seq_len",
            self.seq_len,
            "from 1 to 16777216",
        )?;
        require(self.ahead.get() <= self.seq_len, "pipeline.ahead", self.ahead, "at most pipeline.seq_len")?;
        require(
            self.pack_window.get() <= 1 << 24,
            "pipeline.pack_window",
            self.pack_window,
            "from 1 to 16777216",
        )?;
        require(
            (0.0..1.0).contains(&self.holdout),
            "pipeline.holdout",
            self.holdout,
            "at least 0 and less than 1",
        )?;
        require(
            self.epochs != Some(0),
            "pipeline.epochs",
            0,
            "at least 1; leave it out for an endless stream",
        )
    }
}
