//! One session of a run, from its start or a resume to its end. The loop: await a batch, step, report, save.
//!
//! The loop runs on the task that awaits it, and blocks its thread while a step computes. So make that task the root
//! future of a multi-thread runtime: the loader then works on the other threads.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::AsyncFnMut;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures::future::{Either, poll_immediate, select};
use futures::{Stream, StreamExt};
use tracing::Instrument;

use super::advice;
use super::checkpoint::Checkpoint;
use super::device;
use super::directory::RunDirectory;
use super::language_model::LanguageModel;
use super::log::Log;
use super::queue::{Advance, Queue};
use super::report::{End, Observer, Outcome, SourceLoss, StepReport};
use super::trainer::{Step, Trainer};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::loader::Watch;
use crate::meter::{Meters, Verdict, stage_span};
use crate::process::resident_bytes;
use crate::trail::Trail;

/// After this many steps in a row without targets, the run assumes that none will ever come.
const MOST_WITHOUT_TARGETS: u32 = 1000;

/// Time and targets since some moment.
#[derive(Clone, Debug, Default)]
struct Clock {
    waited: Duration,
    trained: Duration,
    tokens: u64,
    flops: f64,
    sources: BTreeMap<String, SourceLoss>,
}

impl Clock {
    fn pass(&mut self, waited: Duration, trained: Duration) {
        self.waited += waited;
        self.trained += trained;
    }

    fn count(&mut self, step: &Step) {
        self.tokens += step.tokens as u64;
        self.flops += step.flops.unwrap_or(0.0);
        for (name, loss) in &step.sources {
            self.sources.entry(name.clone()).or_insert(SourceLoss { loss: 0.0, tokens: 0 }).add(loss);
        }
    }

    fn seconds(&self) -> f64 {
        (self.waited + self.trained).as_secs_f64()
    }

    fn tokens_per_second(&self) -> f64 {
        if self.tokens == 0 { 0.0 } else { self.tokens as f64 / self.seconds() }
    }

    fn flops_per_second(&self) -> Option<f64> {
        (self.flops > 0.0).then(|| self.flops / self.seconds())
    }

    fn wait_share(&self) -> f64 {
        if self.waited.is_zero() { 0.0 } else { self.waited.as_secs_f64() / self.seconds() }
    }
}

/// What comes next.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Next {
    Batch(Result<Batch>),
    End,
    Stop,
}

/// Polls `stop` first, so that batches that are always ready cannot hide it.
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

/// One session of a run.
pub(super) struct Session<'a, M, H> {
    trainer: Trainer<M>,
    queue: Queue,
    /// Claimed for this process.
    directory: RunDirectory,
    log: Log,
    trail: Trail,
    observer: &'a mut dyn Observer,
    held_out: H,
    /// The last checkpoint, and its step.
    saved: Option<(u64, PathBuf)>,
    can_validate: bool,
    watch: Option<Watch>,
    /// The loader's meters when they were last read.
    seen: Meters,
    /// The targets of all steps that are done, those of earlier sessions included.
    tokens: u64,
    total: Clock,
    window: Clock,
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
        log: Log,
        trail: Trail,
        observer: &'a mut dyn Observer,
        held_out: H,
        watch: Option<Watch>,
    ) -> Result<Self> {
        let step = trainer.state().step;
        // A resumed run that makes no step already has its checkpoint.
        let has_checkpoint = Checkpoint::steps(&directory.checkpoints())?.contains(&step);
        let saved = has_checkpoint.then(|| (step, Checkpoint::path_of(&directory.checkpoints(), step)));
        Ok(Self {
            can_validate: trainer.config().train.validate_every > 0,
            queue: Queue::new(device::is_asynchronous(&trainer.config().train)),
            tokens: trainer.state().tokens,
            trainer,
            directory,
            log,
            trail,
            observer,
            held_out,
            saved,
            seen: watch.as_ref().map(Watch::meters).unwrap_or_default(),
            watch,
            total: Clock::default(),
            window: Clock::default(),
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
        let (mut end, mut without_targets) = (None, 0);
        while end.is_none() && self.trainer.state().step < config.steps {
            let mut gathered = Vec::with_capacity(config.accumulate);
            let mut waited = Duration::ZERO;
            while end.is_none() && gathered.len() < config.accumulate {
                match self.next(&mut batches, stop.as_mut(), &mut waited).await? {
                    Next::Stop => return Ok(End::Interrupted),
                    Next::Batch(batch) => gathered.push(batch?),
                    Next::End => end = Some(End::DataEnded),
                }
            }
            self.trainer.waited(waited);
            if gathered.is_empty() {
                break;
            }
            let began = Instant::now();
            let advanced = stage_span!("trainer", "step")
                .in_scope(|| self.queue.advance(&mut self.trainer, gathered))
                .map_err(|e| self.with_remedy(e))?;
            self.total.pass(waited, began.elapsed());
            self.window.pass(waited, began.elapsed());
            match advanced {
                Advance::Done(step) => self.report(&step)?,
                Advance::Queued => {}
                Advance::WithoutTargets => {
                    without_targets += 1;
                    if without_targets == MOST_WITHOUT_TARGETS {
                        return Err(Error::Train(format!(
                            "{without_targets} times in a row the batches of a step had no targets: documents of \
                             one token cannot be trained on by themselves; pack them together (pipeline.pack), and \
                             see train.mask_documents"
                        )));
                    }
                    continue;
                }
            }
            without_targets = 0;
            let done = self.trainer.state().step;
            if config.trail_every > 0 && done.is_multiple_of(config.trail_every) {
                self.leave_cursor()?;
            }
            if done.is_multiple_of(config.validate_every) {
                self.validate().await?;
            }
            // The last step is saved when it is validated: if that is cut short, the resumed run makes up for it.
            if done.is_multiple_of(config.checkpoint_every) && done < config.steps {
                self.save()?;
            }
        }
        Ok(end.unwrap_or(End::Finished))
    }

    /// Awaits the next batch. If it is not there yet, the device finishes its step first: only from then on does anyone
    /// wait.
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
        self.settle()?;
        let began = Instant::now();
        let next = next_or_stop(batches, stop).await;
        *waited += began.elapsed();
        Ok(next)
    }

    fn leave_cursor(&mut self) -> Result<()> {
        self.trainer.cursor().map_or(Ok(()), |cursor| self.trail.record(cursor))
    }

    /// Waits for the step that the device is at, and reports it.
    fn settle(&mut self) -> Result<()> {
        let began = Instant::now();
        let step = self.queue.finish(&mut self.trainer).map_err(|e| self.with_remedy(e))?;
        self.total.pass(Duration::ZERO, began.elapsed());
        self.window.pass(Duration::ZERO, began.elapsed());
        step.map_or(Ok(()), |step| self.report(&step))
    }

    fn report(&mut self, step: &Step) -> Result<()> {
        self.total.count(step);
        self.window.count(step);
        self.tokens += step.tokens as u64;
        let config = &self.trainer.config().train;
        let is_last = config.log_every > 0 && step.number == config.steps;
        let logged = is_last || step.number.is_multiple_of(config.log_every);
        let seen = self.watch.as_ref().filter(|_| logged).map(|watch| {
            let meters = watch.meters();
            let between = meters.since(&self.seen);
            self.seen = meters;
            (Verdict::from_meters(&between, self.window.wait_share()), between.shares())
        });
        let (verdict, stages) = seen.unzip();
        let report = StepReport {
            step: step.number,
            loss: step.loss,
            lr: step.lr,
            grad_norm: step.grad_norm,
            tokens: self.tokens,
            tokens_per_second: self.window.tokens_per_second(),
            wait_share: self.window.wait_share(),
            sources: if logged { self.window.sources.clone() } else { BTreeMap::new() },
            flops_per_second: self.window.flops_per_second(),
            mfu: self.window.flops_per_second().and_then(|flops| config.mfu(flops)),
            verdict,
            memory: logged.then(resident_bytes).flatten(),
            stages,
            seconds: self.trainer.state().seconds,
            logged,
        };
        if report.logged {
            self.window = Clock::default();
            self.log.write(&report)?;
        }
        tracing::debug!(step = report.step, loss = report.loss, lr = report.lr, "step");
        self.observer.on_step(&report);
        Ok(())
    }

    async fn validate(&mut self) -> Result<()> {
        self.settle()?;
        let step = self.trainer.state().step;
        if !self.can_validate || self.trainer.state().validation_step == Some(step) {
            return Ok(());
        }
        let validation = match (self.held_out)().await? {
            Some(batches) => {
                let span = stage_span!("trainer", "validate");
                self.trainer.validate(batches).instrument(span).await?
            }
            None => None,
        };
        match validation {
            Some(validation) => {
                self.log.write(&validation)?;
                tracing::debug!(step, loss = validation.validation_loss, "validation");
                self.observer.on_validation(&validation);
            }
            None => {
                self.can_validate = false;
                self.observer.on_message(
                    "no held-out batches: there is no validation; pipeline.holdout sets some aside",
                );
            }
        }
        Ok(())
    }

    /// A step's error, with what to do in this run's directory.
    fn with_remedy(&self, error: Error) -> Error {
        let Error::Diverged { step, batches, .. } = error else { return error };
        let inspect = advice::inspect(&self.directory.config_path(), batches.start);
        let slower = match &self.saved {
            Some((saved, _)) => {
                let train = &self.trainer.config().train;
                let (lr, min_lr) = (train.lr / 2.0, train.min_lr.min(train.lr / 2.0));
                let (lr, min_lr) = (format!("train.lr={lr:e}"), format!("train.min_lr={min_lr:e}"));
                let command = advice::resume(self.directory.path(), &["--set", &lr, "--set", &min_lr]);
                format!("go on from step {saved} with a lower rate: {command}")
            }
            None => "nothing is saved yet, so start again with a lower train.lr or a longer train.warmup"
                .to_owned(),
        };
        Error::Diverged { step, batches, remedy: format!("{slower}; {inspect} shows the text") }
    }

    fn save(&mut self) -> Result<PathBuf> {
        self.settle()?;
        let step = self.trainer.state().step;
        if let Some((saved, path)) = &self.saved
            && *saved == step
        {
            return Ok(path.clone());
        }
        let span = stage_span!("trainer", "checkpoint");
        let path = span.in_scope(|| self.trainer.save(&self.directory.checkpoints()))?;
        tracing::debug!(step, path = %path.display(), "checkpoint");
        self.observer.on_checkpoint(&path);
        self.saved = Some((step, path.clone()));
        Ok(path)
    }

    /// Validates and saves what the session came to.
    pub(super) async fn finish(mut self, end: End) -> Result<Outcome> {
        self.settle()?;
        match end {
            // Someone who interrupts waits for the prompt; the resumed run validates.
            End::Interrupted => {}
            End::DataEnded => {
                let (step, steps) = (self.trainer.state().step, self.trainer.config().train.steps);
                self.observer.on_message(&format!(
                    "the data ended after step {step} of {steps}; pipeline.epochs sets how often it is read"
                ));
                self.validate().await?;
            }
            End::Finished => self.validate().await?,
        }
        let checkpoint = self.save()?;
        let state = self.trainer.state();
        let is_validated = state.validation_step == Some(state.step);
        Ok(Outcome {
            end,
            step: state.step,
            tokens: state.tokens,
            loss: state.loss,
            unigram_loss: self.trainer.unigram_loss(),
            validation_loss: state.validation_loss.filter(|_| is_validated),
            bits_per_byte: state.bits_per_byte.filter(|_| is_validated),
            tokens_per_second: self.total.tokens_per_second(),
            wait_share: self.total.wait_share(),
            flops_per_second: self.total.flops_per_second(),
            mfu: self.total.flops_per_second().and_then(|flops| self.trainer.config().train.mfu(flops)),
            verdict: self
                .watch
                .as_ref()
                .map(|watch| Verdict::from_meters(&watch.meters(), self.total.wait_share())),
            seconds: state.seconds,
            checkpoint,
        })
    }
}
