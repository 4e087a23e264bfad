//! Checks the laws of order, resume and world on your own config and data.
//!
//! [`Plan::run`] starts a program many times, each time with the same config except for what must not matter: with
//! other workers and depths (law 1); killed again and again, and resumed from the cursor that it left (law 2); as the
//! ranks of several worlds, which share nothing but the files, and resumed at another size (law 3). Every batch of
//! every run is compared with those of one undisturbed run, the reference: the ids of each row, the documents that they
//! come from, and the running digest in the cursor after the batch (in a world, in the merged cursors of its ranks).
//!
//! The program can be any program that calls [`serve`] first, so a loader with custom stages is checked as it is. Held
//! in memory: one batch of each log. The logs are in a temporary directory, with some bytes for each document of a
//! batch. Those of the reference and of one run are there at a time.
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
    /// The program to start. It must call [`serve`].
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The config that its loader is opened with. If it names no tokenizer, every child learns one.
    pub config: Config,
    /// How many batches are compared; fewer if the stream ends before.
    pub batches: u64,
    /// How many children are killed at their work and resumed.
    pub points: u64,
    /// The numbers of workers that must not matter.
    pub workers: Vec<usize>,
    /// The depths that must not matter; each is tried with each number of workers.
    pub depths: Vec<usize>,
    /// The numbers of ranks that must not matter. Each must divide `pipeline.lanes` and, without
    /// `pipeline.batch_tokens`, `pipeline.batch_size`.
    pub worlds: Vec<usize>,
    /// The seed of the random moments. The moments themselves also depend on the speed of the machine.
    pub seed: u64,
    /// How long a child may take for a batch before it counts as hanging. The ranks of a finite config count the whole
    /// corpus before their first batch.
    pub patience: Duration,
}

impl Plan {
    /// The usual plan: 200 batches, 10 kills, 1, 2 and 8 workers, depths 1 and 16, those of the worlds 1, 2, 4 and 8
    /// that the config allows, and a new seed each time.
    pub fn new(config: Config, program: impl Into<PathBuf>) -> Self {
        let worlds = [1, 2, 4, 8].into_iter().filter(|&world| divides(world, &config)).collect();
        Self {
            program: program.into(),
            args: Vec::new(),
            config,
            batches: 200,
            points: 10,
            workers: vec![1, 2, 8],
            depths: vec![1, 16],
            worlds,
            seed: RandomState::new().hash_one("verify"),
            patience: Duration::from_secs(300),
        }
    }

    /// Runs the whole plan, and blocks until it is done. Set `stop` from another thread to interrupt it.
    ///
    /// No child outlives the call, and nothing is left on the disk.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, [`Error::Verify`] for a child that fails by itself or hangs, with its
    /// last words, and [`Error::Io`]. A difference is not an error: it is in the report.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report> {
        self.check()?;
        laws::run(self, stop)
    }

    /// Checks the plan, without starting a child. [`run`](Self::run) does it too.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting.
    pub fn check(&self) -> Result<()> {
        self.config.validate()?;
        if self.config.sources.iter().any(SourceConfig::is_stdin) {
            let problem =
                "standard input comes only once, and the laws are proved by reading many times; name files";
            return Err(Error::config("source", problem));
        }
        let of = |key, numbers: &[usize]| numbers.contains(&0).then_some(key);
        let zero = (self.batches == 0).then_some("batches").or_else(|| of("workers", &self.workers));
        let zero = zero.or_else(|| of("depth", &self.depths)).or_else(|| of("world", &self.worlds));
        if let Some(key) = zero {
            return Err(Error::config(key, "must be at least 1, not 0"));
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
        Ok(())
    }
}

/// Whether so many ranks can share a config's lanes and, where batches have so many, rows.
fn divides(world: usize, config: &Config) -> bool {
    let pipeline = &config.pipeline;
    pipeline.lanes().is_multiple_of(world)
        && (pipeline.batch_tokens.is_some() || pipeline.batch_size.is_multiple_of(world))
}
