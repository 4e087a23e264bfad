//! What a round over the loader reads, and in which order.

use std::path::Path;

use millstream::config::{
    Border, ByteCount, Config, Last, MixtureChange, OnError, Oversize, PackRule, Samples, SourceConfig,
    SourceKind, StoreConfig, Task, TokenCacheConfig, TokenizerConfig, Truncate, Uneven,
};

use crate::corpora::{CHATS, Corpora, DISLIKED_DOCUMENTS, DOCUMENTS, inner, is_chats, left_out, skipped};
use crate::dice::Dice;
use crate::home::Home;
use crate::samples::FORMATS;

/// A round's loader.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    /// The format of each source.
    pub(crate) formats: Vec<&'static str>,
    pub(crate) is_fussy: bool,
    pub(crate) is_remote: bool,
    /// How many batches are compared.
    pub(crate) batches: u64,
}

/// How long a split of a small corpus is.
const SPLITS: [u64; 4] = [300, 1000, 4000, WHOLE];

/// The length of a split that has a whole file.
const WHOLE: u64 = 1 << 20;

impl Plan {
    /// Draws a plan whose caches are below `caches`.
    pub(crate) fn draw(dice: &mut Dice, corpora: &Corpora, home: &Home, caches: &Path) -> Self {
        let mut formats = Vec::new();
        for _ in 0..dice.within(1, 3) {
            let format = if dice.chance(35) { dice.pick(&CHATS) } else { dice.pick(&FORMATS) };
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        let has_shards = formats.iter().any(|format| inner(format) == "shards");
        // Shards are of bytes.
        let is_fussy = !has_shards && dice.chance(40);
        let mut config = Config { seed: dice.next() >> 12, store: store(dice, caches), ..Config::default() };
        // Each start checks such a tokenizer, which takes a while.
        let has_subwords = !has_shards && !is_fussy && dice.chance(10);
        config.tokenizer = if has_subwords { subwords() } else { TokenizerConfig::bytes() };
        config.tokenizer.eos =
            dice.maybe(50, |_| if has_subwords { "</s>" } else { "<|endoftext|>" }.to_owned());
        let has_weights = dice.chance(50);
        let mut is_remote = false;
        for &format in &formats {
            let mut source = corpora.source(format, &home.directory(format));
            if source.kind != SourceKind::Shards && dice.chance(35) {
                source.paths = corpora.urls(format);
                is_remote = true;
            }
            source.weight = has_weights.then(|| dice.within(1, 4) as f64);
            draw_settings(dice, &mut source, &caches.join("tokens"));
            config.sources.push(source);
        }
        order(dice, &formats, &mut config);
        if has_weights && config.pipeline.batch_tokens.is_none() && dice.chance(40) {
            let weight = |name: usize| (name.to_string(), (1 + (config.seed + name as u64) % 4) as f64);
            let weights = (0..formats.len()).map(weight).collect();
            config.mixture.changes = vec![MixtureChange { batch: dice.within(1, 20) as u64, weights }];
        }
        let batches = dice.within(15, 60) as u64;
        Self { config, formats, is_fussy, is_remote, batches }
    }

    /// The sources whose files are on a disk.
    pub(crate) fn local(&mut self) -> impl Iterator<Item = (&'static str, &mut SourceConfig)> {
        let sources = self.formats.iter().copied().zip(&mut self.config.sources);
        sources.filter(|(_, source)| source.paths.iter().all(|path| !path.starts_with("http")))
    }

    /// Whether something is cached.
    pub(crate) fn has_caches(&self) -> bool {
        self.is_remote && self.config.store.cache.is_some()
            || self.config.sources.iter().any(|source| source.cache.is_some())
    }

    /// The numbers of ranks that can share the rows.
    pub(crate) fn worlds(&self) -> Vec<usize> {
        let pipeline = &self.config.pipeline;
        let rows = if pipeline.batch_tokens.is_some() { 0 } else { pipeline.batch_size };
        (1..=4)
            .filter(|world| pipeline.lanes().is_multiple_of(*world) && rows.is_multiple_of(*world))
            .collect()
    }

    /// How many documents of each source an epoch delivers, and how many it skips; `None` if the stream is not the whole
    /// of its sources.
    pub(crate) fn whole(&self) -> Option<Vec<(usize, usize)>> {
        let pipeline = &self.config.pipeline;
        let is_cut = pipeline.uneven != Uneven::Pad || pipeline.last == Last::Drop || pipeline.holdout > 0.0;
        let is_endless = self.config.sources.iter().any(|source| source.epochs.or(pipeline.epochs).is_none());
        let is_oversize = self.config.sources.iter().any(|source| source.oversize != Oversize::Error);
        if is_cut || is_endless || is_oversize || pipeline.ahead > 1 {
            return None;
        }
        // Of long conversations turns leave, or all. Samples of turns are more than there are conversations.
        let is_fitted =
            self.formats.iter().any(|format| is_chats(format)) && pipeline.pack != PackRule::Concat;
        if is_fitted || self.config.sources.iter().any(|source| source.chat.samples == Samples::Turns) {
            return None;
        }
        let disliked = if self.is_fussy { DISLIKED_DOCUMENTS } else { 0 };
        let of =
            |format: &&'static str| (DOCUMENTS - disliked - left_out(format), skipped(format) + disliked);
        Some(self.formats.iter().map(of).collect())
    }
}

/// A tokenizer with a vocabulary, from its file.
fn subwords() -> TokenizerConfig {
    TokenizerConfig::file(
        crate::support::root().join("tests/data/tokenizers/unigram.json").display().to_string(),
    )
}

/// Small blocks and short pauses: only what never comes takes long.
fn store(dice: &mut Dice, caches: &Path) -> StoreConfig {
    StoreConfig {
        block: ByteCount(dice.pick(&[4096, 8192, 1 << 20])),
        concurrency: dice.pick(&[1, 4, 128]),
        backoff: 0.001,
        backoff_max: 0.01,
        cache: dice.maybe(60, |_| caches.join("store")),
        ..StoreConfig::default()
    }
}

/// Draws what a source says besides its format and paths.
fn draw_settings(dice: &mut Dice, source: &mut SourceConfig, tokens: &Path) {
    source.on_error = OnError::Skip(100_000);
    source.epochs = dice.maybe(30, |dice| dice.within(1, 3) as u64);
    if source.kind == SourceKind::Shards {
        return;
    }
    if source.task == Task::Chat {
        source.chat.truncate = dice.pick(&[Truncate::Turns, Truncate::Start, Truncate::End, Truncate::Drop]);
        source.chat.border = dice.pick(&[Border::Overlap, Border::Split]);
        source.chat.samples = dice.pick(&[Samples::Chat, Samples::Turns]);
    }
    source.split = dice.maybe(80, |dice| ByteCount(dice.pick(&SPLITS)));
    if dice.chance(20) {
        (source.max_document_bytes, source.oversize) = (ByteCount(300), Oversize::Skip);
    }
    source.cache =
        dice.maybe(50, |_| TokenCacheConfig { path: tokens.to_owned(), limit: ByteCount::mib(64) });
}

/// Whether each file of a source may be one split.
fn is_whole((format, source): (&&str, &SourceConfig)) -> bool {
    source.split.is_none_or(|split| split.0 == WHOLE)
        || !["text", "jsonl", "mds", "shards"].contains(&inner(format))
}

/// Draws the order, and the shape and number of the batches.
fn order(dice: &mut Dice, formats: &[&str], config: &mut Config) {
    let has_whole_files = formats.iter().zip(&config.sources).any(is_whole);
    let pipeline = &mut config.pipeline;
    // Of files that cannot be cut there are four.
    let most = if has_whole_files { 4 } else { 8 };
    pipeline.lanes = dice.pick(&[1, 2, 3, 4, 6, 8]).min(most).into();
    pipeline.shuffle_splits = dice.chance(80);
    pipeline.window = dice.pick(&[1, 4, 20, 100]).into();
    pipeline.seq_len = dice.within(8, 120);
    pipeline.pack = dice.pick(&[PackRule::Concat, PackRule::Pad, PackRule::BestFit]);
    if formats.iter().any(|format| is_chats(format)) {
        pipeline.seq_len *= 8;
    }
    if formats.contains(&"chats.shards") {
        // They were prepared for no row.
        pipeline.pack = PackRule::Concat;
    }
    pipeline.ahead = dice.pick(&[1, 1, 1, 3]);
    pipeline.max_segments = dice.maybe(20, |dice| dice.within(1, 4));
    pipeline.pack_window = dice.within(1, 40);
    pipeline.holdout = dice.pick(&[0.0, 0.0, 0.2]);
    pipeline.batch_size = dice.within(1, 3) * dice.pick(&[1, 2, 4, 6]);
    pipeline.epochs = dice.maybe(75, |dice| dice.within(1, 3) as u64);
    // Of many lanes one often has nothing, and all would stop with it.
    let stop = if pipeline.lanes() <= 2 { Uneven::Stop } else { Uneven::Wrap };
    pipeline.uneven = dice.pick(&[Uneven::Pad, Uneven::Pad, Uneven::Wrap, stop]);
    pipeline.last = dice.pick(&[Last::Short, Last::Short, Last::Drop, Last::Pad]);
    if dice.chance(15) {
        pipeline.batch_tokens = Some(pipeline.seq_len * dice.within(1, 6));
        pipeline.bucket_window = dice.within(1, 60);
    }
    ahead(dice, config);
}

/// Draws what runs ahead: workers, depth, and memory for them.
pub(crate) fn ahead(dice: &mut Dice, config: &mut Config) {
    let sources = config.sources.len();
    let pipeline = &mut config.pipeline;
    let depth = dice.within(1, 8);
    let rows = pipeline.batch_size.max(pipeline.batch_tokens.unwrap_or(0));
    let batch = rows * (pipeline.seq_len + pipeline.ahead) * size_of::<u32>();
    let least = (depth + 2) * batch + pipeline.lanes() * sources * (64 << 10);
    (pipeline.workers, pipeline.depth) = (dice.within(1, 4).into(), depth.into());
    pipeline.memory = ByteCount((least + dice.pick(&[256 << 10, 1 << 20, 16 << 20])) as u64);
}
