//! The ranks that train one model together: processes, or threads of one process with a device each. Each has its rows
//! of every batch; their gradients and counts are summed here.
//!
//! A trainer calls its peers, and does not know how they communicate. There are two collective operations: an
//! all-gather of values ([`Peers::share`]), and an all-reduce of gradients (`sum`). The rest is made of these: the
//! `vote` before a step, an error that ends all ranks at once ([`Peers::agree`]), and the parts of a checkpoint that
//! come from all ranks. Alone, a rank gets back its own input.
//!
//! Every rank must call the same operations in the same order, or all wait forever. So whatever can fail on one rank
//! alone is agreed on before the next call.

#[cfg(feature = "mpi")]
mod mpi;
mod sum;
mod threads;
mod tokenizer;
mod vote;

use std::sync::Arc;
use std::sync::mpsc::Sender;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) use self::sum::has_gradient;
use self::threads::Member;
pub(super) use self::vote::{Decision, Request, Total, Vote};
use millstream::config::PipelineConfig;
use millstream::error::{Error, Result};
use millstream::world::World;

/// The ranks that train one model together, this one among them. Clones are the same rank.
///
/// Ranks are threads of one process ([`in_process`](Self::in_process)), or processes. With the feature `mpi`, processes
/// communicate over MPI, which a process joins once: later calls get the same peers. When the last clone is dropped,
/// this process leaves MPI, and waits for the other ranks to leave too. After an error of a run they may never do so,
/// and all processes are ended instead. So hold a clone until you have printed the error, and then
/// [abort](Self::abort).
#[derive(Clone, Debug)]
pub struct Peers {
    world: World,
    link: Link,
}

/// How a rank talks with the others.
#[derive(Clone, Debug)]
enum Link {
    Alone,
    Threads(Arc<Member>),
    #[cfg(feature = "mpi")]
    Mpi(Arc<mpi::Mpi>),
}

impl Peers {
    /// One process.
    pub const ALONE: Self = Self { world: World::ALONE, link: Link::Alone };

    /// Joins the processes that a launcher has started with this one, as many as `pipeline` and the environment say; see
    /// [`World`].
    ///
    /// # Errors
    /// [`Error::Config`] if there are several and this build cannot sum over them, or MPI counts them otherwise.
    pub fn join(pipeline: &PipelineConfig) -> Result<Self> {
        match World::launched(pipeline)? {
            World::ALONE => Ok(Self::ALONE),
            world => Ok(Self { world, link: Link::open(world)? }),
        }
    }

    /// As many ranks as this, for as many threads of this process: the first has the rank 0. Each thread trains with its own,
    /// and drops it when it ends. If one ends early, the others get [`Error::Peer`] where they wait for it.
    pub fn in_process(ranks: usize) -> Vec<Self> {
        let peers = |(rank, member)| Self {
            world: World { rank, size: ranks },
            link: Link::Threads(Arc::new(member)),
        };
        match ranks {
            0 | 1 => vec![Self::ALONE; ranks],
            _ => Member::all(ranks).enumerate().map(peers).collect(),
        }
    }

    /// Which rank this is, and how many there are.
    pub fn world(&self) -> World {
        self.world
    }

    /// Whether this is rank 0, which writes the run's files and reports.
    pub fn is_first(&self) -> bool {
        self.world.rank == 0
    }

    /// Whether there is only this rank.
    pub fn is_alone(&self) -> bool {
        matches!(self.link, Link::Alone)
    }

    /// Returns the values of all ranks, by their rank. Blocks until all have called it.
    pub(super) fn share<T: Serialize + DeserializeOwned>(&self, mine: T) -> Result<Vec<T>> {
        let unlike = |e: &dyn std::fmt::Display| {
            Error::Train(format!("ranks cannot share their values: {e}; all ranks need the same build"))
        };
        let bytes = || {
            let mut bytes = Vec::new();
            ciborium::into_writer(&mine, &mut bytes).map_err(|e| unlike(&e)).map(|()| bytes)
        };
        let all = match &self.link {
            Link::Alone => return Ok(vec![mine]),
            Link::Threads(member) => member.share(bytes()?)?,
            #[cfg(feature = "mpi")]
            Link::Mpi(mpi) => mpi.share(bytes()?),
        };
        all.iter().map(|bytes| ciborium::from_reader(bytes.as_slice()).map_err(|e| unlike(&e))).collect()
    }

    /// Returns `mine` if no rank has failed. Blocks until all have called it.
    ///
    /// # Errors
    /// The error of the lowest rank that has failed, on that rank; [`Error::Peer`] on all others.
    pub fn agree<T>(&self, mine: Result<T>) -> Result<T> {
        match self.share(mine.is_err()) {
            Ok(failed) => self.unless_failed(mine, &failed),
            Err(left) => mine.and(Err(left)),
        }
    }

    /// The error that all ranks have found at the same time: rank 0 gets it, and the others [`Error::Peer`].
    pub(super) fn fail(&self, error: Error) -> Error {
        self.note_known_failure();
        if self.is_first() { error } else { Error::Peer { rank: 0 } }
    }

    /// Returns `mine`, given which ranks have failed, or the error that ends this rank.
    fn unless_failed<T>(&self, mine: Result<T>, failed: &[bool]) -> Result<T> {
        let Some(first) = failed.iter().position(|failed| *failed) else { return mine };
        self.note_known_failure();
        match mine {
            Err(error) if first == self.world.rank => Err(error),
            _ => Err(Error::Peer { rank: first }),
        }
    }

    /// Notes that all ranks know of a failure, and end by themselves.
    fn note_known_failure(&self) {
        #[cfg(feature = "mpi")]
        if let Link::Mpi(mpi) = &self.link {
            mpi.note_known_failure();
        }
    }

    /// Returns `result`. If it is an error that the others do not know of, they are not waited for when MPI is left.
    pub(super) fn note_failure<T>(&self, result: Result<T>) -> Result<T> {
        #[cfg(feature = "mpi")]
        if let (Link::Mpi(mpi), Err(_)) = (&self.link, &result) {
            mpi.note_failure();
        }
        result
    }

    /// Ends all processes at once, unless all of them have [agreed](Self::agree) on a failure, and end by themselves. Call
    /// it after the reason has been printed. Alone it does nothing.
    pub fn abort(&self, code: u8) {
        #[cfg(not(feature = "mpi"))]
        let _ = code;
        #[cfg(feature = "mpi")]
        if let Link::Mpi(mpi) = &self.link {
            mpi.abort_unless_known(code);
        }
    }
}

impl Link {
    /// Sends `to` the sum of all ranks' `bucket`. Over MPI others can be added meanwhile; they are sent in order.
    fn add(&self, bucket: Vec<f32>, to: &Sender<Vec<f32>>) -> Result<()> {
        match self {
            // Whoever asked may have failed.
            Self::Alone => drop(to.send(bucket)),
            Self::Threads(member) => drop(to.send(member.add(bucket)?)),
            #[cfg(feature = "mpi")]
            Self::Mpi(mpi) => mpi.add(bucket, to.clone()),
        }
        Ok(())
    }

    #[cfg(feature = "mpi")]
    fn open(world: World) -> Result<Self> {
        mpi::Mpi::join(world).map(Self::Mpi)
    }

    #[cfg(not(feature = "mpi"))]
    fn open(World { rank, size }: World) -> Result<Self> {
        let problem = format!(
            "this is rank {rank} of {size}, and this build of the trainer is one process; build with `cargo build \
             --release --features mpi` and start it with mpirun, or set pipeline.world = 1"
        );
        Err(Error::config("pipeline.world", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rank_that_fails_tells_why() {
        let of = |rank| Peers { world: World { rank, size: 3 }, link: Link::Alone };
        let mine = || Err::<(), _>(Error::Train("mine".to_owned()));
        let said = |result: Result<()>| result.expect_err("a rank has failed").to_string();
        assert!(of(0).unless_failed(Ok(()), &[false, false, false]).is_ok());
        assert!(said(of(0).unless_failed(Ok(()), &[false, true, true])).starts_with("rank 1 has failed"));
        assert_eq!(said(of(1).unless_failed(mine(), &[false, true, true])), "mine");
        assert!(said(of(2).unless_failed(mine(), &[false, true, true])).starts_with("rank 1 has failed"));
        assert_eq!(said(Err(of(0).fail(Error::Train("all".to_owned())))), "all");
        assert!(said(Err(of(2).fail(Error::Train("all".to_owned())))).starts_with("rank 0 has failed"));
    }
}
