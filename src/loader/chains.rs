//! The stages of one lane: each source from documents to rows, then the sources mixed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use super::custom::{self, CustomStages, SequenceStream};
use super::documents::OpenDocuments;
use super::gauge::Gauge;
use super::instrumented::Bounds;
use crate::budget::Budget;
use crate::config::{Config, PipelineConfig, Uneven};
use crate::cursor::{LaneCursor, LaneState, Tracked};
use crate::document::Tokens;
use crate::error::Result;
use crate::shards::{Recorder, TokenCache};
use crate::source::{Holdout, Lane, Side, Source};
use crate::stage::{
    BucketRule, Buckets, Delivered, LeftBehind, Mix, Schedule, StageExt, Tokenize, Turn, Workers,
};
use crate::tokenizer::Encoder;

/// Builds the chains of stages, one for each lane and source.
pub(super) struct Chains {
    pub(super) config: Config,
    pub(super) source: Source,
    /// The documents of the program, if they take the place of the source.
    pub(super) documents: Option<OpenDocuments>,
    /// The token cache of each source that has one.
    pub(super) caches: Vec<Option<Arc<TokenCache>>>,
    pub(super) stages: CustomStages,
    pub(super) encoder: Encoder,
    pub(super) workers: Workers,
    pub(super) schedule: Schedule,
    pub(super) holdout: Holdout,
    /// Whether a lane has logged that its window takes more than its share of the memory.
    pub(super) lent: Arc<AtomicBool>,
    /// Whether a lane has logged what packing makes of documents that have a mask.
    pub(super) has_told: Arc<AtomicBool>,
}

impl fmt::Debug for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chains").field("stages", &self.stages).finish_non_exhaustive()
    }
}

impl Chains {
    /// The rows that one lane makes of one source, from `at` on.
    fn sequences(
        &self,
        lane: usize,
        source: usize,
        at: &LaneCursor,
        epochs: Option<u64>,
        gauge: &Gauge,
    ) -> SequenceStream {
        let Config { seed, pipeline, .. } = &self.config;
        let budget = gauge.budget(lane, source).clone();
        let left_behind = gauge.left_behind(lane, source).clone();
        let on_error = self.config.sources[source].on_error;
        let cache = self.caches[source].clone();
        let is_stored = self.source.origin(source).shards().is_some();
        let source = self.source.only(source).with_cache(cache.clone());
        let deal = Lane {
            lane,
            lanes: pipeline.lanes(),
            seed: *seed,
            shuffle_splits: pipeline.shuffle_splits,
            shuffle_global: pipeline.shuffles_globally(),
            interleave: interleave(pipeline, self.holdout.side, &source),
            epochs,
            holdout: self.holdout,
        };
        let skipped = Arc::<AtomicU64>::default();
        let source = source
            .with_budget(budget.clone())
            .with_meter(gauge.source.clone())
            .telling_skipped(skipped.clone());
        // A recorder needs the ids of each document, and so does a token stage. Stored ids are not made here.
        let passes_over = !is_stored && cache.is_none() && self.stages.tokens.is_empty();
        let delivered = passes_over.then(|| Delivered::new(pipeline.waiting(), *seed, lane, at));
        let (encoder, workers) = (&self.encoder, &self.workers);
        let chain = Chain { chains: self, gauge, lane, at, epochs, budget, left_behind, skipped };
        if self.documents.is_none() && self.stages.documents.is_empty() {
            let tokens =
                Tokenize::of_reads(Box::new(source.reads(deal, at)), encoder.clone(), workers.clone())
                    .with_on_error(on_error)
                    .with_recorder(cache.map(Recorder::new))
                    .with_delivered(delivered)
                    .with_meter(gauge.tokenize.clone());
            return chain.packed(tokens);
        }
        let documents = match &self.documents {
            Some(open) => open(lane, at),
            None => source.lane(deal, at).boxed(),
        };
        // The time of custom documents is counted where they enter.
        let of_documents = self.documents.is_some().then(|| gauge.source.clone());
        let (upstream, of_stages) = match self.stages.documents.is_empty() {
            true => (of_documents, None),
            false => (None, of_documents),
        };
        let meters = gauge.custom.documents();
        let documents = custom::open(&self.stages.documents, meters, documents, at, self.bounds(), of_stages);
        let tokens = documents
            .tokenize(encoder, workers)
            .with_on_error(on_error)
            .with_delivered(delivered)
            .with_meter(gauge.tokenize.clone())
            .with_upstream(upstream);
        chain.packed(tokens)
    }

    /// The bounds that custom stages must keep.
    fn bounds(&self) -> Bounds {
        Bounds { vocab_size: self.encoder.tokenizer().vocab_size(), width: self.config.pipeline.width() }
    }

    /// One lane: its sources, mixed, with rows grouped by length if batches have a token budget.
    pub(super) fn lane(
        self: &Arc<Self>,
        lane: usize,
        lanes: usize,
        start: &LaneState,
        gauge: &Arc<Gauge>,
    ) -> BoxStream<'static, Result<Turn>> {
        let pipeline = &self.config.pipeline;
        let open = {
            let (chains, gauge) = (self.clone(), gauge.clone());
            move |source: usize, at: &LaneCursor, epochs| chains.sequences(lane, source, at, epochs, &gauge)
        };
        let sources = start.sources.iter().enumerate().map(|(source, place)| {
            let epochs = self.config.epochs(source);
            (open(source, &place.at, epochs.filter(|_| place.wrapped_after.is_none())), epochs)
        });
        let mix = Mix::new(sources.collect::<Vec<_>>(), self.schedule.clone(), lane, lanes, start)
            .leaving_behind((0..start.sources.len()).map(|source| gauge.left_behind(lane, source).clone()));
        let mix = match pipeline.uneven {
            Uneven::Wrap => mix.with_wrapping(move |source, at| open(source, at, None)),
            Uneven::Pad | Uneven::Stop => mix,
        };
        match pipeline.batch_tokens {
            None => mix.boxed(),
            Some(tokens) => {
                let key = [self.config.seed, lane as u64];
                Buckets::new(mix, BucketRule::new(pipeline, tokens, key), start).boxed()
            }
        }
    }
}

/// What one lane makes of one source, behind the tokenizer.
struct Chain<'a> {
    chains: &'a Chains,
    gauge: &'a Gauge,
    lane: usize,
    at: &'a LaneCursor,
    epochs: Option<u64>,
    budget: Arc<Budget>,
    left_behind: LeftBehind,
    /// How many documents the source has skipped in all, once it has ended.
    skipped: Arc<AtomicU64>,
}

impl Chain<'_> {
    /// The documents' ids, behind the custom stages for them, shuffled and packed into rows.
    fn packed(
        self,
        tokens: impl Stream<Item = Result<Tracked<Tokens>>> + Unpin + Send + 'static,
    ) -> SequenceStream {
        let (stages, meters) = (&self.chains.stages.tokens, self.gauge.custom.tokens());
        match stages.is_empty() {
            true => self.rows(tokens),
            false => {
                let (at, bounds) = (self.at, self.chains.bounds());
                self.rows(custom::open(stages, meters, tokens.boxed(), at, bounds, None))
            }
        }
    }

    /// The documents' ids, shuffled and packed into rows, behind the custom stages for rows.
    fn rows(
        self,
        tokens: impl Stream<Item = Result<Tracked<Tokens>>> + Unpin + Send + 'static,
    ) -> SequenceStream {
        let Self { chains, gauge, lane, at, epochs, budget, left_behind, skipped } = self;
        let Config { seed, pipeline, .. } = &chains.config;
        let rows = tokens
            .shuffle(pipeline.waiting(), *seed, at)
            .with_lane(lane)
            .with_meter(gauge.shuffle.clone())
            .pack(pipeline.packing(), at)
            .with_meter(gauge.pack.clone())
            .leaving_behind(left_behind)
            .with_skipped_at_end(skipped)
            .with_epochs(epochs)
            .counting_by(pipeline.ledger_by.as_deref())
            .telling_once(chains.has_told.clone());
        if chains.stages.is_empty() {
            // The windows that the config asks for are held whatever they take: else a lane would wait forever.
            return rows.bounded(budget).lending(chains.lent.clone()).boxed();
        }
        // Nothing else bounds the memory of custom stages, so they may not exceed the budget.
        let (stages, meters) = (&chains.stages.rows, gauge.custom.rows());
        custom::open(stages, meters, rows.boxed(), at, chains.bounds(), None).bounded(budget).boxed()
    }
}

/// How many splits of a source a lane reads side by side: no more than it is dealt.
pub(crate) fn interleave(pipeline: &PipelineConfig, side: Side, source: &Source) -> usize {
    match side {
        Side::HeldOut => source.interleave_of_sample(),
        Side::Train if pipeline.shuffle_splits => {
            let (lanes, splits) = (pipeline.lanes(), source.splits());
            source.interleave(pipeline.waiting(), lanes).min(splits.div_ceil(lanes)).max(1)
        }
        // Splits come in the order of the files.
        Side::Train => 1,
    }
}
