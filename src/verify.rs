//! The laws of order, resume and world, proved on anybody's own config and data.
//!
//! [`Plan::run`] starts a program many times, each time with the same config but for what must not matter:
//! other workers and depths (law 1), killed again and again and resumed from the cursor that it left (law 2),
//! as the ranks of several worlds, which share nothing but the files, and resumed at another size (law 3).
//! Every batch of every run is compared with those of one quiet run, the reference: the ids of each row, the
//! documents that they are of, and the running digest in the cursor behind it (in a world, in the merged cursors
//! of its ranks).
//!
//! The program is any that calls [`serve`] first, so that a loader with stages of one's own is proved as it
//! is. Held in memory: a batch of each log. Logs lie in a temporary directory, some bytes for each document of
//! a batch; the reference's and one run's are there at a time.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use millstream::{Config, verify};
//!
//! # fn example() -> millstream::Result<()> {
//! let plan = verify::Plan::new(Config::load("my.toml")?, "target/release/my-loader");
//! let report = plan.run(&AtomicBool::new(false))?;
//! println!("{report}");
//! assert_eq!(report.mismatches, 0);
//! # Ok(()) }
//! ```

mod chance;
mod child;
mod compare;
mod laws;
mod log;
mod process;
mod report;

use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use child::serve;
pub use compare::Difference;
pub use report::{Check, Law, Report};

use crate::config::{Config, SourceConfig};
use crate::error::{Error, Result};

/// What to compare, and with which program.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that is started: one that calls [`serve`].
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// What its loader is opened with. A tokenizer that it does not name is learned by every child.
    pub config: Config,
    /// How many batches are compared; fewer if the stream ends before.
    pub batches: NonZeroU64,
    /// How many children are killed at their work and resumed.
    pub points: u64,
    /// The numbers of workers that must not matter.
    pub workers: Vec<NonZeroUsize>,
    /// The depths that must not matter; each is tried with each number of workers.
    pub depths: Vec<NonZeroUsize>,
    /// The numbers of ranks that must not matter. Each must divide `pipeline.lanes` and, without
    /// `pipeline.batch_tokens`, `pipeline.batch_size`.
    pub worlds: Vec<NonZeroUsize>,
    /// What the random moments are drawn from. The moments themselves also depend on how fast the machine is.
    pub seed: u64,
    /// How long a child may go without a batch before it counts as hanging. Ranks of a finite config count the
    /// whole corpus before their first one.
    pub patience: Duration,
}

const fn non_zero(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("a constant above zero")
}

impl Plan {
    /// The usual plan: 200 batches, 10 kills, 1, 2 and 8 workers, depths 1 and 16, those worlds of 1, 2, 4 and 8
    /// that the config allows, and another seed each time.
    pub fn new(config: Config, program: impl Into<PathBuf>) -> Self {
        let worlds =
            [1, 2, 4, 8].map(non_zero).into_iter().filter(|&world| divides(world, &config)).collect();
        Self {
            program: program.into(),
            args: Vec::new(),
            config,
            batches: const { NonZeroU64::new(200).unwrap() },
            points: 10,
            workers: [1, 2, 8].map(non_zero).to_vec(),
            depths: [1, 16].map(non_zero).to_vec(),
            worlds,
            seed: RandomState::new().hash_one("verify"),
            patience: Duration::from_secs(300),
        }
    }

    /// Runs all of it, and blocks meanwhile. Set `stop` from elsewhere to give it up.
    ///
    /// No child outlives it, and nothing is left on the disk.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, [`Error::Verify`] for a child that fails by itself or hangs, with its
    /// last words, and [`Error::Io`]. A difference is no error: it stands in the report.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report> {
        self.config.validate()?;
        if self.config.sources.iter().any(SourceConfig::is_stdin) {
            let problem =
                "standard input comes only once, and the laws are proved by reading many times; name files";
            return Err(Error::config("source", problem));
        }
        for &world in &self.worlds {
            if !divides(world, &self.config) {
                let pipeline = &self.config.pipeline;
                let (rows, keys) = match pipeline.batch_tokens {
                    None => {
                        let rows = format!(" and {} rows a batch", pipeline.batch_size);
                        (rows, "pipeline.lanes and pipeline.batch_size to multiples")
                    }
                    Some(_) => (String::new(), "pipeline.lanes to a multiple"),
                };
                return Err(Error::config(
                    "world",
                    format!(
                        "{world} ranks cannot share {} lanes{rows} evenly; leave {world} out, or set {keys} of it",
                        pipeline.lanes()
                    ),
                ));
            }
        }
        laws::run(self, stop)
    }
}

/// Whether so many ranks can share a config's lanes and, where batches have so many, rows.
fn divides(world: NonZeroUsize, config: &Config) -> bool {
    let pipeline = &config.pipeline;
    pipeline.lanes().get().is_multiple_of(world.get())
        && (pipeline.batch_tokens.is_some() || pipeline.batch_size.get().is_multiple_of(world.get()))
}
