//! The subject of a proof, and the orders of a parent to a child: a file of JSON, whose path is in the child's
//! environment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ByteCount, Config};
use crate::cursor::Cursor;
use crate::error::{Error, Result};

/// The environment variable that makes a program a child: the path of its orders.
pub(super) const ORDERS: &str = "MILLSTREAM_VERIFY_ORDERS";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    /// The config, with the child's workers, rank and world, so that the environment does not matter; `None` for any
    /// loader.
    pub(super) config: Option<Config>,
    /// The number of the first batch that need not be logged.
    pub(super) until: u64,
    /// How long to pause after each batch, like a trainer's step.
    pub(super) step: Duration,
    pub(super) log: PathBuf,
    pub(super) loader: Place,
}

/// Which child of how many it is, and where it continues.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Place {
    /// The number of workers; 0 is the process itself.
    pub(super) workers: usize,
    pub(super) rank: usize,
    pub(super) world: usize,
    /// The number of its first batch.
    pub(super) from: u64,
    /// The states that all ranks of the run before saved after the same batch, in the order of ranks, or one merged
    /// cursor; none at the start.
    pub(super) states: Vec<String>,
}

/// The file where a child writes why it did not continue from the saved states.
pub(super) fn refusal(log: &Path) -> PathBuf {
    log.with_extension("refused")
}

/// The subject of a [`Plan`](super::Plan).
#[derive(Clone, Debug)]
pub enum Subject {
    /// A Millstream loader with this config. The program must call [`serve`](super::serve). If the config names no
    /// tokenizer, every child learns one.
    Config(Box<Config>),
    /// [Any loader](super#any-loader): the program follows its orders by itself.
    Any,
}

/// The settings of a child that must not matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup {
    /// `None`: as the config says, or in the process itself.
    pub(super) workers: Option<usize>,
    /// `None`: as the config says. Any loader has none.
    pub(super) depth: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) setup: Setup,
    pub(super) rank: usize,
    pub(super) world: usize,
    /// Where it goes on; `None`: at the start.
    pub(super) saved: Option<&'a Saved>,
    /// How long it pauses after each batch.
    pub(super) step: Duration,
}

impl Run<'_> {
    /// One process, from the start, without a pause.
    pub(super) fn alone(setup: Setup) -> Self {
        Self { setup, rank: 0, world: 1, saved: None, step: Duration::ZERO }
    }
}

/// The states that all ranks of a run saved after the same batch.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// How many batches of the run came before.
    pub(super) after: u64,
    /// One merged cursor, or the state of each rank of any loader, in order.
    pub(super) states: Vec<String>,
}

pub(super) fn merged<'a>(states: impl Iterator<Item = &'a String>) -> Result<Cursor> {
    let read = |state: &String| {
        let torn =
            |e| Error::Verify { problem: format!("a child logged something that is not a cursor: {e}") };
        serde_json::from_str(state).map_err(torn)
    };
    Cursor::merge(&states.map(read).collect::<Result<Vec<Cursor>>>()?)
}

impl Subject {
    pub(super) fn orders(&self, run: &Run<'_>, until: u64, log: PathBuf) -> Orders {
        let Run { setup, rank, world, saved, step } = *run;
        let config = match self {
            Self::Config(config) => Some(with_setup(config, setup, rank, world)),
            Self::Any => None,
        };
        let Saved { after: from, states } = saved.cloned().unwrap_or(Saved { after: 0, states: Vec::new() });
        let loader = Place { workers: setup.workers.unwrap_or(0), rank, world, from, states };
        Orders { config, until, step, log, loader }
    }

    /// The name, in words, of its loader's saved states.
    pub(super) fn saves(&self) -> &'static str {
        match self {
            Self::Config(_) => "cursor",
            Self::Any => "state",
        }
    }
}

/// The config of one rank, whatever the environment says.
fn with_setup(config: &Config, setup: Setup, rank: usize, world: usize) -> Config {
    let mut config = config.clone();
    let pipeline = &mut config.pipeline;
    (pipeline.rank, pipeline.world) = (Some(rank), Some(world));
    if let Some(workers) = setup.workers {
        pipeline.workers = workers.into();
    }
    if let Some(depth) = setup.depth {
        // The memory that more batches ahead need.
        let own = pipeline.most_depth(world);
        let (more, own) = (depth.max(own) as u64 + 2, own as u64 + 2);
        pipeline.memory = ByteCount(pipeline.memory.0.saturating_mul(more) / own);
        pipeline.depth = depth.into();
    }
    config
}
