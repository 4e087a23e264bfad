//! The stages of one lane: each source from documents to rows, then the sources mixed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use super::custom::{self, CustomStages, SequenceStream};
use super::custom_source::CustomSource;
use super::gauge::{Gauge, LaneGauge};
use super::instrumented::Bounds;
use crate::budget::Budget;
use crate::config::{Config, OnError, PipelineConfig, Uneven};
use crate::cursor::{LaneCursor, LaneState, Tracked};
use crate::document::{Sequence, Tokens};
use crate::error::Result;
use crate::shards::{Recorder, TokenCache};
use crate::source::{Holdout, Lane, Side, Source};
use crate::stage::{BucketRule, Buckets, Delivered, Mix, Schedule, StageExt, Tokenize, Turn, Workers};
use crate::tokenizer::Encoder;

/// Builds the chains of stages, one for each lane and source.
pub(super) struct Chains {
    pub(super) config: Config,
    pub(super) source: Source,
    /// Replaces the source's files, if set.
    pub(super) custom_source: Option<CustomSource>,
    /// The token cache of each source that has one.
    pub(super) caches: Vec<Option<Arc<TokenCache>>>,
    pub(super) stages: CustomStages,
    pub(super) encoder: Encoder,
    pub(super) workers: Workers,
    pub(super) schedule: Schedule,
    pub(super) holdout: Holdout,
    /// Whether a lane has logged that its window takes more than its share of the memory.
    pub(super) lent: Arc<AtomicBool>,
    /// Whether a lane has logged that a document is left out because nothing of it is learned from, and what packing makes
    /// of documents that have a mask.
    pub(super) has_left_out: Arc<AtomicBool>,
    pub(super) has_told: Arc<AtomicBool>,
}

impl Chains {
    /// The rows that one lane makes of one source, from `at` on.
    fn sequences(
        &self,
        lane: usize,
        source: usize,
        at: &LaneCursor,
        epochs: Option<u64>,
        gauge: &LaneGauge,
    ) -> SequenceStream {
        let Config { seed, pipeline, .. } = &self.config;
        let budget = gauge.budgets[source].clone();
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
        let source = source.with_budget(budget.clone()).with_meter(gauge.source.clone());
        // If the tokenizer leaves a document out, those behind it have other places in the window than in its input.
        let keeps_all = on_error == OnError::Fail;
        // A recorder needs the ids of each document, and so does a token stage. Stored ids are not made here.
        let passes_over = keeps_all && !is_stored && cache.is_none() && self.stages.tokens.is_empty();
        let delivered = passes_over.then(|| Delivered::new(pipeline.waiting(), *seed, lane, at));
        let (encoder, workers) = (&self.encoder, &self.workers);
        if self.custom_source.is_none() && self.stages.documents.is_empty() {
            let tokens =
                Tokenize::of_reads(Box::new(source.reads(deal, at)), encoder.clone(), workers.clone())
                    .with_on_error(on_error)
                    .with_recorder(cache.map(Recorder::new))
                    .with_delivered(delivered)
                    .naming_once(self.has_left_out.clone())
                    .with_meter(gauge.tokenize.clone());
            return self.packed(tokens, keeps_all, lane, at, gauge, budget);
        }
        let documents = match &self.custom_source {
            Some(custom) => custom.documents(deal, at),
            None => source.lane(deal, at).boxed(),
        };
        // The time of custom documents is counted where they enter.
        let of_documents = self.custom_source.is_some().then(|| gauge.source.clone());
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
            .naming_once(self.has_left_out.clone())
            .with_meter(gauge.tokenize.clone())
            .with_upstream(upstream);
        self.packed(tokens, keeps_all, lane, at, gauge, budget)
    }

    /// The ids of a lane's documents, behind the custom stages for them, shuffled and packed into rows.
    fn packed(
        &self,
        tokens: impl Stream<Item = Result<Tracked<Tokens>>> + Unpin + Send + 'static,
        keeps_all: bool,
        lane: usize,
        at: &LaneCursor,
        gauge: &LaneGauge,
        budget: Arc<Budget>,
    ) -> SequenceStream {
        if self.stages.tokens.is_empty() {
            return self.rows(tokens, keeps_all, lane, at, gauge, budget);
        }
        let meters = gauge.custom.tokens();
        let tokens = custom::open(&self.stages.tokens, meters, tokens.boxed(), at, self.bounds(), None);
        self.rows(tokens, keeps_all, lane, at, gauge, budget)
    }

    /// A lane's documents as ids, shuffled and packed into rows, behind the custom stages for rows. `keeps_all` says that
    /// the tokenizer left none out.
    fn rows(
        &self,
        tokens: impl Stream<Item = Result<Tracked<Tokens>>> + Unpin + Send + 'static,
        keeps_all: bool,
        lane: usize,
        at: &LaneCursor,
        gauge: &LaneGauge,
        budget: Arc<Budget>,
    ) -> SequenceStream {
        let Config { seed, pipeline, .. } = &self.config;
        let rows = tokens
            .shuffle(pipeline.waiting(), *seed, at)
            .with_lane(lane)
            .with_length(keeps_all)
            .with_meter(gauge.shuffle.clone())
            .pack(pipeline.packing(), at)
            .with_meter(gauge.pack.clone())
            .telling_once(self.has_told.clone());
        if self.stages.rows.is_empty() {
            return self.bounded(rows, budget);
        }
        let meters = gauge.custom.rows();
        let rows = custom::open(&self.stages.rows, meters, rows.boxed(), at, self.bounds(), None);
        self.bounded(rows, budget)
    }

    /// Keeps a lane from waiting forever for its budget. The windows that the config asks for are held whatever they
    /// take. Nothing else bounds the memory of custom stages, so they may not exceed the budget.
    fn bounded(
        &self,
        rows: impl Stream<Item = Result<Tracked<Sequence>>> + Unpin + Send + 'static,
        budget: Arc<Budget>,
    ) -> SequenceStream {
        let rows = rows.bounded(budget);
        match self.stages.is_empty() {
            true => rows.lending(self.lent.clone()).boxed(),
            false => rows.boxed(),
        }
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
        gauge: &Gauge,
    ) -> BoxStream<'static, Result<Turn>> {
        let pipeline = &self.config.pipeline;
        let gauge = gauge.of_lane(lane);
        let open = {
            let (chains, gauge) = (self.clone(), gauge.clone());
            move |source: usize, at: &LaneCursor, epochs| chains.sequences(lane, source, at, epochs, &gauge)
        };
        let places = start.sources.iter().enumerate();
        let sources = places.map(|(source, place)| open(source, &place.at, self.config.epochs(source)));
        let mix = Mix::new(sources.collect::<Vec<_>>(), self.schedule.clone(), lane, lanes, start);
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

/// How many splits of a source a lane reads side by side.
pub(super) fn interleave(pipeline: &PipelineConfig, side: Side, source: &Source) -> usize {
    match side {
        Side::HeldOut => source.interleave_of_sample(),
        Side::Train if pipeline.shuffle_splits => source.interleave(pipeline.waiting(), pipeline.lanes()),
        // Splits come in the order of the files.
        Side::Train => 1,
    }
}
