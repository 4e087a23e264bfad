//! How `pipeline.memory` is shared out.

use std::sync::Arc;

use super::chains::abreast;
use crate::budget::Budget;
use crate::config::{ByteCount, Config};
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
    let pipeline = &config.pipeline;
    let depth = pipeline.most_depth(world.size);
    let world = world.size;
    let (lanes, sources) = (pipeline.lanes() / world, config.sources.len());
    let shares = lanes.saturating_mul(sources);
    let batch = pipeline.batch_bytes(world);
    // Besides those in the queue, one is being made and one waits to be queued.
    let batches = batch.saturating_mul(depth.saturating_add(2));
    let least = batches.saturating_add(shares.saturating_mul(LEAST_BYTES));
    let memory = pipeline.memory.as_usize();
    if memory < least {
        return Err(Error::config(
            "pipeline.memory",
            format!(
                "{} must be at least {}: pipeline.depth + 2 batches of {}, and {} for each lane and source",
                pipeline.memory,
                ByteCount(least as u64),
                ByteCount(batch as u64),
                ByteCount(LEAST_BYTES as u64),
            ),
        ));
    }
    let share = (memory - batches) / shares.max(1);
    let open = |index| {
        let source = source.only(index);
        source.open_bytes(abreast(pipeline, side, &source))
    };
    let of_source = |index| Budget::new(share.saturating_sub(open(index)).max(share / 2));
    let of_lane = |_| (0..sources).map(of_source).collect();
    Ok((0..lanes).map(of_lane).collect())
}
