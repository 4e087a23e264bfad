//! `[pipeline]`: how ids become batches.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::bounds::{Bound, Bounded, COUNT, Limit, Number, SHARE, require};
use super::{ByteCount, OrAuto, PackRule, Packing};
use crate::error::{Error, Result};

/// The order of documents, the shape of batches, and how much runs ahead.
///
/// The order that a cursor depends on follows from the keys `lanes` to `bucket_window`. `batch_size` to
/// `world` set how that order is cut, how long it is, and which process has which part. The other keys never
/// change a byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = super::bounds::describe::<PipelineConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct PipelineConfig {
    /// How many independent streams the splits are dealt to; row i comes from lane i mod lanes. `auto` is 16
    /// or, for larger batches, the rows of a batch rounded up to a power of two, at most 256. There are fewer
    /// lanes if the files cannot be cut into as many splits, or would take too much memory while they are
    /// open. A resumed run keeps the number that it began with.
    pub lanes: OrAuto,
    /// Whether each epoch deals the splits in a different order.
    pub shuffle_splits: bool,
    /// Which documents are shuffled together.
    pub shuffle: ShuffleRule,
    /// How many documents of a lane are shuffled together; 1 keeps their order. `auto` divides 2,048
    /// documents among the lanes. `shuffle = "window"` only.
    pub window: OrAuto,
    /// How many inputs a row has, each with the next id as its target.
    pub seq_len: usize,
    /// The rule by which documents fill rows.
    pub pack: PackRule,
    /// How many ids ahead of each input are its targets: rows are `seq_len + ahead` ids wide.
    pub ahead: usize,
    /// How many documents, or parts of documents, a row holds at most; as many as fit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_segments: Option<usize>,
    /// How many documents of a lane are placed together; `pack = "best_fit"` only.
    pub pack_window: usize,
    /// The share of documents that is held out for validation and never trained on, from 0 to 1. A digest of
    /// the text decides, so copies of a document fall on the same side.
    pub holdout: f64,
    /// How many tokens a batch has at most, padding included. Its rows are then of about one length, and as
    /// many as fit. If absent, a batch has `batch_size` rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
    /// With `batch_tokens`, the lengths that rows are padded to, in ascending order up to `seq_len`. If
    /// empty: `seq_len` and its halves down to 32.
    pub buckets: Vec<usize>,
    /// With `batch_tokens`, how many rows of a lane are grouped by length together.
    pub bucket_window: usize,

    /// How many rows a batch has, over all ranks.
    pub batch_size: usize,
    /// How many times a source without `epochs` is read; endlessly if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// What happens when some lanes end before others. Every rank follows the same rule without waiting for
    /// another, so all ranks have the same number of steps.
    pub uneven: Uneven,
    /// What happens to the last rows of a finite stream if they do not fill a batch.
    pub last: Last,

    /// Which process this is, of `world`; taken from the environment if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// How many processes share the lanes; if absent, taken from the environment, or else 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world: Option<usize>,

    /// How many groups of documents are tokenized at once. `auto` is at most the number of cores, and fewer
    /// while the consumer does not wait, which leaves the cores to the trainer.
    pub workers: OrAuto,
    /// How many finished batches wait ahead of the trainer. `auto` is at most 32, and at most as many as fit
    /// an eighth of `memory`, but at least one.
    pub depth: OrAuto,
    /// The bound on the text, ids and batches in flight.
    pub memory: ByteCount,
    /// Which cores reading and tokenizing stay on: `off`, `auto` (those of the NUMA node that the loader is opened
    /// on, if there are several), or a list of cores. Linux only.
    pub pin: PinConfig,
    /// The column by whose values cursors count what became of documents and ids, besides by source. It is one of a source's
    /// `columns`. A resumed run keeps the one that it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger_by: Option<String>,
}

/// Which documents are shuffled together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ShuffleRule {
    /// Those of a window of a lane.
    #[default]
    Window,
    /// All of a source, of all lanes, anew in each epoch. The sources are token shards.
    Global,
}

/// Which cores reading and tokenizing stay on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", expecting = "must be \"off\", \"auto\", or a list of cores")]
#[non_exhaustive]
pub enum PinConfig {
    /// Wherever the system puts them.
    #[default]
    Off,
    /// On the cores of the NUMA node that the loader is opened on, if the machine has several.
    Auto,
    /// On these cores, by the numbers that the system gives them.
    #[serde(untagged)]
    Cores(#[cfg_attr(feature = "schema", schemars(length(min = 1)))] Vec<usize>),
}

impl fmt::Display for ShuffleRule {
    /// Writes the name that configs use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What happens when some lanes of a finite stream end before others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Uneven {
    /// Ended lanes give rows of padding until the longest lane ends: nothing is lost and nothing comes twice.
    #[default]
    Pad,
    /// Ended lanes begin again until the longest lane ends: all rows are full, and some documents come once
    /// more.
    Wrap,
    /// All lanes end with the shortest: no row is padded or comes twice, and the rest of the longer lanes is
    /// left out.
    Stop,
}

/// What happens to the last rows of a finite stream if they do not fill a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Last {
    /// They form a batch of fewer rows.
    #[default]
    Short,
    /// They are left out.
    Drop,
    /// The batch is filled with rows of padding.
    Pad,
}

/// The greatest depth that `auto` chooses, however small batches are.
const DEEPEST: usize = 32;

/// How many lanes `auto` chooses, at least and at most.
const LANES: usize = 16;
const MOST_LANES: usize = 256;

/// How many documents the windows of all lanes have together with `auto`.
const WINDOWS: usize = 2048;

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            lanes: OrAuto::Auto,
            shuffle_splits: true,
            shuffle: ShuffleRule::default(),
            window: OrAuto::Auto,
            seq_len: 1024,
            pack: PackRule::default(),
            ahead: 1,
            max_segments: None,
            pack_window: Packing::WINDOW,
            holdout: 0.0,
            batch_size: 16,
            batch_tokens: None,
            buckets: Vec::new(),
            bucket_window: 1024,
            epochs: None,
            uneven: Uneven::default(),
            last: Last::default(),
            rank: None,
            world: None,
            workers: OrAuto::Auto,
            depth: OrAuto::Auto,
            memory: ByteCount::mib(512),
            pin: PinConfig::Off,
            ledger_by: None,
        }
    }
}

impl PipelineConfig {
    /// How many lanes there are, unless the files cannot be cut into as many splits or take too much memory.
    pub fn lanes(&self) -> usize {
        let rows = if self.batch_tokens.is_none() { self.batch_size } else { 1 };
        let auto = rows.clamp(LANES, MOST_LANES).next_power_of_two();
        self.lanes.or(auto)
    }

    /// How many documents of a lane are shuffled together, given this many [`lanes`](Self::lanes). `None` with
    /// [`ShuffleRule::Global`].
    pub fn window(&self) -> Option<usize> {
        match self.shuffle {
            ShuffleRule::Window => Some(self.window.or((WINDOWS / self.lanes().max(1)).max(1))),
            ShuffleRule::Global => None,
        }
    }

    /// How many documents of a lane wait in its window. Those that are shuffled globally come in their order already.
    pub(crate) fn waiting(&self) -> usize {
        self.window().unwrap_or(1)
    }

    /// Whether all documents of a source are shuffled together.
    pub fn shuffles_globally(&self) -> bool {
        self.shuffle == ShuffleRule::Global
    }

    /// How many ids a row has, padding included.
    pub(crate) fn width(&self) -> usize {
        self.packing().width()
    }

    /// How many ids a row has for one conversation; `None` if packing cuts documents anywhere.
    pub(crate) fn row_ids(&self) -> Option<usize> {
        (self.pack != PackRule::Concat).then(|| self.width())
    }

    /// How many ids the narrowest row has.
    pub(crate) fn least_width(&self) -> usize {
        let shortest = self.bucket_lengths().first().copied().unwrap_or(self.seq_len);
        if self.batch_tokens.is_some() { shortest + self.width() - self.seq_len } else { self.width() }
    }

    /// The lengths that rows are padded to with `batch_tokens`.
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
        match self.batch_tokens {
            None => (self.batch_size / world).saturating_mul(self.turn_bytes()),
            Some(_) => self.turn_bytes(),
        }
    }

    /// The most bytes of ids that a lane gives at its turn: those of a row, or of a batch of `batch_tokens`.
    pub(crate) fn turn_bytes(&self) -> usize {
        let ids = match self.batch_tokens {
            None => self.width(),
            Some(tokens) => {
                let lengths = self.bucket_lengths().into_iter();
                lengths
                    .map(|length| tokens / length * (length + self.width() - self.seq_len))
                    .max()
                    .unwrap_or(0)
            }
        };
        ids.saturating_mul(size_of::<u32>())
    }

    /// The most groups of documents that are ever tokenized at once.
    pub fn most_workers(&self) -> usize {
        self.workers.or(std::thread::available_parallelism().map_or(2, usize::from))
    }

    /// The most batches of one of `world` ranks that ever wait ahead of its trainer.
    pub fn most_depth(&self, world: usize) -> usize {
        let batch = self.batch_bytes(world.max(1)).max(1);
        let fit = self.memory.as_usize() / 8 / batch;
        self.depth.or(fit.clamp(1, DEEPEST))
    }

    /// The keys that say how documents fill rows, in one value.
    pub fn packing(&self) -> Packing {
        let Self { pack: mode, seq_len, ahead, max_segments, pack_window: window, .. } = *self;
        Packing { mode, seq_len, ahead, max_segments, window }
    }

    pub(super) fn validate(&self) -> Result<()> {
        self.check_bounds("pipeline")?;
        if let Some(tokens) = self.batch_tokens {
            require(tokens >= self.seq_len, "pipeline.batch_tokens", tokens, "at least pipeline.seq_len")?;
        }
        let is_ascending = self.buckets.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = self.buckets.first().is_none_or(|&first| first > 0)
            && self.buckets.last().is_none_or(|&last| last == self.seq_len);
        let shown = format!("{:?}", self.buckets);
        let wanted = "lengths in ascending order, the last of them pipeline.seq_len";
        require(is_ascending && fits, "pipeline.buckets", shown, wanted)?;
        if self.shuffles_globally() {
            for (is_set, key) in
                [(self.window != OrAuto::Auto, "window"), (!self.shuffle_splits, "shuffle_splits")]
            {
                if is_set {
                    let problem = "it has no effect with pipeline.shuffle = \"global\"; remove it, or set shuffle = \
                                   \"window\"";
                    return Err(Error::config(format!("pipeline.{key}"), problem));
                }
            }
        }
        require(self.ahead <= self.seq_len, "pipeline.ahead", self.ahead, "at most pipeline.seq_len")
    }
}

/// The bound of what a lane holds to shuffle, place or group together.
const WINDOW: Bound = Bound::Within(1.0, (1 << 24) as f64);

const EPOCHS: Bound = Bound::Noted(&COUNT, " (leave it out for an endless stream)");

impl Bounded for PipelineConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("lanes", Bound::Within(1.0, (1 << 16) as f64), |pipeline| pipeline.lanes.number()),
        ("window", WINDOW, |pipeline| pipeline.window.number()),
        ("seq_len", WINDOW, |pipeline| pipeline.seq_len.number()),
        ("ahead", COUNT, |pipeline| pipeline.ahead.number()),
        ("max_segments", COUNT, |pipeline| pipeline.max_segments.number()),
        ("pack_window", WINDOW, |pipeline| pipeline.pack_window.number()),
        ("holdout", SHARE, |pipeline| pipeline.holdout.number()),
        ("batch_tokens", COUNT, |pipeline| pipeline.batch_tokens.number()),
        ("bucket_window", WINDOW, |pipeline| pipeline.bucket_window.number()),
        ("batch_size", COUNT, |pipeline| pipeline.batch_size.number()),
        ("epochs", EPOCHS, |pipeline| pipeline.epochs.number()),
        ("world", COUNT, |pipeline| pipeline.world.number()),
        ("workers", COUNT, |pipeline| pipeline.workers.number()),
        ("depth", COUNT, |pipeline| pipeline.depth.number()),
    ];
}
