//! Trains a model from a config, in its run directory: a new run, or one that continues.
//!
//! | file | what |
//! |---|---|
//! | `ready`, `devices` | the checks before a run begins; the part of a run that each device has |
//! | `replicas`, `rank` | a rank for each device of this process; one rank: its trainer and its loader |
//! | `session` | the loop over the steps, and the work before and after it |
//! | `reports`, `clock` | the reports of a session; how its time was spent |

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use crate::checkpoint::Checkpoint;
use crate::config::RunConfig;
use crate::directory::RunDirectory;
use crate::events::{Observer, Outcome};
use crate::peers::Peers;
use millstream::error::Result;
use millstream::tokenizer::Tokenizer;

mod clock;
mod devices;
mod proof;
mod rank;
mod ready;
mod replicas;
mod reports;
mod session;

use rank::{Beginning, Rank};
pub use ready::ready;
pub use session::drive;

/// Trains a new model from `config`, in the directory `train.out`.
///
/// `train.devices` can name several devices: each has a thread, and they train one model [together](Peers). If a launcher
/// has started several processes, each calls this, and they do so too. Rank 0 writes the directory, which all ranks must
/// see. Each process has its own `observer`. If one is asked to stop, all of them do.
///
/// `tokenizer` makes the ids. `tokenizer_json`, if it is one of Hugging Face's, is kept in the run directory, so that
/// resuming and generating use the same tokenizer. When `stop` is ready, the run finishes the current step, saves a
/// checkpoint and returns [`End::Interrupted`](crate::End::Interrupted). If the data ends before the steps do, the run
/// ends as well and returns [`End::DataEnded`](crate::End::DataEnded).
///
/// # Errors
/// [`Error::Config`](millstream::Error::Config) if `train.out` holds another run,
/// [`Error::Config`](millstream::Error::Config) if a setting is wrong, the loader's errors,
/// [`Error::Diverged`](millstream::Error::Diverged) if a gradient is not finite, and
/// [`Error::Train`](millstream::Error::Train) if training cannot continue.
pub async fn run(
    config: &RunConfig,
    tokenizer: Arc<dyn Tokenizer>,
    tokenizer_json: Option<&str>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    let beginning = Beginning::New { tokenizer_json: tokenizer_json.map(str::to_owned) };
    replicas::train(Rank::new(config, tokenizer, beginning)?, observer, pin!(stop)).await
}

/// Continues the run in `train.out` from its newest checkpoint, as [`run`] would have.
///
/// [`RunDirectory::config`] returns the config that the run has had so far. You may change settings that do not affect
/// the order of the batches or the model's shape, such as `train.steps`. The run directory keeps what you change.
///
/// # Errors
/// As [`run`]; also [`Error::Fingerprint`](millstream::Error::Fingerprint) if the config, the tokenizer or the files would
/// give other batches, [`Error::Checkpoint`](millstream::Error::Checkpoint) if the checkpoint is damaged or of another
/// model, and [`Error::Busy`](millstream::Error::Busy) if another process trains in the
/// directory.
pub async fn resume(
    config: &RunConfig,
    tokenizer: Arc<dyn Tokenizer>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    let peers = Peers::join(&config.data.pipeline)?;
    let (directory, checkpoint) = peers.agree(RunDirectory::to_resume(&config.train.out, None, &peers))?;
    resume_from(&directory, &checkpoint, config, tokenizer, observer, stop).await
}

/// Continues the run in `directory` from one of its checkpoints, as [`resume`] does from the newest. Checkpoints after
/// that one are renamed, so that the run does not mix them with those that follow.
///
/// [`RunDirectory::config_at`] returns the config that the run had then.
///
/// # Errors
/// As [`resume`].
pub async fn resume_from(
    directory: &RunDirectory,
    checkpoint: &Checkpoint,
    config: &RunConfig,
    tokenizer: Arc<dyn Tokenizer>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    let beginning =
        Beginning::Resumed { directory: directory.clone(), checkpoint: Box::new(checkpoint.clone()) };
    replicas::train(Rank::new(config, tokenizer, beginning)?, observer, pin!(stop)).await
}
