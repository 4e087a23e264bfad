//! Which part of a run each device of this process has: its lanes and rows, and its share of the memory.

use crate::config::RunConfig;
use millstream::config::ByteCount;
use millstream::error::{Error, Result};
use millstream::world::World;

/// The config of one rank: its device, its lanes and rows, and its share of the memory.
pub(super) fn for_rank(config: &RunConfig, world: World) -> RunConfig {
    let mut own = config.clone();
    if config.train.device_count() > 1 {
        own.train.devices = vec![config.train.devices[world.rank]];
        (own.data.pipeline.rank, own.data.pipeline.world) = (Some(world.rank), Some(world.size));
        own.data.pipeline.memory = ByteCount(config.data.pipeline.memory.0 / world.size as u64);
    }
    own
}

/// The configs of all ranks of this process.
pub(super) fn for_ranks(config: &RunConfig) -> Result<Vec<RunConfig>> {
    let size = config.train.device_count();
    if size > 1 {
        refuse_several_processes(World::launched(&config.data.pipeline)?, size)?;
        World::share_among_devices(&config.data.pipeline, size)?;
    }
    Ok((0..size).map(|rank| for_rank(config, World { rank, size })).collect())
}

/// Refuses several devices in each of several processes.
pub(super) fn refuse_several_processes(World { rank, size }: World, devices: usize) -> Result<()> {
    if size == 1 {
        return Ok(());
    }
    let problem = format!(
        "it names {devices} devices, and this is rank {rank} of {size}: start one process for all devices, or give each \
         process one"
    );
    Err(Error::config("train.devices", problem))
}

/// The error of one rank with the numbers of the whole run: the ranks of this process share `pipeline.memory`.
pub(super) fn for_whole_run(error: Error, config: &RunConfig) -> Error {
    let devices = config.train.device_count();
    match error {
        Error::Config { key, problem, place, remedy } if devices > 1 && key == "pipeline.memory" => {
            let problem =
                format!("{problem}; {devices} devices share it, so it must be {devices} times as much");
            Error::Config { key, problem, place, remedy }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_a_device_each_and_share_the_memory() {
        let mut config = RunConfig::default();
        let alone = for_ranks(&config).expect("one");
        assert_eq!(alone, [config.clone()]);
        config.train.devices = vec![3, 0];
        let ranks = for_ranks(&config).expect("two");
        let world = |config: &RunConfig| (config.data.pipeline.rank, config.data.pipeline.world);
        assert_eq!(ranks.iter().map(world).collect::<Vec<_>>(), [(Some(0), Some(2)), (Some(1), Some(2))]);
        assert_eq!(ranks.iter().map(|rank| rank.train.devices[0]).collect::<Vec<_>>(), [3, 0]);
        let memory: u64 = ranks.iter().map(|rank| rank.data.pipeline.memory.0).sum();
        assert_eq!(memory, config.data.pipeline.memory.0);
    }
}
