//! Several devices of one process. Each has a rank, with a replica of the model and its own lanes, on a thread; the first
//! runs on the caller's. A run on two devices has the batches, the sums and the checkpoints of a run on two processes.
//!
//! Held in memory, for each device: a model, its moments, and a loader with its share of `pipeline.memory`.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Handle;

use super::devices::refuse_several_processes;
use super::rank::Rank;
use crate::events::{Observer, Outcome};
use crate::peers::Peers;
use millstream::error::{Error, Result};

/// Trains `rank`'s run on all devices of its config.
pub(super) async fn train(
    rank: Rank,
    observer: &mut dyn Observer,
    stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<Outcome> {
    let count = rank.config.train.device_count();
    if count == 1 {
        return rank.train(observer, stop).await;
    }
    refuse_several_processes(rank.peers.world(), count)?;
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
    // Only the first rank reports.
    let train = move || runtime.block_on(rank.train(&mut (), pin!(pending())));
    let failed = |e| Error::Train(format!("cannot start the thread of device {number}: {e}"));
    Builder::new().name(format!("device {number}")).spawn(train).map_err(failed)
}
