//! The subject of a proof, and the orders for its children.

use std::path::PathBuf;
use std::time::Duration;

use super::log::State;
use super::orders::{AnyLoader, Orders};
use crate::config::{ByteCount, Config};
use crate::cursor::Cursor;
use crate::error::Result;

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

/// How a child is started.
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
    pub(super) states: Vec<State>,
}

impl Saved {
    /// The states that all ranks of a run saved after `after` batches. Their cursors are merged into one.
    pub(super) fn together(after: u64, states: Vec<State>) -> Result<Self> {
        let cursor = |state: &State| match state {
            State::Cursor(cursor) => Some(cursor.clone()),
            State::Text(_) => None,
        };
        let cursors: Vec<Cursor> = states.iter().filter_map(cursor).collect();
        let states = match cursors.is_empty() {
            true => states,
            false => vec![State::Cursor(Cursor::merge(&cursors)?)],
        };
        Ok(Self { after, states })
    }
}

impl Subject {
    /// The orders for a child.
    pub(super) fn orders(&self, run: &Run<'_>, until: u64, log: PathBuf) -> Orders {
        let Run { setup, rank, world, saved, step } = *run;
        let states = saved.map_or(&[][..], |saved| &saved.states);
        match self {
            Self::Config(config) => {
                let config = Some(with_setup(config, setup, rank, world));
                let cursor = states.iter().find_map(|state| match state {
                    State::Cursor(cursor) => Some(cursor.clone()),
                    State::Text(_) => None,
                });
                Orders { config, cursor, until, step, log, loader: None }
            }
            Self::Any => {
                let text = |state: &State| match state {
                    State::Text(text) => Some(text.clone()),
                    State::Cursor(_) => None,
                };
                let (workers, from) = (setup.workers.unwrap_or(0), saved.map_or(0, |saved| saved.after));
                let states = states.iter().filter_map(text).collect();
                let loader = Some(AnyLoader { workers, rank, world, from, states });
                Orders { config: None, cursor: None, until, step, log, loader }
            }
        }
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
