//! `[pipeline]`: how ids become batches.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::{ByteCount, OrAuto, Pack, Packing, require};
use crate::error::Result;

/// The order of documents, the shape of batches, and how much runs ahead.
///
/// `lanes` to `bucket_window` are the order that a cursor depends on. `batch_size` to `world` say how it is cut,
/// how long it is and who has which part of it. What follows never changes a byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineConfig {
    /// How many independent streams the splits are dealt to; row i comes from lane i mod lanes. Left to the loader, 16
    /// or, for larger batches, as many as a batch has rows, up to 256 and rounded up to a power of two. There are fewer
    /// if the files cannot be cut into as many splits, or would take too much memory while they are open. A run that is
    /// resumed keeps those that it began with.
    pub lanes: OrAuto,
    /// Whether each epoch deals the splits in another order.
    pub shuffle_splits: bool,
    /// How many documents of a lane are shuffled together; 1 keeps their order. Left to the loader, all lanes together
    /// have 2,048.
    pub window: OrAuto,
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
    /// How many tokens a batch has at most, padding among them; its rows are then of about one length, and as many
    /// as fit. Absent, a batch has `batch_size` rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<NonZeroUsize>,
    /// The lengths that rows of such batches are padded to, ascending, up to `seq_len`. Empty: `seq_len` and its
    /// halves down to 32.
    pub buckets: Vec<usize>,
    /// How many rows of a lane are grouped together by length.
    pub bucket_window: NonZeroUsize,

    /// How many rows a batch has, over all ranks.
    pub batch_size: NonZeroUsize,
    /// How many times the sources are read that do not say it themselves; endless if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// What becomes of the lanes that end before others do. Every rank follows it alike, without waiting for
    /// another, and so has as many steps as the others.
    pub uneven: Uneven,
    /// What becomes of the last rows of a finite stream, if they are fewer than a batch has.
    pub last: Last,

    /// Which process this is, of `world`; if absent, the environment says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// How many processes share the lanes; if absent, the environment says it, and else it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world: Option<NonZeroUsize>,

    /// How many groups of documents are tokenized at once. Left to the loader, as many as there are cores at most, and
    /// fewer while nobody waits, so that the cores are left to the trainer.
    pub workers: OrAuto,
    /// How many finished batches wait ahead of the trainer. Left to the loader, 32 at most, and as many as fit an
    /// eighth of `memory`, but one.
    pub depth: OrAuto,
    /// The bound on the text, ids and batches in flight.
    pub memory: ByteCount,
}

/// What becomes of the lanes of a finite stream that end before others do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uneven {
    /// They give rows of padding, until the longest lane has ended: nothing is lost and nothing comes twice.
    #[default]
    Pad,
    /// They begin again, until the longest lane has ended: all rows are full, and some documents come once more.
    Wrap,
    /// All end with the shortest: no row is padded or comes twice, and the rest of the longer ones is left out.
    Stop,
}

/// What becomes of the last rows of a finite stream, if they are fewer than a batch has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Last {
    /// They are a batch of fewer rows.
    #[default]
    Short,
    /// They are left out.
    Drop,
    /// The batch is filled with rows of padding.
    Pad,
}

/// A depth that is left to the loader goes no further, however small batches are.
const DEEPEST: usize = 32;

/// How many lanes there are where they are left to the loader, at least and at most.
const LANES: usize = 16;
const MOST_LANES: usize = 256;

/// How many documents the windows of all lanes have together where they are left to the loader.
const WINDOWS: usize = 2048;

const fn non_zero(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("a constant above zero")
}

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            lanes: OrAuto::Auto,
            shuffle_splits: true,
            window: OrAuto::Auto,
            seq_len: 1024,
            pack: Pack::default(),
            ahead: NonZeroUsize::MIN,
            max_segments: None,
            pack_window: Packing::WINDOW,
            holdout: 0.0,
            batch_size: non_zero(16),
            batch_tokens: None,
            buckets: Vec::new(),
            bucket_window: non_zero(1024),
            epochs: None,
            uneven: Uneven::default(),
            last: Last::default(),
            rank: None,
            world: None,
            workers: OrAuto::Auto,
            depth: OrAuto::Auto,
            memory: ByteCount::mib(512),
        }
    }
}

impl PipelineConfig {
    /// How many lanes there are, unless the files cannot be cut into as many splits or take too much memory.
    pub fn lanes(&self) -> NonZeroUsize {
        let rows = if self.batch_tokens.is_none() { self.batch_size.get() } else { 1 };
        let auto = rows.clamp(LANES, MOST_LANES).next_power_of_two();
        self.lanes.or(non_zero(auto))
    }

    /// How many documents of a lane are shuffled together, if there are so many [`lanes`](Self::lanes).
    pub fn window(&self) -> NonZeroUsize {
        self.window.or(non_zero((WINDOWS / self.lanes().get()).max(1)))
    }

    /// How many ids a row has, padding among them.
    pub(crate) fn width(&self) -> usize {
        self.packing().width()
    }

    /// How many ids the narrowest row has.
    pub(crate) fn least_width(&self) -> usize {
        let shortest = self.bucket_lengths().first().copied().unwrap_or(self.seq_len);
        if self.batch_tokens.is_some() { shortest + self.width() - self.seq_len } else { self.width() }
    }

    /// The lengths that rows of a batch of a token budget are padded to.
    pub(crate) fn bucket_lengths(&self) -> Vec<usize> {
        if !self.buckets.is_empty() {
            return self.buckets.clone();
        }
        let halves = std::iter::successors(Some(self.seq_len), |length| Some(length / 2));
        let mut lengths: Vec<usize> =
            halves.take_while(|&length| length >= 32 || length == self.seq_len).collect();
        lengths.reverse();
        lengths
    }

    /// The most bytes of ids that a batch of one of `world` ranks has.
    pub(crate) fn batch_bytes(&self, world: usize) -> usize {
        let ids = match self.batch_tokens {
            None => (self.batch_size.get() / world).saturating_mul(self.width()),
            Some(tokens) => {
                let lengths = self.bucket_lengths().into_iter();
                lengths
                    .map(|length| tokens.get() / length * (length + self.width() - self.seq_len))
                    .max()
                    .unwrap_or(0)
            }
        };
        ids.saturating_mul(size_of::<u32>())
    }

    /// The most groups of documents that are ever tokenized at once.
    pub fn most_workers(&self) -> NonZeroUsize {
        self.workers.or(std::thread::available_parallelism().unwrap_or(non_zero(2)))
    }

    /// The most batches of one of `world` ranks that ever wait ahead of its trainer.
    pub fn most_depth(&self, world: NonZeroUsize) -> NonZeroUsize {
        let batch = self.batch_bytes(world.get()).max(1);
        let fit = self.memory.as_usize() / 8 / batch;
        self.depth.or(NonZeroUsize::new(fit.min(DEEPEST)).unwrap_or(NonZeroUsize::MIN))
    }

    /// How documents fill rows, in one value.
    pub fn packing(&self) -> Packing {
        let Self { pack: mode, seq_len, ahead, max_segments, pack_window: window, .. } = *self;
        Packing { mode, seq_len, ahead, max_segments, window }
    }

    pub(super) fn validate(&self) -> Result<()> {
        for (key, number, most) in [
            ("pipeline.lanes", self.lanes(), 1 << 16),
            ("pipeline.window", self.window(), 1 << 24),
            ("pipeline.bucket_window", self.bucket_window, 1 << 24),
        ] {
            require(number.get() <= most, key, number, &format!("at most {most}"))?;
        }
        if let Some(tokens) = self.batch_tokens {
            require(
                tokens.get() >= self.seq_len,
                "pipeline.batch_tokens",
                tokens,
                "at least pipeline.seq_len",
            )?;
        }
        let is_ascending = self.buckets.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = self.buckets.first().is_none_or(|&first| first > 0)
            && self.buckets.last().is_none_or(|&last| last == self.seq_len);
        let shown = format!("{:?}", self.buckets);
        require(
            is_ascending && fits,
            "pipeline.buckets",
            shown,
            "lengths in ascending order, the last of them pipeline.seq_len",
        )?;
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
