//! Drives a trainer with batches, in a run directory: opens the run's log, and runs one session.

use std::future::Future;
use std::ops::AsyncFnMut;
use std::pin::pin;

use futures::Stream;

use super::session::Session;
use crate::config::RunConfig;
use crate::directory::{RunDirectory, RunLog};
use crate::events::{Observer, Outcome};
use crate::model::LanguageModel;
use crate::trainer::Trainer;
use millstream::batch::Batch;
use millstream::error::{Result, ResumeFrom};
use millstream::loader::Watch;

/// Trains on `batches` until the steps or the data end, or `stop` is ready. It does what [`run`](crate::run()) and
/// [`resume`](crate::resume) do, for custom batches and models. `held_out` opens a new stream for each validation, or
/// returns `None`.
///
/// # Errors
/// As [`run`](crate::run()).
pub async fn drive<M, S, V>(
    trainer: Trainer<M>,
    directory: &RunDirectory,
    batches: S,
    held_out: impl AsyncFnMut() -> Result<Option<V>>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome>
where
    M: LanguageModel,
    S: Stream<Item = Result<Batch>> + Unpin,
    V: Stream<Item = Result<Batch>> + Unpin,
{
    let config = trainer.config().clone();
    Run { trainer, config, directory, watch: None, observer }.drive(batches, held_out, stop).await
}

/// A run that has not started yet.
pub(super) struct Run<'a, M> {
    pub(super) trainer: Trainer<M>,
    /// The config of the whole run, where the trainer has that of its rank.
    pub(super) config: RunConfig,
    pub(super) directory: &'a RunDirectory,
    /// The watch of the loader, if the batches come from one.
    pub(super) watch: Option<Watch>,
    pub(super) observer: &'a mut dyn Observer,
}

impl<M: LanguageModel> Run<'_, M> {
    pub(super) async fn drive<S, V>(
        self,
        batches: S,
        held_out: impl AsyncFnMut() -> Result<Option<V>>,
        stop: impl Future<Output = ()>,
    ) -> Result<Outcome>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
        V: Stream<Item = Result<Batch>> + Unpin,
    {
        let Self { trainer, config, directory, watch, observer } = self;
        let peers = trainer.peers().clone();
        trainer.check_equal()?;
        let (step, steps) = (trainer.state().step, trainer.config().train.steps);
        let log = match peers.is_first() {
            true => RunLog::open(directory, &config, step, trainer.cursor(), observer).map(Some),
            false => Ok(None),
        };
        let log = peers.agree(log)?;
        if step >= steps {
            observer.on_message(&format!(
                "the run is finished: it has done {step} of {steps} steps; raise train.steps to go on"
            ));
            observer.on_resumable(&ResumeFrom {
                run: directory.path().to_owned(),
                step: None,
                settings: vec![format!("train.steps={}", step.saturating_mul(2))],
            });
        }
        let mut session = Session::new(trainer, directory.clone(), log, observer, held_out, watch)?;
        let mut stop = pin!(stop);
        let end = session.steps(batches, stop.as_mut()).await;
        peers.note_failure(match end {
            Ok(end) => session.finish(end, stop).await,
            Err(error) => Err(error),
        })
    }
}
