//! Which process this is, and how many there are.
//!
//! | launcher | rank | world |
//! |---|---|---|
//! | torchrun, accelerate, DeepSpeed | `RANK` | `WORLD_SIZE` |
//! | Open MPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` |
//! | MPICH, Intel MPI, others with PMI | `PMI_RANK` | `PMI_SIZE` |
//! | Slurm (`srun`) | `SLURM_PROCID` | `SLURM_NTASKS` |
//! | Kubernetes indexed jobs | `JOB_COMPLETION_INDEX` | none: `WORLD_SIZE`, or `pipeline.world` |
//!
//! The first launcher whose rank variable is set wins: the inner one, as a job of Slurm's may start torchrun or mpirun,
//! and its processes have Slurm's variables too. `pipeline.rank` and `pipeline.world` override it, and
//! `pipeline.world = 1` means one process, whatever the environment says.

use std::env::VarError;

use crate::config::PipelineConfig;
use crate::error::{Error, Remedy, Result};

/// The variables that hold rank and world.
const LAUNCHERS: [[&str; 2]; 5] = [
    ["RANK", "WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
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

    /// Finds rank and world in `pipeline` or, if it does not set them, in the environment.
    ///
    /// # Errors
    /// [`Error::Config`] if a needed variable is not a number, if a rank has no world or is not below it, or
    /// if the world does not divide `pipeline.lanes` or, without `pipeline.batch_tokens`,
    /// `pipeline.batch_size`.
    pub fn detect(pipeline: &PipelineConfig) -> Result<Self> {
        Self::detect_in(pipeline, from_environment)
    }

    /// Like [`detect`](World::detect), but looks up environment variables with `variable`.
    pub fn detect_in(pipeline: &PipelineConfig, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let world = Self::launched_in(pipeline, &variable)?;
        share(pipeline, world.size, &Variables(&variable))?;
        if pipeline.rank.is_none() {
            world.tell(&Variables(&variable));
        }
        Ok(world)
    }

    /// As [`detect`](World::detect), whether or not the lanes and rows can be shared in such a world.
    ///
    /// # Errors
    /// As [`detect`](World::detect), except for lanes and rows that cannot be shared.
    pub fn launched(pipeline: &PipelineConfig) -> Result<Self> {
        Self::launched_in(pipeline, &from_environment)
    }

    fn launched_in(pipeline: &PipelineConfig, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let advice = |key: &str| format!("set {key}");
        Self::given([pipeline.rank, pipeline.world], &Variables(variable), advice)
    }

    /// The place of this process among several that prepare token shards together, by the environment alone: a task of
    /// a Slurm job array, or a process of any of the launchers above. If an array's tasks have several processes each,
    /// all of them count.
    ///
    /// # Errors
    /// [`Error::Config`] if a needed variable is missing, is not a number, or is not below the world's size.
    pub fn of_preparing() -> Result<Self> {
        Self::of_preparing_in(from_environment)
    }

    /// Like [`of_preparing`](World::of_preparing), but looks up environment variables with `variable`.
    pub fn of_preparing_in(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        Self::of_task(&Variables(&variable)).map_err(|error| error.with_remedy(Remedy::NamePart))
    }

    fn of_task(variables: &Variables<'_>) -> Result<Self> {
        let advice = |_: &str| "say which part this is".to_owned();
        let process = Self::given([None, None], variables, advice)?;
        process.tell(variables);
        let Some(task) = variables.number("SLURM_ARRAY_TASK_ID")? else { return Ok(process) };
        let number = |name: &str| {
            let unset = || Error::config(name, "the variable is not set; say which part this is");
            variables.number(name)?.ok_or_else(unset)
        };
        let (first, last) = (number("SLURM_ARRAY_TASK_MIN")?, number("SLURM_ARRAY_TASK_MAX")?);
        let count = number("SLURM_ARRAY_TASK_COUNT")?;
        // If an array was submitted again for some of its tasks, nothing tells how many there were.
        if first > 1 || first + count != last + 1 || !(first..=last).contains(&task) {
            let problem = format!(
                "this is task {task} of {count} from {first} to {last}, and parts count on from 0 or 1; say which \
                 part this is"
            );
            return Err(Error::config("SLURM_ARRAY_TASK_ID", problem));
        }
        let world = Self { rank: (task - first) * process.size + process.rank, size: count * process.size };
        let Self { rank, size } = world;
        tracing::info!("this is part {} of {size}, by the variables SLURM_ARRAY_TASK_*", rank + 1);
        Ok(world)
    }

    /// Rank and world, as set or, if not set, from the variables. If one of them is unknown, `advice` says how to set
    /// it.
    fn given(
        [given_rank, given_world]: [Option<usize>; 2],
        variables: &Variables<'_>,
        advice: impl Fn(&str) -> String,
    ) -> Result<Self> {
        if let (None | Some(0), Some(1)) = (given_rank, given_world) {
            return Ok(Self::ALONE);
        }
        let launcher = variables.launcher();
        // A value that is set is not looked up.
        let given = |set: Option<usize>, index: usize| match (set, launcher) {
            (None, Some(names)) => variables.number(names[index]),
            (set, _) => Ok(set),
        };
        let named = |index: usize| {
            launcher.map_or_else(
                || "no variable of a launcher is set".to_owned(),
                |names| format!("the variable {} is not set", names[index]),
            )
        };
        let (rank, world) = match (given(given_rank, 0)?, given(given_world, 1)?) {
            (None, None) => return Ok(Self::ALONE),
            (Some(rank), Some(world)) => (rank, world),
            (Some(rank), None) => {
                let problem = format!("the rank is {rank}, and {}; {}", named(1), advice("pipeline.world"));
                return Err(Error::config("pipeline.world", problem));
            }
            (None, Some(world)) => {
                let problem = format!("the world is {world}, and {}; {}", named(0), advice("pipeline.rank"));
                return Err(Error::config("pipeline.rank", problem));
            }
        };
        let key = launcher.filter(|_| given_rank.is_none()).map_or("pipeline.rank", |names| names[0]);
        below(rank, world, key)?;
        Ok(Self { rank, size: world })
    }

    /// Logs the variables that rank and world come from, if a launcher has set them.
    fn tell(&self, variables: &Variables<'_>) {
        let Self { rank, size } = self;
        if let Some([rank_name, world_name]) = variables.launcher().filter(|_| *self != Self::ALONE) {
            tracing::info!("this is rank {rank} of {size}, by the variables {rank_name} and {world_name}");
        }
    }

    /// How many ranks there will be, as far as the config and the environment say: one if they do not. Unlike
    /// [`detect`](World::detect) this needs no rank, so a config can be checked before its processes are started.
    ///
    /// # Errors
    /// As [`detect`](World::detect), but a rank may be missing.
    pub fn planned(pipeline: &PipelineConfig) -> Result<usize> {
        let world = Self::planned_size(pipeline)?;
        pipeline.rank.map_or(Ok(()), |rank| below(rank, world, "pipeline.rank"))?;
        share(pipeline, world, &Variables(&from_environment))?;
        Ok(world)
    }

    /// As [`planned`](World::planned), whether or not there is such a rank, and whatever the lanes and rows are.
    pub(crate) fn planned_size(pipeline: &PipelineConfig) -> Result<usize> {
        pipeline.world.map_or_else(|| Self::launched(pipeline).map(|world| world.size), Ok)
    }

    /// Refuses lanes and rows that so many devices of one process cannot share evenly.
    ///
    /// # Errors
    /// [`Error::Config`] with the numbers that they could.
    #[doc(hidden)]
    pub fn share_among_devices(pipeline: &PipelineConfig, devices: usize) -> Result<()> {
        share_as(pipeline, devices, "how many train.devices there are", "")
    }

    /// Whether `lane` belongs to this rank.
    pub fn owns(&self, lane: usize) -> bool {
        lane % self.size == self.rank
    }
}

/// A variable of this process's environment.
fn from_environment(name: &str) -> Option<String> {
    match std::env::var(name) {
        Ok(value) => Some(value),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(value)) => Some(value.to_string_lossy().into_owned()),
    }
}

/// Environment variables.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// The text of a variable. An empty one counts as unset.
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|text| !text.trim().is_empty())
    }

    /// The variables of the launcher that has set a rank.
    fn launcher(&self) -> Option<&'static [&'static str; 2]> {
        LAUNCHERS.iter().find(|[rank, _]| self.get(rank).is_some())
    }

    fn number(&self, name: &str) -> Result<Option<usize>> {
        let number = |text: String| {
            let refuse = |_| {
                Error::config(
                    name,
                    format!("the variable is {text:?}, which is not a number; correct or unset it"),
                )
            };
            text.trim().parse().map_err(refuse)
        };
        self.get(name).map(number).transpose()
    }
}

/// Refuses a rank that a world does not have. The key or the variable `key` has it.
fn below(rank: usize, world: usize, key: &str) -> Result<()> {
    if rank < world {
        return Ok(());
    }
    Err(Error::config(key, format!("must be less than the world's size, {world}, not {rank}")))
}

/// Refuses lanes and rows that the ranks of a world cannot share evenly.
fn share(pipeline: &PipelineConfig, world: usize, variables: &Variables<'_>) -> Result<()> {
    let launcher = variables.launcher().filter(|_| (pipeline.rank, pipeline.world) == (None, None));
    let origin = launcher.map_or_else(String::new, |[rank, size]| {
        format!(
            " (the variables {rank} and {size} say that this is one of {world} processes; if it is the only one, set \
             pipeline.world = 1)"
        )
    });
    share_as(pipeline, world, "the world's size", &origin)
}

/// The same, where the number of ranks is called `what`, and `origin` says where it comes from.
fn share_as(pipeline: &PipelineConfig, world: usize, what: &str, origin: &str) -> Result<()> {
    let rows = pipeline.batch_tokens.is_none().then_some(("pipeline.batch_size", pipeline.batch_size));
    let shared = [("pipeline.lanes", pipeline.lanes())].into_iter().chain(rows);
    let mut uneven = shared.filter(|(_, number)| !number.is_multiple_of(world));
    let Some((key, number)) = uneven.next() else { return Ok(()) };
    let also = uneven.next().map_or(String::new(), |(other, number)| {
        format!(", and {other} to {}", number.next_multiple_of(world))
    });
    let problem = format!(
        "must be a multiple of {what}, {world}, not {number}; set it to {}{also}{origin}",
        number.next_multiple_of(world)
    );
    Err(Error::config(key, problem))
}
