//! Several devices of one process. Each has a rank on a thread of its own, with its own replica of the model and its own
//! lanes; the caller's thread has the first. So a run on two devices makes the batches, the sums and the checkpoints of
//! one on two processes.
//!
//! Held in memory, for each device: a model, its moments, and a loader with its share of `pipeline.memory`.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Handle;

use super::peers::Peers;
use super::report::{Observer, Outcome};
use super::run::Rank;
use crate::config::{ByteCount, Config};
use crate::error::{Error, Result};
use crate::world::World;

/// The rank of a device beside the first says nothing.
struct Silent;

impl Observer for Silent {}

/// Trains `rank`'s run on all devices of its config.
///
/// # Errors
/// Those of a run; [`Error::Config`] if there are several devices and several processes.
pub(super) async fn train(
    rank: Rank,
    observer: &mut dyn Observer,
    stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<Outcome> {
    let count = rank.config.train.device_count();
    if count == 1 {
        return rank.train(observer, stop).await;
    }
    alone(rank.peers.world(), count)?;
    let mut ranks = Peers::in_process(count).into_iter().map(|peers| rank.with_peers(peers));
    let first = ranks.next().expect("there are several");
    let threads: Vec<JoinHandle<_>> = ranks.map(on_thread).collect::<Result<_>>()?;
    let outcome = first.train(observer, stop).await;
    let mut reason = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(_) | Err(Error::Peer { .. })) => {}
            Ok(Err(error)) => reason = reason.or(Some(error)),
            Err(panic) => resume_unwind(panic),
        }
    }
    match (outcome, reason) {
        (Ok(_) | Err(Error::Peer { .. }), Some(error)) => Err(error),
        (outcome, _) => outcome,
    }
}

/// Starts the thread that trains one rank.
fn on_thread(rank: Rank) -> Result<JoinHandle<Result<Outcome>>> {
    let (runtime, number) = (Handle::current(), rank.peers.world().rank);
    let train = move || runtime.block_on(rank.train(&mut Silent, pin!(pending())));
    let failed = |e| Error::Train(format!("cannot start the thread of device {number}: {e}"));
    Builder::new().name(format!("device {number}")).spawn(train).map_err(failed)
}

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
fn alone(World { rank, size }: World, devices: usize) -> Result<()> {
    if size == 1 {
        return Ok(());
    }
    let problem = format!(
        "it names {devices} devices, and this is rank {rank} of {size}: start one process for all devices, or give each \
         process one"
    );
    Err(Error::config("train.devices", problem))
}
