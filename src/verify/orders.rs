//! The orders of a parent to a child: a file of JSON, whose path is in the child's environment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::cursor::Cursor;

/// The environment variable that makes a program a child: the path of its orders.
pub(super) const ORDERS: &str = "MILLSTREAM_VERIFY_ORDERS";

/// The orders for a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    /// The config, with the child's rank and world, so that the environment does not matter; `None` for any loader.
    pub(super) config: Option<Config>,
    /// Where to go on; at the start if absent, and for any loader.
    pub(super) cursor: Option<Cursor>,
    /// The number of the first batch that need not be logged.
    pub(super) until: u64,
    /// How long to pause after each batch, like a trainer's step.
    pub(super) step: Duration,
    /// The path of the log.
    pub(super) log: PathBuf,
    /// The orders for any loader; absent for a Millstream loader, whose config says it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) loader: Option<AnyLoader>,
}

/// How a child with any loader runs, and where it continues.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AnyLoader {
    /// The number of workers; 0 is the process itself.
    pub(super) workers: usize,
    pub(super) rank: usize,
    pub(super) world: usize,
    /// The number of its first batch.
    pub(super) from: u64,
    /// The states that all ranks of the run before saved after the same batch, in the order of ranks; none at the
    /// start.
    pub(super) states: Vec<String>,
}

/// The file where a child writes why it did not continue from the saved states.
pub(super) fn refusal(log: &Path) -> PathBuf {
    log.with_extension("refused")
}
