//! Which part of a run each device of this process has: its lanes and rows, and its share of the memory.

use crate::config::{ByteCount, Config};
use crate::error::{Error, Result};
use crate::world::World;

/// The config of one rank: its device, its lanes and rows, and its share of the memory.
pub(super) fn of_rank(config: &Config, world: World) -> Config {
    let mut own = config.clone();
    if config.train.device_count() > 1 {
        own.train.devices = vec![config.train.devices[world.rank]];
        (own.pipeline.rank, own.pipeline.world) = (Some(world.rank), Some(world.size));
        own.pipeline.memory = ByteCount(config.pipeline.memory.0 / world.size as u64);
    }
    own
}

/// The configs of all ranks of this process, to be checked before they begin.
///
/// # Errors
/// [`Error::Config`] if there are several devices and several processes.
pub(super) fn of_ranks(config: &Config) -> Result<Vec<Config>> {
    let size = config.train.device_count();
    if size > 1 {
        alone(World::launched(&config.pipeline)?, size)?;
    }
    Ok((0..size).map(|rank| of_rank(config, World { rank, size })).collect())
}

/// Refuses several devices in each of several processes.
pub(super) fn alone(World { rank, size }: World, devices: usize) -> Result<()> {
    if size == 1 {
        return Ok(());
    }
    let problem = format!(
        "it names {devices} devices, and this is rank {rank} of {size}: start one process for all devices, or give each \
         process one"
    );
    Err(Error::config("train.devices", problem))
}
