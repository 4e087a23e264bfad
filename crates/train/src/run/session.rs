//! One session of a run, from its start or a resume to its end: awaits batches, steps, validates and saves.
//!
//! The loop runs on the task that awaits it, and blocks its thread while a step computes. So make that task the root
//! future of a multi-thread runtime: the loader then works on the other threads.

use std::future::Future;
use std::ops::AsyncFnMut;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures::future::{Either, poll_immediate, select};
use futures::{Stream, StreamExt};
use tracing::Instrument;

use super::queue::{Advance, Queue};
use super::ready::batches_of_step;
use super::reports::Reports;
use crate::checkpoint::{Checkpoint, folder};
use crate::device;
use crate::directory::{RunDirectory, RunLog};
use crate::events::{End, Observer, Outcome};
use crate::model::LanguageModel;
use crate::peers::Request;
use crate::trainer::{Attempt, Step, Trainer, Validated};
use millstream::batch::Batch;
use millstream::error::{Error, Result, ResumeFrom};
use millstream::loader::Watch;
use millstream::meter::stage_span;

/// After this many steps in a row without targets, the run assumes that none will ever come.
const MOST_WITHOUT_TARGETS: u32 = 1000;

#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Next {
    Batch(Result<Batch>),
    End,
    Stop,
}

/// The next batch, unless `stop` is ready. `stop` is polled first, so that batches that are always ready cannot hide it.
async fn next_or_stop<S>(batches: &mut S, stop: Pin<&mut impl Future<Output = ()>>) -> Next
where
    S: Stream<Item = Result<Batch>> + Unpin,
{
    match select(stop, batches.next()).await {
        Either::Left(_) => Next::Stop,
        Either::Right((Some(batch), _)) => Next::Batch(batch),
        Either::Right((None, _)) => Next::End,
    }
}

pub(super) struct Session<'a, M, H> {
    trainer: Trainer<M>,
    queue: Queue,
    /// How many batches this process takes for a step.
    accumulate: usize,
    directory: RunDirectory,
    reports: Reports<'a>,
    /// Opens the held-out batches.
    held_out: H,
    /// The step that the session began after.
    began: u64,
    /// The first error. It ends the run after the state is saved.
    failure: Option<Error>,
    /// The step and the path of the last checkpoint.
    saved: Option<(u64, PathBuf)>,
    can_validate: bool,
}

impl<'a, M, V, H> Session<'a, M, H>
where
    M: LanguageModel,
    V: Stream<Item = Result<Batch>> + Unpin,
    H: AsyncFnMut() -> Result<Option<V>>,
{
    pub(super) fn new(
        trainer: Trainer<M>,
        directory: RunDirectory,
        log: Option<RunLog>,
        observer: &'a mut dyn Observer,
        held_out: H,
        watch: Option<Watch>,
    ) -> Result<Self> {
        let (config, peers) = (trainer.config(), trainer.peers());
        let step = trainer.state().step;
        // A resumed run has the checkpoint of its step already. Rank 0 looks, and tells the other ranks.
        let has_checkpoint = log.is_some() && Checkpoint::steps(&directory.checkpoints())?.contains(&step);
        let has_checkpoint = peers.share(vec![u8::from(has_checkpoint)])?[0] == [1];
        let saved = has_checkpoint.then(|| (step, folder::path(&directory.checkpoints(), step)));
        Ok(Self {
            can_validate: config.train.validate_every > 0,
            queue: Queue::new(peers.is_alone() && device::is_asynchronous(&config.train)),
            accumulate: batches_of_step(config, peers.world().size)?,
            reports: Reports::new(observer, log, watch, trainer.state().tokens),
            trainer,
            directory,
            held_out,
            began: step,
            failure: None,
            saved,
        })
    }

    /// Trains until the steps or the data end, or `stop` is ready.
    pub(super) async fn steps<S>(
        &mut self,
        mut batches: S,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<End>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
    {
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
            match self.advance(collected, request, waited)? {
                Advance::Done(Attempt::Step(step)) => self.report(&step),
                Advance::Queued => {}
                Advance::Done(Attempt::DataEnded) => return Ok(End::DataEnded),
                Advance::Done(Attempt::Interrupted { rank }) => {
                    self.say_stopped(rank);
                    return Ok(End::Interrupted);
                }
                Advance::Done(Attempt::WithoutTargets) => {
                    without_targets += 1;
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
    async fn collect<S>(
        &mut self,
        batches: &mut S,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        waited: &mut Duration,
    ) -> Result<(Vec<Batch>, Request)>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
    {
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

    /// Does a step on the batches, if all ranks agree to.
    fn advance(&mut self, batches: Vec<Batch>, request: Request, waited: Duration) -> Result<Advance> {
        let began = Instant::now();
        let advanced = stage_span!("trainer", "step").in_scope(|| match request {
            Request::Step | Request::LastStep => self.queue.advance(&mut self.trainer, batches, request),
            Request::End | Request::Stop => self.trainer.decline(Ok(request)).map(Advance::Done),
        });
        self.reports.pass(waited, began.elapsed());
        self.reports.sum(self.trainer.take_summed());
        advanced.map_err(|e| self.with_remedy(e))
    }

    /// Awaits the next batch. If it is not ready, the queued step is finished first: until then the device has work, and
    /// nothing waits for the batch.
    async fn next<S>(
        &mut self,
        batches: &mut S,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        waited: &mut Duration,
    ) -> Result<Next>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
    {
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
        let step = self.queue.finish(&mut self.trainer).map_err(|e| self.with_remedy(e))?;
        self.reports.pass(Duration::ZERO, began.elapsed());
        if let Some(step) = step {
            self.report(&step);
        }
        Ok(())
    }

    fn report(&mut self, step: &Step) {
        let reported = self.reports.step(&self.trainer, step);
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
            Ok(Validated::Interrupted { rank }) => {
                self.say_stopped(rank);
                return Ok(false);
            }
            Ok(Validated::Done(validation)) => {
                // A checkpoint of this step, if there is one, was saved without it.
                self.saved = None;
                let reported = self.reports.validation(&validation);
                self.fail(reported);
            }
            Ok(Validated::WithoutTargets) => {
                self.can_validate = false;
                self.reports.observer.on_message(
                    "no held-out batches: there is no validation; pipeline.holdout sets some aside",
                );
            }
        }
        Ok(true)
    }

    /// The loss on the held-out batches, unless `stop` is ready while they are opened or awaited.
    async fn validated(&mut self, mut stop: Pin<&mut impl Future<Output = ()>>) -> Result<Validated> {
        let (held_out, is_asked) = match select(pin!((self.held_out)()), stop.as_mut()).await {
            Either::Left((held_out, _)) => (held_out, false),
            Either::Right(_) => (Ok(None), true),
        };
        let peers = self.trainer.peers();
        let held_out = peers.agree(held_out)?;
        let asked = peers.share(vec![u8::from(is_asked)])?;
        if let Some(rank) = asked.iter().position(|asked| *asked == [1]) {
            return Ok(Validated::Interrupted { rank });
        }
        let Some(batches) = held_out else { return Ok(Validated::WithoutTargets) };
        let span = stage_span!("trainer", "validate");
        self.trainer.validate_until(batches, stop).instrument(span).await
    }

    /// A step's error; if the run has diverged, with the checkpoint and the learning rate to resume with.
    fn with_remedy(&self, error: Error) -> Error {
        let Error::Diverged { step, batches, .. } = error else { return error };
        let resume = self.saved.as_ref().map(|(saved, _)| {
            let train = &self.trainer.config().train;
            let (lr, min_lr) = (train.lr / 2.0, train.min_lr.min(train.lr / 2.0));
            Box::new(ResumeFrom {
                run: self.directory.path().to_owned(),
                step: Some(*saved),
                settings: vec![format!("train.lr={lr:e}"), format!("train.min_lr={min_lr:e}")],
            })
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
    pub(super) async fn finish(
        mut self,
        mut end: End,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Outcome> {
        self.finish_queued()?;
        if end == End::DataEnded {
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
