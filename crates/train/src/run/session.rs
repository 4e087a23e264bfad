//! One session of a run, from its start or a resume to its end: awaits batches, steps, validates and saves.
//!
//! The loop runs on the task that awaits it, and blocks its thread while a step computes. So make that task the root
//! future of a multi-thread runtime: the loader then works on the other threads.

use std::future::Future;
use std::ops::{AsyncFnMut, Range};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures::future::{Either, poll_immediate, select};
use futures::{Stream, StreamExt};
use tracing::Instrument;

use super::ready::batches_of_step;
use super::reports::Reports;
use crate::checkpoint::{Checkpoint, folder};
use crate::config::RunConfig;
use crate::device;
use crate::directory::{RunDirectory, RunLog};
use crate::events::{End, Observer, Outcome, Validation};
use crate::model::LanguageModel;
use crate::peers::{Decision, Request};
use crate::trainer::{Batches, Step, Submitted, Trainer};
use millstream::batch::Batch;
use millstream::error::{Error, Result, ResumeFrom};
use millstream::loader::Watch;
use millstream::meter::stage_span;

/// After this many steps in a row without targets, the run assumes that none will ever come.
const MOST_WITHOUT_TARGETS: u32 = 1000;

/// Trains on `batches` until the steps or the data end, or `stop` is ready. It does what [`run`](crate::run()) and
/// [`resume`](crate::resume) do, for custom batches and models. `held_out` opens a new stream for each validation, or
/// returns `None`.
///
/// # Errors
/// As [`run`](crate::run()).
pub async fn drive<M: LanguageModel, V: Stream<Item = Result<Batch>> + Unpin>(
    trainer: Trainer<M>,
    directory: &RunDirectory,
    batches: impl Stream<Item = Result<Batch>> + Unpin,
    held_out: impl AsyncFnMut() -> Result<Option<V>>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    let config = trainer.config().clone();
    Session::open(trainer, &config, directory, None, observer, held_out)?.run(batches, stop).await
}

/// The numbers of batches that follow each other; `None` if there are none, or if no loader made them.
fn batches_of(batches: &[Batch]) -> Option<Range<u64>> {
    let (first, last) = batches.first().zip(batches.last())?;
    Some(first.number()..last.cursor().batch()).filter(|batches| !batches.is_empty())
}

#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Next {
    Batch(Result<Batch>),
    End,
    Stop,
}

/// The next batch, unless `stop` is ready. `stop` is polled first, so that batches that are always ready cannot hide it.
async fn next_or_stop(batches: &mut impl Batches, stop: Pin<&mut impl Future<Output = ()>>) -> Next {
    match select(stop, batches.next()).await {
        Either::Left(_) => Next::Stop,
        Either::Right((Some(batch), _)) => Next::Batch(batch),
        Either::Right((None, _)) => Next::End,
    }
}

pub(super) struct Session<'a, M, H> {
    trainer: Trainer<M>,
    /// Whether the device computes while the host goes on: the next step is then queued before the result of the one
    /// before is awaited. Only a process without peers can be ahead: peers must communicate in the same order, and a step
    /// that is queued is finished when a batch is late, which differs between ranks.
    is_ahead: bool,
    queued: Option<Submitted>,
    /// How many batches this process takes for a step.
    accumulate: usize,
    directory: RunDirectory,
    reports: Reports<'a>,
    held_out: H,
    /// The step that the session began after.
    began: u64,
    /// The first error. It ends the run after the state is saved.
    failure: Option<Error>,
    /// The step and the path of the last checkpoint.
    saved: Option<(u64, PathBuf)>,
    can_validate: bool,
}

impl<'a, M: LanguageModel, V: Batches, H: AsyncFnMut() -> Result<Option<V>>> Session<'a, M, H> {
    /// Opens the run's log. `config` is of the whole run, where the trainer has that of its rank. `watch` is of the loader,
    /// if the batches come from one.
    pub(super) fn open(
        trainer: Trainer<M>,
        config: &RunConfig,
        directory: &RunDirectory,
        watch: Option<Watch>,
        observer: &'a mut dyn Observer,
        held_out: H,
    ) -> Result<Self> {
        trainer.check_equal()?;
        let (train, peers, step) = (&trainer.config().train, trainer.peers(), trainer.state().step);
        let log = match peers.is_first() {
            true => RunLog::open(directory, config, step, trainer.cursor(), observer).map(Some),
            false => Ok(None),
        };
        let log = peers.agree(log)?;
        if step >= train.steps {
            observer.on_message(&format!(
                "the run is finished: it has done {step} of {} steps; raise train.steps to go on",
                train.steps
            ));
            observer.on_resumable(&ResumeFrom {
                run: directory.path().to_owned(),
                step: None,
                settings: vec![format!("train.steps={}", step.saturating_mul(2))],
            });
        }
        // A resumed run has the checkpoint of its step already. Rank 0 looks, and tells the other ranks.
        let has_checkpoint = log.is_some() && Checkpoint::steps(&directory.checkpoints())?.contains(&step);
        let has_checkpoint = peers.share(has_checkpoint)?[0];
        let saved = has_checkpoint.then(|| (step, folder::path(&directory.checkpoints(), step)));
        Ok(Self {
            can_validate: train.validate_every > 0,
            is_ahead: peers.is_alone() && device::is_asynchronous(train),
            queued: None,
            accumulate: batches_of_step(trainer.config(), peers.world().size)?,
            reports: Reports::new(observer, log, watch, trainer.state().tokens),
            trainer,
            directory: directory.clone(),
            held_out,
            began: step,
            failure: None,
            saved,
        })
    }

    /// Trains until the steps or the data end, or `stop` is ready.
    pub(super) async fn run(
        mut self,
        batches: impl Batches,
        stop: impl Future<Output = ()>,
    ) -> Result<Outcome> {
        let (mut stop, peers) = (pin!(stop), self.trainer.peers().clone());
        let end = self.steps(batches, stop.as_mut()).await;
        peers.note_failure(match end {
            Ok(end) => self.finish(end, stop).await,
            Err(error) => Err(error),
        })
    }

    /// Does all steps, and returns why there are no more.
    async fn steps(
        &mut self,
        mut batches: impl Batches,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<End> {
        let config = self.trainer.config().train.clone();
        let (mut is_last, mut without_targets) = (false, 0);
        // The earlier session may have been stopped before the validation of its last step.
        if self.began > 0
            && self.began.is_multiple_of(config.validate_every)
            && !self.validate(stop.as_mut()).await?
        {
            return Ok(End::Interrupted);
        }
        while !is_last && self.trainer.state().step < config.steps {
            let mut waited = Duration::ZERO;
            let collected = self.collect(&mut batches, stop.as_mut(), &mut waited).await;
            let (collected, request) = self.unless_failed(collected);
            self.trainer.waited(waited);
            is_last = request == Request::LastStep;
            let taken = batches_of(&collected);
            match self.advance(collected, request, waited)? {
                Decision::Step(done) => done.iter().for_each(|step| self.report(step)),
                Decision::End => return Ok(End::DataEnded),
                Decision::Stop { rank } => {
                    self.say_stopped(rank);
                    return Ok(End::Interrupted);
                }
                Decision::WithoutTargets => {
                    without_targets += 1;
                    let recorded = taken.map_or(Ok(()), |taken| self.reports.record_unused(taken));
                    self.fail(recorded);
                    if without_targets == MOST_WITHOUT_TARGETS {
                        // All ranks count the same steps, and stop at the same one.
                        self.fail(Err(Error::Train(format!(
                            "{without_targets} times in a row the batches of a step had no targets: documents of \
                             one token cannot be trained on by themselves; pack them together (pipeline.pack), and \
                             see train.mask_documents"
                        ))));
                        return Ok(End::Interrupted);
                    }
                    continue;
                }
            }
            without_targets = 0;
            let done = self.trainer.state().step;
            if config.trail_every > 0 && done.is_multiple_of(config.trail_every) {
                self.record_cursor()?;
            }
            if done.is_multiple_of(config.validate_every) && !self.validate(stop.as_mut()).await? {
                return Ok(End::Interrupted);
            }
            // `finish` saves the last step, after its validation.
            if done.is_multiple_of(config.checkpoint_every) && done < config.steps {
                self.save()?;
            }
        }
        Ok(if is_last { End::DataEnded } else { End::Finished })
    }

    /// Awaits the batches of a step, and adds the time spent waiting to `waited`.
    async fn collect(
        &mut self,
        batches: &mut impl Batches,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        waited: &mut Duration,
    ) -> Result<(Vec<Batch>, Request)> {
        let mut collected = Vec::with_capacity(self.accumulate);
        while collected.len() < self.accumulate {
            match self.next(batches, stop.as_mut(), waited).await? {
                Next::Stop => return Ok((Vec::new(), Request::Stop)),
                Next::Batch(batch) => collected.push(batch?),
                Next::End if collected.is_empty() => return Ok((collected, Request::End)),
                Next::End => return Ok((collected, Request::LastStep)),
            }
        }
        Ok((collected, Request::Step))
    }

    /// Does a step on the batches, if all ranks agree to. It may be queued: then the one before is done, if there was one.
    fn advance(
        &mut self,
        batches: Vec<Batch>,
        request: Request,
        waited: Duration,
    ) -> Result<Decision<Option<Step>>> {
        let began = Instant::now();
        let advanced = stage_span!("trainer", "step").in_scope(|| match request {
            Request::End | Request::Stop => self.trainer.decline(Ok(request)),
            _ if !self.is_ahead => self.trainer.attempt(&batches, request)?.and_then(|step| Ok(Some(step))),
            _ => match self.trainer.submit(batches)? {
                None => Ok(Decision::WithoutTargets),
                Some(submitted) => {
                    let before = self.queued.replace(submitted);
                    before.map(|before| self.trainer.complete(before)).transpose().map(Decision::Step)
                }
            },
        });
        self.reports.pass(waited, began.elapsed(), self.trainer.take_summed());
        advanced.map_err(|e| self.with_remedy(e))
    }

    /// Awaits the next batch. If it is not ready, the queued step is finished first: until then the device has work, and
    /// nothing waits for the batch.
    async fn next(
        &mut self,
        batches: &mut impl Batches,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        waited: &mut Duration,
    ) -> Result<Next> {
        let began = Instant::now();
        let ready = poll_immediate(pin!(next_or_stop(batches, stop.as_mut()))).await;
        *waited += began.elapsed();
        if let Some(next) = ready {
            return Ok(next);
        }
        self.finish_queued()?;
        let began = Instant::now();
        let next = next_or_stop(batches, stop).await;
        *waited += began.elapsed();
        Ok(next)
    }

    /// The collected batches and this rank's request. A rank that has failed asks all ranks to save and stop.
    fn unless_failed(&mut self, collected: Result<(Vec<Batch>, Request)>) -> (Vec<Batch>, Request) {
        match collected {
            Ok(collected) if self.failure.is_none() => collected,
            collected => {
                self.fail(collected.map(drop));
                (Vec::new(), Request::Stop)
            }
        }
    }

    /// Keeps the first error, which the run returns after the state is saved.
    fn fail(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    fn say_stopped(&mut self, rank: usize) {
        if rank != self.trainer.peers().world().rank {
            self.reports.observer.on_message(&format!("rank {rank} stops, and so all ranks do"));
        }
    }

    fn record_cursor(&mut self) -> Result<()> {
        if let Some(cursor) = self.trainer.whole_cursor()? {
            let recorded = self.reports.record_cursor(&cursor);
            self.fail(recorded);
        }
        Ok(())
    }

    /// Waits for the queued step, if there is one, and reports it.
    fn finish_queued(&mut self) -> Result<()> {
        let began = Instant::now();
        let step = self.queued.take().map(|queued| self.trainer.complete(queued)).transpose();
        let step = step.map_err(|e| self.with_remedy(e))?;
        self.reports.pass(Duration::ZERO, began.elapsed(), None);
        step.iter().for_each(|step| self.report(step));
        Ok(())
    }

    fn report(&mut self, step: &Step) {
        let reported = self.reports.step(&mut self.trainer, step);
        self.fail(reported);
    }

    /// Validates, unless this step has been validated. False if the run must stop: `stop` is ready, or the held-out
    /// batches cannot be read.
    async fn validate(&mut self, stop: Pin<&mut impl Future<Output = ()>>) -> Result<bool> {
        self.finish_queued()?;
        let step = self.trainer.state().step;
        if !self.can_validate || self.trainer.state().validation_step == Some(step) {
            return Ok(true);
        }
        match self.validated(stop).await {
            Err(error) => {
                self.fail(Err(error));
                return Ok(false);
            }
            Ok(Decision::Stop { rank }) => {
                self.say_stopped(rank);
                return Ok(false);
            }
            Ok(Decision::Step(validation)) => {
                // A checkpoint of this step, if there is one, was saved without it.
                self.saved = None;
                let reported = self.reports.validation(&validation);
                self.fail(reported);
            }
            Ok(Decision::WithoutTargets | Decision::End) => {
                self.can_validate = false;
                self.reports.observer.on_message(
                    "no held-out batches: there is no validation; pipeline.holdout sets some aside",
                );
            }
        }
        Ok(true)
    }

    /// The loss on the held-out batches, unless `stop` is ready while they are opened or awaited.
    async fn validated(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Decision<Validation>> {
        let (held_out, is_asked) = match select(pin!((self.held_out)()), stop.as_mut()).await {
            Either::Left((held_out, _)) => (held_out, false),
            Either::Right(_) => (Ok(None), true),
        };
        let peers = self.trainer.peers();
        let held_out = peers.agree(held_out)?;
        if let Some(rank) = peers.share(is_asked)?.iter().position(|is_asked| *is_asked) {
            return Ok(Decision::Stop { rank });
        }
        let Some(batches) = held_out else { return Ok(Decision::WithoutTargets) };
        let span = stage_span!("trainer", "validate");
        self.trainer.validate_until(batches, stop).instrument(span).await
    }

    /// A step's error; if the run has diverged, with the checkpoint and the learning rate to resume with.
    fn with_remedy(&self, error: Error) -> Error {
        let Error::Diverged { step, batches, .. } = error else { return error };
        let resume = self.saved.as_ref().map(|(saved, _)| {
            let train = &self.trainer.config().train;
            let lr = train.lr() / 2.0;
            let mut settings = vec![format!("train.lr={lr:e}")];
            settings.extend(train.min_lr.map(|min_lr| format!("train.min_lr={:e}", min_lr.min(lr))));
            Box::new(ResumeFrom { run: self.directory.path().to_owned(), step: Some(*saved), settings })
        });
        Error::Diverged { step, batches, resume }
    }

    /// Saves the steps before `error`, which ends the run on all ranks.
    fn save_after(&mut self, error: &Error) {
        let step = self.trainer.state().step;
        if step == self.began {
            return;
        }
        match self.save() {
            Ok(path) => {
                let run = self.directory.path().to_owned();
                self.reports.observer.on_message(&format!(
                    "saved {} after step {step}; resume the run when the error below is fixed",
                    path.display()
                ));
                self.reports.observer.on_resumable(&ResumeFrom { run, step: None, settings: Vec::new() });
            }
            Err(unsaved) => tracing::warn!(
                "step {step} could not be saved: {}; the run ends because of: {}",
                unsaved.chain(),
                error.chain()
            ),
        }
    }

    /// Saves a checkpoint of this step, unless there is one, and returns its path.
    fn save(&mut self) -> Result<PathBuf> {
        self.finish_queued()?;
        let step = self.trainer.state().step;
        if let Some((saved, path)) = &self.saved
            && *saved == step
        {
            return Ok(path.clone());
        }
        let span = stage_span!("trainer", "checkpoint");
        let path = span.in_scope(|| self.trainer.save(&self.directory.checkpoints()))?;
        tracing::debug!(step, path = %path.display(), "checkpoint");
        self.reports.observer.on_checkpoint(&path);
        self.saved = Some((step, path.clone()));
        Ok(path)
    }

    /// Ends the session: validates and saves its last step.
    async fn finish(mut self, mut end: End, stop: Pin<&mut impl Future<Output = ()>>) -> Result<Outcome> {
        self.finish_queued()?;
        if end == End::DataEnded {
            let logged = self.reports.last_step(&mut self.trainer);
            self.fail(logged);
            let (step, steps) = (self.trainer.state().step, self.trainer.config().train.steps);
            self.reports.observer.on_message(&format!(
                "the data ended after step {step} of {steps}; pipeline.epochs sets how often it is read"
            ));
        }
        // Whoever interrupts a run wants it to end soon: the resumed run validates instead.
        if end != End::Interrupted && !self.validate(stop).await? {
            end = End::Interrupted;
        }
        let failure = self.failure.take().map_or(Ok(()), Err);
        if let Err(error) = self.trainer.peers().agree(failure) {
            self.save_after(&error);
            return Err(error);
        }
        let checkpoint = self.save()?;
        self.reports.outcome(&self.trainer, end, checkpoint)
    }
}
