//! Checks the laws of order, resume and world: of your own config and data, or of any loader.
//!
//! [`Plan::run`] starts a program many times, and changes only settings that must not matter: with other workers and
//! depths (law 1); killed again and again, and resumed from its last saved state (law 2); as the ranks of several
//! worlds, which share nothing but the files, and resumed at another size (law 3). Every batch of every run is compared
//! with those of one undisturbed run, the reference. If something differs, the report names the first [`Difference`]:
//! which row was lost, repeated, changed or moved.
//!
//! For a Millstream loader it compares the ids of each row, their documents, and the running digest in the cursor after
//! the batch (in a world, in the merged cursors of its ranks). The program can be any program that calls [`serve`]
//! first, so a loader with custom stages is checked as it is.
//!
//! Held in memory: one batch of each log. The logs are in a temporary directory, with the name of each document of a
//! batch, and only the reference's and one run's are there at a time.
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
//!
//! # Any loader
//!
//! [`Plan::of_any`] proves any other loader, in any language: it only has to save its state as text, and to continue
//! from it. Its program follows these orders.
//!
//! The environment variable `MILLSTREAM_VERIFY_ORDERS` holds the path of a JSON file:
//!
//! ```json
//! {
//!   "config": null,
//!   "until": 200,
//!   "step": {"secs": 0, "nanos": 2000000},
//!   "log": "/tmp/millstream-verify-x/7.log",
//!   "loader": {"workers": 2, "rank": 0, "world": 1, "from": 17, "states": ["…"]}
//! }
//! ```
//!
//! - `workers` is the number of workers; 0 is the process itself. The rows must not depend on it. A state is only given
//!   to as many workers as saved it; in law 3, to as many in each rank.
//! - `rank` and `world` say which process this is. Batch by batch, the ranks of a world together must have the same
//!   rows as one process, in any order and divided in any way.
//! - `from` is the number of batches before the first one that it makes: 0 at the start.
//! - `states` is empty at the start. Otherwise it has the states that all ranks of the run before saved after the same
//!   batch, in the order of ranks. They may have been more or fewer than `world`, if the plan has several worlds.
//!
//! For each batch it appends one line to the file `log`, in one write, and flushes it:
//!
//! ```json
//! {"batch": 17, "rows": [["5e1f…", "corpus/b.jsonl:9"], ["…", "…"]], "state": "…"}
//! ```
//!
//! - `batch` counts from 0 over the whole run, so the first number is `from`.
//! - `rows` has for each row a digest of everything that the trainer gets of it, and its name in words, for people.
//!   Rows are the same if their digests are.
//! - `state` leads to the batch after this one, and not past batches that were only read ahead.
//!
//! After each batch it pauses for `step`, as a trainer would. It ends with exit code 0 before batch `until`, at the end
//! of its data, or if it cannot go on from `states`: then it writes why to a file beside the log, with the extension
//! `refused`, which counts as a difference. With any other exit code the proof fails, and quotes the last lines of
//! standard error. Standard input closes when the parent is gone: it should end then.

mod child;
mod compare;
mod difference;
mod laws;
mod log;
mod orders;
mod process;
mod report;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use child::serve;
pub use difference::{Difference, DifferenceKind, RowAt};
pub use orders::Subject;
pub use report::{Check, Law, Report};

use crate::config::{Config, SourceConfig};
use crate::error::{Error, Result};

/// The comparisons to make, and the program to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The subject of the proof: the loader of a config, or any loader.
    pub subject: Subject,
    /// The program to start. It must call [`serve`], or be [any loader's](self#any-loader).
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// How many batches are compared; fewer if the stream ends before.
    pub batches: u64,
    /// How many children are killed at their work and resumed.
    pub points: u64,
    /// The numbers of workers that must not matter. For any loader 0 is the process itself; the reference has the first
    /// number, a world the last, and the kills are shared out among all.
    pub workers: Vec<usize>,
    /// The depths that must not matter; each is tried with each number of workers. None for any loader.
    pub depths: Vec<usize>,
    /// The numbers of ranks that must not matter. With a config, each must divide `pipeline.lanes` and, without
    /// `pipeline.batch_tokens`, `pipeline.batch_size`. For any loader, worlds that its program can run as.
    pub worlds: Vec<usize>,
    /// The seed of the random moments. The moments themselves also depend on the speed of the machine.
    pub seed: u64,
    /// How long a child may take for a batch before it counts as hanging. The ranks of a finite config wait at
    /// their end until the whole corpus is counted.
    pub patience: Duration,
}

impl Plan {
    /// The usual plan for a Millstream loader: 200 batches, 10 kills, 1, 2 and 8 workers, depths 1 and 16, those of the
    /// worlds 1, 2, 4 and 8 that the config allows, and a new seed each time.
    pub fn new(config: Config, program: impl Into<PathBuf>) -> Self {
        let worlds = [1, 2, 4, 8].into_iter().filter(|&world| divides(world, &config)).collect();
        let (workers, depths) = (vec![1, 2, 8], vec![1, 16]);
        Self { workers, depths, worlds, ..Self::usual(Subject::Config(Box::new(config)), program.into()) }
    }

    /// The usual plan for [any loader](self#any-loader): 200 batches, 10 kills, 0, 1 and 2 workers, one process, and a
    /// new seed each time.
    pub fn of_any(program: impl Into<PathBuf>) -> Self {
        Self { workers: vec![0, 1, 2], worlds: vec![1], ..Self::usual(Subject::Any, program.into()) }
    }

    fn usual(subject: Subject, program: PathBuf) -> Self {
        Self {
            subject,
            program,
            args: Vec::new(),
            batches: 200,
            points: 10,
            workers: Vec::new(),
            depths: Vec::new(),
            worlds: Vec::new(),
            seed: RandomState::new().hash_one("verify"),
            patience: Duration::from_secs(300),
        }
    }

    /// The config, to change it; `None` for any loader.
    pub fn config_mut(&mut self) -> Option<&mut Config> {
        match &mut self.subject {
            Subject::Config(config) => Some(config),
            Subject::Any => None,
        }
    }

    /// Runs the whole plan, and blocks until it is done. Set `stop` from another thread to interrupt it.
    ///
    /// No child outlives the call, and nothing is left on the disk.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, [`Error::Verify`] for a child that fails by itself or hangs, with its
    /// last words, or for an interruption, with what was found before it, and [`Error::Io`]. A difference is not an
    /// error: it is in the report.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report> {
        self.check()?;
        laws::run(self, stop)
    }

    /// Checks the plan, without starting a child. [`run`](Self::run) does it too.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting.
    pub fn check(&self) -> Result<()> {
        let of = |key, numbers: &[usize]| numbers.contains(&0).then_some(key);
        let zero = (self.batches == 0).then_some("batches");
        let zero = zero.or_else(|| of("depth", &self.depths)).or_else(|| of("world", &self.worlds));
        if let Some(key) = zero {
            return Err(Error::config(key, "must be at least 1, not 0"));
        }
        match &self.subject {
            Subject::Config(config) => self.check_config(config),
            Subject::Any if self.workers.is_empty() => {
                Err(Error::config("workers", "name at least one number of workers, such as 0"))
            }
            Subject::Any if !self.depths.is_empty() => {
                let problem = "only a Millstream loader has a depth; leave it out, or give its config too";
                Err(Error::config("depth", problem))
            }
            Subject::Any => Ok(()),
        }
    }

    fn check_config(&self, config: &Config) -> Result<()> {
        config.validate()?;
        if config.sources.iter().any(SourceConfig::is_stdin) {
            let problem =
                "standard input comes only once, and the laws are proved by reading many times; name files";
            return Err(Error::config("source", problem));
        }
        if self.workers.contains(&0) {
            let problem = "must be at least 1, not 0: a Millstream loader always has workers of its own";
            return Err(Error::config("workers", problem));
        }
        let pipeline = &config.pipeline;
        let Some(world) = self.worlds.iter().find(|&&world| !divides(world, config)) else { return Ok(()) };
        let (rows, keys) = match pipeline.batch_tokens {
            None => {
                let rows = format!(" and {} rows a batch", pipeline.batch_size);
                (rows, "pipeline.lanes and pipeline.batch_size to multiples")
            }
            Some(_) => (String::new(), "pipeline.lanes to a multiple"),
        };
        let lanes = pipeline.lanes();
        let problem = format!(
            "{world} ranks cannot share {lanes} lanes{rows} evenly; leave {world} out, or set {keys} of it"
        );
        Err(Error::config("world", problem))
    }
}

/// Whether so many ranks can share a config's lanes and, if batches have a fixed number of rows, its rows.
fn divides(world: usize, config: &Config) -> bool {
    let pipeline = &config.pipeline;
    pipeline.lanes().is_multiple_of(world)
        && (pipeline.batch_tokens.is_some() || pipeline.batch_size.is_multiple_of(world))
}
