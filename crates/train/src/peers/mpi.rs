//! Communicates with the other ranks over MPI. One thread makes all of MPI's calls, one after another, so that the
//! training thread goes on while a bucket is summed.
//!
//! A sum does not depend on how the MPI library adds: every rank gets its part of all ranks' buckets, adds them up in the
//! order of the ranks, and gives the others the result. That sends as many bytes as the best all-reduce for large
//! messages, and makes the same sum of the same numbers on every network and with every library.
//!
//! MPI's own error handler ends all ranks when a connection breaks. Held in memory: one bucket and its parts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle, panicking};

use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use millstream::error::{Error, Result};
use millstream::world::World;

/// MPI, from when it is joined until this is dropped.
#[derive(Debug)]
pub(super) struct Mpi {
    world: World,
    /// Whether the library lets other threads call it while this one does.
    takes_calls_of_any_thread: bool,
    /// `None` once it is being left.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    has_failed: AtomicBool,
    failure_is_known: AtomicBool,
}

/// The jobs of the thread, and who waits for each.
enum Job {
    Share(Vec<u8>, Sender<Vec<Vec<u8>>>),
    Add(Vec<f32>, Sender<Vec<f32>>),
}

/// Why nothing else can happen to the thread.
const LIVES: &str = "the thread that talks to MPI ends only when it is left";

impl Mpi {
    /// Joins MPI, or returns what is joined already.
    ///
    /// # Errors
    /// [`Error::Config`] if MPI does not count the processes as `world` does; [`Error::Train`] if it was left before, allows no
    /// other threads in a process, or no thread can be started.
    pub(super) fn join(world: World) -> Result<Arc<Self>> {
        static JOINED: Mutex<Weak<Mpi>> = Mutex::new(Weak::new());
        let mut joined = JOINED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mpi) = joined.upgrade() {
            return Ok(mpi);
        }
        let (jobs, received) = channel();
        let (counted, count) = channel();
        let thread = Builder::new().name("mpi".to_owned()).spawn(move || serve(&counted, &received));
        let thread = thread.map_err(|e| Error::Train(format!("cannot start the thread for MPI: {e}")))?;
        let Ok((counted, granted)) = count.recv() else {
            let problem =
                "MPI was left before, and a process can join it once; hold the peers until all is done";
            return Err(Error::Train(problem.to_owned()));
        };
        let mpi = Arc::new(Self {
            world,
            takes_calls_of_any_thread: granted == Threading::Multiple,
            jobs: Some(jobs),
            thread: Some(thread),
            has_failed: AtomicBool::new(false),
            failure_is_known: AtomicBool::new(false),
        });
        if granted == Threading::Single {
            let problem = "this MPI library allows no threads in a process (MPI_THREAD_SINGLE), and training needs some; use one \
                           that is built with threads";
            return Err(Error::Train(problem.to_owned()));
        }
        *joined = Arc::downgrade(&mpi);
        match counted == world {
            true => Ok(mpi),
            false => Err(miscounted(world, counted)),
        }
    }

    pub(super) fn share(&self, mine: Vec<u8>) -> Vec<Vec<u8>> {
        let (to, all) = channel();
        self.ask(Job::Share(mine, to));
        all.recv().expect(LIVES)
    }

    pub(super) fn add(&self, bucket: Vec<f32>, to: Sender<Vec<f32>>) {
        self.ask(Job::Add(bucket, to));
    }

    fn ask(&self, job: Job) {
        self.jobs.as_ref().and_then(|jobs| jobs.send(job).ok()).expect(LIVES);
    }

    /// Notes that all ranks know of a failure, and will leave.
    pub(super) fn note_known_failure(&self) {
        self.failure_is_known.store(true, Ordering::Relaxed);
    }

    pub(super) fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Ends all ranks with the exit code `code`, unless they will leave by themselves.
    pub(super) fn abort_unless_known(&self, code: u8) {
        if self.failure_is_known.load(Ordering::Relaxed) || self.world.size == 1 {
            return;
        }
        match self.takes_calls_of_any_thread {
            true => SimpleCommunicator::world().abort(code.into()),
            // The launcher ends all ranks if one ends without having left.
            false => std::process::exit(code.into()),
        }
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // The others may wait for this rank, which will not come.
        if panicking() || self.has_failed.load(Ordering::Relaxed) {
            self.abort_unless_known(1);
        }
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Joins MPI, does the jobs that come, and leaves it when no more can come.
fn serve(counted: &Sender<(World, Threading)>, jobs: &Receiver<Job>) {
    // Another thread may abort while this one waits for the others, if the library grants that.
    let Some((universe, granted)) = mpi::initialize_with_threading(Threading::Multiple) else { return };
    let world = universe.world();
    let count = World { rank: world.rank() as usize, size: world.size() as usize };
    if counted.send((count, granted)).is_err() {
        return;
    }
    // Kept from bucket to bucket: the system would give it anew, page by page.
    let mut parts = Vec::new();
    for job in jobs {
        // Whoever asked may have failed meanwhile.
        match job {
            Job::Share(mine, to) => drop(to.send(share(&world, &mine))),
            Job::Add(bucket, to) => drop(to.send(add(&world, bucket, &mut parts))),
        }
    }
}

/// The bytes of all ranks.
fn share(world: &SimpleCommunicator, mine: &[u8]) -> Vec<Vec<u8>> {
    // One byte goes ahead, so that nothing is empty: where Rust says that an empty array of bytes is, at address 1, Open MPI
    // sees `MPI_IN_PLACE`.
    let mine = [&[0], mine].concat();
    let mut lengths = vec![0; world.size() as usize];
    world.all_gather_into(&(mine.len() as i32), &mut lengths);
    let starts: Vec<i32> =
        lengths.iter().scan(0, |end, length| Some(std::mem::replace(end, *end + length))).collect();
    let mut all: Vec<u8> = vec![0; lengths.iter().sum::<i32>() as usize];
    world.all_gather_varcount_into(&*mine, &mut PartitionMut::new(&mut all, &*lengths, &*starts));
    let of = |(start, length): (&i32, &i32)| all[*start as usize..][1..*length as usize].to_vec();
    starts.iter().zip(&lengths).map(of).collect()
}

/// The sum of all ranks' buckets, which are equally long. `parts` is room for this rank's part of each.
fn add(world: &SimpleCommunicator, mut bucket: Vec<f32>, parts: &mut Vec<f32>) -> Vec<f32> {
    let (length, ranks) = (bucket.len(), world.size() as usize);
    let part = length.div_ceil(ranks);
    bucket.resize(part * ranks, 0.0);
    parts.resize(bucket.len(), 0.0);
    world.all_to_all_into(&*bucket, &mut **parts);
    let (sum, others) = parts.split_at_mut(part);
    for other in others.chunks_exact(part) {
        sum.iter_mut().zip(other).for_each(|(sum, number)| *sum += number);
    }
    world.all_gather_into(&*sum, &mut *bucket);
    bucket.truncate(length);
    bucket
}

/// MPI has another rank for this process than its launcher, or the config.
fn miscounted(World { rank, size }: World, counted: World) -> Error {
    let problem = match counted.size {
        1 => format!(
            "this is rank {rank} of {size}, and MPI knows of one process: start the ranks with mpirun, or with srun \
             --mpi=pmix, or set pipeline.world = 1"
        ),
        _ => format!(
            "this is rank {rank} of {size} by the config and the environment, and rank {} of {} for MPI: leave \
             pipeline.rank and pipeline.world to the launcher, and start one program with mpirun",
            counted.rank, counted.size
        ),
    };
    Error::config("pipeline.world", problem)
}
