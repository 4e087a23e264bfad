//! Builds the streams: lanes, dealt into batches, made ahead of need or on demand.

use super::Loader;
use super::batch_stream::BatchStream;
use super::plan::Plan;
use crate::config::{OrAuto, PipelineConfig};
use crate::source::Side;
use crate::stage::{Ahead, Lanes, OnDemand, Prefetch, Range, StageExt, Waits};
use crate::world::World;

/// Makes the streams of a plan. Prefetching starts at once.
pub(super) fn assemble(plan: Plan) -> Loader {
    let Plan { chains, gauge, tokenizer, world, side, on_demand, start, rounds, excluding, events } = plan;
    let pipeline = &chains.config.pipeline;
    let own = (0..start.lanes()).filter(|lane| world.owns(*lane));
    let lanes = own.map(|lane| (lane, chains.lane(lane, start.lanes(), start.own(lane), &gauge)));
    let mut lanes = Lanes::new(lanes, pipeline.least_width(), &start).with_uneven(pipeline.uneven);
    if let Some(rounds) = rounds {
        lanes = lanes.until(rounds);
    }
    let mut batches = lanes
        .batch(rank_size(pipeline, world), chains.encoder.pad(), &start)
        .with_last(pipeline.last)
        .with_ahead(pipeline.ahead)
        .of_rank(world)
        .without(excluding.batches, excluding.documents)
        .noting(events)
        .with_meter(gauge.batch.clone());
    if pipeline.batch_tokens.is_some() {
        batches = batches.of_turns();
    }
    let batches = if on_demand {
        BatchStream::OnDemand(OnDemand::new(batches, gauge.chain.clone()))
    } else {
        let waits = Waits { meter: gauge.prefetch.clone(), chain: Some(gauge.chain.clone()) };
        let ahead = Ahead {
            depth: range(pipeline.depth, pipeline.most_depth(world.size)),
            workers: Some((chains.workers.clone(), range(pipeline.workers, pipeline.most_workers()))),
        };
        BatchStream::Ahead(Prefetch::spawn(batches, ahead, waits))
    };
    let is_untouched = start.batch() == 0 && side == Side::Train;
    let files = chains.source.files().clone();
    Loader { batches, tokenizer, gauge, files, start, is_untouched }
}

/// The range from which the loader may choose a number, or the fixed number.
fn range(number: OrAuto, most: usize) -> Range {
    match number {
        OrAuto::Auto => Range::Auto(most),
        OrAuto::Fixed(number) => Range::Fixed(number),
    }
}

/// How many rows of a batch belong to one rank. With a token budget, as many as fit, in any world.
fn rank_size(pipeline: &PipelineConfig, world: World) -> usize {
    (pipeline.batch_size / world.size).max(1)
}
