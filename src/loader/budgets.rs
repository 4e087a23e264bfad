//! How `pipeline.memory` is shared out.

use std::sync::Arc;

use super::chains::abreast;
use crate::budget::Budget;
use crate::config::{ByteCount, Config, PipelineConfig};
use crate::error::{Error, Result};
use crate::source::{Side, Source};
use crate::world::World;

/// The minimum for one source of a lane.
const LEAST_BYTES: usize = 64 << 10;

/// Returns one budget for each of a rank's lanes and each source. The budgets share what waiting batches leave of
/// `pipeline.memory`. Open files count for up to half of a budget.
pub(super) fn budgets(
    config: &Config,
    source: &Source,
    side: Side,
    world: World,
) -> Result<Vec<Vec<Arc<Budget>>>> {
    check(config, world.size)?;
    let pipeline = &config.pipeline;
    let (lanes, sources) = (pipeline.lanes() / world.size, config.sources.len());
    let shares = lanes.saturating_mul(sources);
    let batches = batch_bytes(pipeline, world.size);
    let memory = pipeline.memory.as_usize();
    let share = (memory - batches) / shares.max(1);
    let open = |index| {
        let source = source.only(index);
        source.open_bytes(abreast(pipeline, side, &source))
    };
    let of_source = |index| Budget::new(share.saturating_sub(open(index)).max(share / 2));
    let of_lane = |_| (0..sources).map(of_source).collect();
    Ok((0..lanes).map(of_lane).collect())
}

/// Refuses a `pipeline.memory` that is too small for the batches that wait and for what each lane reads.
pub(super) fn check(config: &Config, world: usize) -> Result<()> {
    let pipeline = &config.pipeline;
    let shares = (pipeline.lanes() / world).saturating_mul(config.sources.len());
    let least = batch_bytes(pipeline, world).saturating_add(shares.saturating_mul(LEAST_BYTES));
    if pipeline.memory.as_usize() >= least {
        return Ok(());
    }
    Err(Error::config(
        "pipeline.memory",
        format!(
            "must be at least {}, not {}: pipeline.depth + 2 batches of {}, and {} for each lane and source",
            ByteCount(least as u64),
            pipeline.memory,
            ByteCount(pipeline.batch_bytes(world) as u64),
            ByteCount(LEAST_BYTES as u64),
        ),
    ))
}

/// How much the batches take that are ready or being made.
fn batch_bytes(pipeline: &PipelineConfig, world: usize) -> usize {
    // Besides those in the queue, one is being made and one waits to be queued.
    pipeline.batch_bytes(world).saturating_mul(pipeline.most_depth(world).saturating_add(2))
}
