//! Which process this is, and how many there are.
//!
//! | launcher | rank | world |
//! |---|---|---|
//! | torchrun, accelerate, DeepSpeed | `RANK` | `WORLD_SIZE` |
//! | Slurm (`srun`) | `SLURM_PROCID` | `SLURM_NTASKS` |
//! | Open MPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` |
//! | MPICH, Intel MPI, others with PMI | `PMI_RANK` | `PMI_SIZE` |
//! | Kubernetes indexed jobs | `JOB_COMPLETION_INDEX` | none: `WORLD_SIZE`, or `pipeline.world` |
//!
//! The first launcher whose rank variable is set wins. `pipeline.rank` and `pipeline.world` override it, and
//! `pipeline.world = 1` means one process, whatever the environment says.

use std::env::VarError;

use crate::config::PipelineConfig;
use crate::error::{Error, Result};

/// The variables that hold rank and world.
const LAUNCHERS: [[&str; 2]; 5] = [
    ["RANK", "WORLD_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["JOB_COMPLETION_INDEX", "WORLD_SIZE"],
];

/// One of several processes that share nothing but the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// Which process this is, from 0.
    pub rank: usize,
    /// How many there are, at least 1.
    pub size: usize,
}

impl World {
    /// One process.
    pub const ALONE: Self = Self { rank: 0, size: 1 };

    /// Finds rank and world: from `pipeline` and, for what it leaves out, from the environment.
    ///
    /// # Errors
    /// [`Error::Config`] if a needed variable is not a number, if a rank has no world or is not below it, or
    /// if the world does not divide `pipeline.lanes` or, without `pipeline.batch_tokens`,
    /// `pipeline.batch_size`.
    pub fn detect(pipeline: &PipelineConfig) -> Result<Self> {
        Self::detect_in(pipeline, |name| match std::env::var(name) {
            Ok(value) => Some(value),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(value)) => Some(value.to_string_lossy().into_owned()),
        })
    }

    /// Like [`detect`](World::detect), but looks up environment variables with `variable`.
    pub fn detect_in(pipeline: &PipelineConfig, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        // An empty variable counts as unset.
        let variable = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let number = |name: &str| -> Result<Option<usize>> {
            variable(name)
                .map(|text| {
                    text.trim().parse().map_err(|_| {
                        Error::config(
                            name,
                            format!("the variable is {text:?}, which is not a number; correct or unset it"),
                        )
                    })
                })
                .transpose()
        };
        if let (None | Some(0), Some(1)) = (pipeline.rank, pipeline.world) {
            return Ok(Self::ALONE);
        }
        let launcher = LAUNCHERS.iter().find(|[rank, _]| variable(rank).is_some());
        // A value that the config sets is not looked up.
        let given = |set: Option<usize>, index: usize| match (set, launcher) {
            (None, Some(names)) => number(names[index]),
            (set, _) => Ok(set),
        };
        let named = |index: usize| {
            launcher.map_or_else(
                || "no variable of a launcher is set".to_owned(),
                |names| format!("the variable {} is not set", names[index]),
            )
        };
        let (rank, world) = match (given(pipeline.rank, 0)?, given(pipeline.world, 1)?) {
            (None, None) => return Ok(Self::ALONE),
            (Some(rank), Some(world)) => (rank, world),
            (Some(rank), None) => {
                let problem = format!("the rank is {rank}, and {}; set pipeline.world", named(1));
                return Err(Error::config("pipeline.world", problem));
            }
            (None, Some(world)) => {
                let problem = format!("the world is {world}, and {}; set pipeline.rank", named(0));
                return Err(Error::config("pipeline.rank", problem));
            }
        };
        below(rank, world)?;
        share(pipeline, world)?;
        if let Some([rank_name, world_name]) = launcher.filter(|_| pipeline.rank.is_none()) {
            tracing::info!("this is rank {rank} of {world}, by the variables {rank_name} and {world_name}");
        }
        Ok(Self { rank, size: world })
    }

    /// How many ranks there will be, as far as the config and the environment say: one if they do not. Unlike
    /// [`detect`](World::detect) this needs no rank, so a config can be checked before its processes are started.
    ///
    /// # Errors
    /// As [`detect`](World::detect), but a rank may be missing.
    pub fn planned(pipeline: &PipelineConfig) -> Result<usize> {
        let world = match pipeline.world {
            Some(world) => world,
            None => Self::detect(pipeline)?.size,
        };
        pipeline.rank.map_or(Ok(()), |rank| below(rank, world))?;
        share(pipeline, world)?;
        Ok(world)
    }

    /// Whether `lane` belongs to this rank.
    pub fn owns(&self, lane: usize) -> bool {
        lane % self.size == self.rank
    }
}

/// Refuses a rank that a world does not have.
fn below(rank: usize, world: usize) -> Result<()> {
    if rank < world {
        return Ok(());
    }
    Err(Error::config("pipeline.rank", format!("must be less than the world's size, {world}, not {rank}")))
}

/// Refuses lanes and rows that the ranks of a world cannot share evenly.
fn share(pipeline: &PipelineConfig, world: usize) -> Result<()> {
    let rows = pipeline.batch_tokens.is_none().then_some(("pipeline.batch_size", pipeline.batch_size));
    let shared = [("pipeline.lanes", pipeline.lanes())].into_iter().chain(rows);
    let mut uneven = shared.filter(|(_, number)| !number.is_multiple_of(world));
    let Some((key, number)) = uneven.next() else { return Ok(()) };
    let also = uneven.next().map_or(String::new(), |(other, number)| {
        format!(", and {other} to {}", number.next_multiple_of(world))
    });
    let problem = format!(
        "must be a multiple of the world's size, {world}, not {number}; set it to {}{also}",
        number.next_multiple_of(world)
    );
    Err(Error::config(key, problem))
}
