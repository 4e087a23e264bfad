//! The stages of one lane: for each source from documents to rows, and the sources mixed.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;

use super::gauge::{Gauge, LaneGauge};
use super::{OwnDocuments, OwnStage, metered};
use crate::config::{Config, PipelineConfig, Uneven};
use crate::cursor::{LaneCursor, LaneState, Tracked};
use crate::document::Sequence;
use crate::error::Result;
use crate::shards::TokenCache;
use crate::source::{Holdout, Lane, Side, Source};
use crate::stage::{Buckets, Grouping, Mix, Schedule, StageExt, Turn, Workers};
use crate::tokenizer::Encoder;

/// All that the chains of stages are made of, one for each lane and source.
pub(super) struct Chains {
    pub(super) config: Config,
    pub(super) source: Source,
    /// What is read instead of the source's files.
    pub(super) documents: Option<OwnDocuments>,
    /// The token cache of each source that has one.
    pub(super) caches: Vec<Option<Arc<TokenCache>>>,
    pub(super) stages: Vec<(String, OwnStage)>,
    pub(super) encoder: Encoder,
    pub(super) workers: Workers,
    pub(super) schedule: Schedule,
    pub(super) holdout: Holdout,
}

/// The rows of one source in one lane.
type Sequences = BoxStream<'static, Result<Tracked<Sequence>>>;

impl Chains {
    /// What one lane makes of one source, from `at` on.
    fn sequences(
        &self,
        (lane, source): (usize, usize),
        at: &LaneCursor,
        epochs: Option<u64>,
        gauge: &LaneGauge,
    ) -> Sequences {
        let Config { seed, pipeline, .. } = &self.config;
        let deal = Lane {
            lane,
            lanes: pipeline.lanes(),
            seed: *seed,
            shuffle_splits: pipeline.shuffle_splits,
            abreast: NonZeroUsize::MIN,
            epochs,
            holdout: self.holdout,
        };
        let budget = gauge.budgets[source].clone();
        let on_error = self.config.sources[source].on_error;
        let cache = self.caches[source].clone();
        let source = self.source.only(source).with_cache(cache);
        let deal = Lane { abreast: abreast(pipeline, self.holdout.side, &source), ..deal };
        let source = source.with_budget(budget.clone()).with_meter(gauge.source.clone());
        let (documents, recorder) = match &self.documents {
            Some(documents) => (documents(lane, at), None),
            None => {
                let (documents, recorder) = source.recorded_lane(deal, at);
                (documents.boxed(), recorder)
            }
        };
        let of_documents = || self.documents.is_some().then(|| gauge.source.clone());
        let upstream = gauge.own.clone().or_else(of_documents);
        metered::stages(&self.stages, documents, at, gauge.own.as_ref())
            .tokenize(&self.encoder, &self.workers)
            .with_on_error(on_error)
            .with_recorder(recorder)
            .with_meter(gauge.tokenize.clone())
            .with_upstream(upstream)
            .shuffle(pipeline.window(), *seed, at)
            .with_lane(lane)
            .with_meter(gauge.shuffle.clone())
            .pack(pipeline.packing(), at)
            .with_meter(gauge.pack.clone())
            .bounded(budget)
            .boxed()
    }

    /// One lane: its sources, mixed, and their rows grouped by length if batches have a budget of tokens.
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
            move |source: usize, at: &LaneCursor, epochs| chains.sequences((lane, source), at, epochs, &gauge)
        };
        let places = start.sources.iter().enumerate();
        let sources = places.map(|(source, place)| open(source, &place.at, self.config.epochs(source)));
        let mix = Mix::new(sources.collect::<Vec<_>>(), self.schedule.clone(), (lane, lanes), start);
        let mix = match pipeline.uneven {
            Uneven::Wrap => mix.wrapping(move |source, at| open(source, at, None)),
            Uneven::Pad | Uneven::Stop => mix,
        };
        match pipeline.batch_tokens {
            None => mix.boxed(),
            Some(tokens) => {
                let key = [self.config.seed, lane as u64];
                Buckets::new(mix, Grouping::new(pipeline, tokens.get(), key), start).boxed()
            }
        }
    }
}

/// How many splits of a source a lane reads side by side.
pub(super) fn abreast(pipeline: &PipelineConfig, side: Side, source: &Source) -> NonZeroUsize {
    match side {
        Side::HeldOut => source.abreast_of_sample(),
        Side::Train if pipeline.shuffle_splits => source.abreast(pipeline.window(), pipeline.lanes()),
        // They come in the order of the files.
        Side::Train => NonZeroUsize::MIN,
    }
}
