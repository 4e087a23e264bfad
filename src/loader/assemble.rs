//! Builds the streams: lanes, dealt into batches, made ahead of need or on demand.
//!
//! Ahead of need, each lane has a task that copies its rows, and one more makes the batches. On demand there is no
//! task, and rows are copied straight into their batch.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use super::Loader;
use super::budgets::{BLOCKS_AHEAD, block_bytes};
use super::plan::Plan;
use crate::batch::Batch;
use crate::config::{OrAuto, PipelineConfig};
use crate::error::{Error, Result};
use crate::meter::TaskMeter;
use crate::source::Side;
use crate::stage::{Ahead, CopyRows, DealtTurn, Lanes, OnDemand, Prefetch, Range, StageExt, Turn};
use crate::world::World;

/// Makes the streams of a plan. Prefetching starts at once.
pub(super) fn assemble(plan: Plan) -> Loader {
    let Plan { chains, gauge, tokenizer, world, side, on_demand, start, rounds, excluding, events } = plan;
    let pipeline = &chains.config.pipeline;
    let block_ids = block_bytes(pipeline, pipeline.memory, world.size) / size_of::<u32>();
    if !on_demand {
        gauge.chain.begin();
    }
    let excluded = Arc::new(excluding.documents);
    let dealt = |lane: usize| {
        let turns = chains.lane(lane, start.lanes(), start.own(lane), &gauge);
        let turns = without(turns, &excluded, pipeline);
        if on_demand {
            return turns.map_ok(DealtTurn::from).boxed();
        }
        let blocks = CopyRows::new(turns, pipeline.ahead, block_ids, gauge.batch.clone());
        let task = TaskMeter::Lane(gauge.chain.clone());
        let blocks = Prefetch::spawn(blocks, Ahead::fixed(BLOCKS_AHEAD), task);
        blocks.map_ok(|turns| stream::iter(turns.into_iter().map(Ok::<_, Error>))).try_flatten().boxed()
    };
    let own = (0..start.lanes()).filter(|lane| world.owns(*lane));
    let lanes = own.map(|lane| (lane, dealt(lane)));
    let mut lanes = Lanes::new(lanes, pipeline.least_width(), &start).with_uneven(pipeline.uneven);
    if let Some(rounds) = rounds {
        lanes = lanes.until(rounds);
    }
    let mut batches = lanes
        .batch(rank_size(pipeline, world), chains.encoder.pad(), &start)
        .with_last(pipeline.last)
        .with_ahead(pipeline.ahead)
        .of_rank(world)
        .without(excluding.batches, gauge.excluded_end.clone())
        .noting(events)
        .with_meter(gauge.batch.clone());
    if pipeline.batch_tokens.is_some() {
        batches = batches.of_turns();
    }
    let batches = if on_demand {
        BatchStream::OnDemand(OnDemand::new(batches, gauge.chain.clone()))
    } else {
        let ahead = Ahead {
            depth: range(pipeline.depth, pipeline.most_depth(world.size)),
            workers: Some((chains.workers.clone(), range(pipeline.workers, pipeline.most_workers()))),
        };
        BatchStream::Ahead(Prefetch::spawn(batches, ahead, TaskMeter::Batches(gauge.chain.clone())))
    };
    let is_whole = start.batch() == 0 && side == Side::Train;
    let start = Arc::new(start);
    Loader { batches, tokenizer, gauge, chains, last: start.clone(), start, is_whole }
}

/// The turns of a lane, without the `excluded` documents.
fn without(
    turns: BoxStream<'static, Result<Turn>>,
    excluded: &Arc<HashSet<(u32, u64)>>,
    pipeline: &PipelineConfig,
) -> BoxStream<'static, Result<Turn>> {
    if excluded.is_empty() {
        return turns;
    }
    let (excluded, ahead, column) = (excluded.clone(), pipeline.ahead, pipeline.ledger_by.clone());
    turns.map_ok(move |turn| turn.without(&excluded, ahead, column.as_deref())).boxed()
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

/// The batches, made ahead of need or when they are asked for.
#[derive(Debug)]
pub(super) enum BatchStream {
    Ahead(Prefetch<Batch>),
    OnDemand(OnDemand<Batch>),
}

impl BatchStream {
    pub(super) fn queued(&self) -> usize {
        match self {
            Self::Ahead(batches) => batches.queued(),
            Self::OnDemand(_) => 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Ahead(batches) => batches.is_full(),
            Self::OnDemand(_) => false,
        }
    }
}

impl Stream for BatchStream {
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.get_mut() {
            Self::Ahead(batches) => batches.poll_next_unpin(cx),
            Self::OnDemand(batches) => batches.poll_next_unpin(cx),
        }
    }
}
