//! One session of a run, from its start or a resume to its end. The loop: await a batch, step, report, save.
//!
//! The loop runs on the task that awaits it, and blocks its thread while a step computes. So make that task the root
//! future of a multi-thread runtime: the loader then works on the other threads.

use std::future::Future;
use std::ops::AsyncFnMut;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use futures::{Stream, StreamExt};
use tracing::Instrument;

use super::advice;
use super::checkpoint::Checkpoint;
use super::directory::RunDirectory;
use super::metrics::Metrics;
use super::report::{End, Observer, Outcome, StepReport};
use super::trainer::{Step, Trainer};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::loader::Watch;
use crate::meter::{Meters, Verdict, stage_span};
use crate::trail::Trail;

/// After this many steps in a row without targets, the run assumes that none will ever come.
const MOST_WITHOUT_TARGETS: u32 = 1000;

/// Time and targets since some moment.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    waited: Duration,
    trained: Duration,
    tokens: u64,
}

impl Clock {
    fn add(&mut self, waited: Duration, trained: Duration, tokens: u64) {
        self.waited += waited;
        self.trained += trained;
        self.tokens += tokens;
    }

    fn seconds(&self) -> f64 {
        (self.waited + self.trained).as_secs_f64()
    }

    fn tokens_per_second(&self) -> f64 {
        if self.tokens == 0 { 0.0 } else { self.tokens as f64 / self.seconds() }
    }

    fn wait_share(&self) -> f64 {
        if self.waited.is_zero() { 0.0 } else { self.waited.as_secs_f64() / self.seconds() }
    }
}

/// One session of a run.
pub(super) struct Session<'a, H> {
    trainer: Trainer,
    /// Claimed for this process.
    directory: RunDirectory,
    metrics: Metrics,
    trail: Trail,
    observer: &'a mut dyn Observer,
    held_out: H,
    /// The last checkpoint, and its step.
    saved: Option<(u64, PathBuf)>,
    can_validate: bool,
    watch: Option<Watch>,
    /// The loader's meters when they were last read.
    seen: Meters,
    total: Clock,
    window: Clock,
}

impl<'a, V, H> Session<'a, H>
where
    V: Stream<Item = Result<Batch>> + Unpin,
    H: AsyncFnMut() -> Result<Option<V>>,
{
    pub(super) fn new(
        trainer: Trainer,
        directory: RunDirectory,
        metrics: Metrics,
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
            trainer,
            directory,
            metrics,
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
            let began = Instant::now();
            while end.is_none() && gathered.len() < config.accumulate {
                // `stop` is polled first, so that batches that are always ready cannot hide it.
                match select(stop.as_mut(), batches.next()).await {
                    Either::Left(_) => return Ok(End::Interrupted),
                    Either::Right((Some(batch), _)) => gathered.push(batch?),
                    Either::Right((None, _)) => end = Some(End::DataEnded),
                }
            }
            let waited = began.elapsed();
            self.trainer.waited(waited);
            if gathered.is_empty() {
                break;
            }
            let began = Instant::now();
            let step = stage_span!("trainer", "step").in_scope(|| self.trainer.step(&gathered));
            let step = step.map_err(|e| self.with_remedy(e))?;
            let Some(step) = step else {
                without_targets += 1;
                if without_targets == MOST_WITHOUT_TARGETS {
                    return Err(Error::Train(format!(
                        "{without_targets} times in a row the batches of a step had no targets: documents of one \
                         token cannot be trained on by themselves; pack them together (pipeline.pack), and see \
                         train.mask_documents"
                    )));
                }
                continue;
            };
            without_targets = 0;
            let clock = (waited, began.elapsed(), step.tokens as u64);
            self.total.add(clock.0, clock.1, clock.2);
            self.window.add(clock.0, clock.1, clock.2);
            self.report(&step)?;
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

    fn leave_cursor(&mut self) -> Result<()> {
        self.trainer.cursor().map_or(Ok(()), |cursor| self.trail.record(cursor))
    }

    fn report(&mut self, step: &Step) -> Result<()> {
        let (state, config) = (self.trainer.state(), &self.trainer.config().train);
        let is_last = config.log_every > 0 && state.step == config.steps;
        let logged = is_last || state.step.is_multiple_of(config.log_every);
        let verdict = self.watch.as_ref().filter(|_| logged).map(|watch| {
            let meters = watch.meters();
            let verdict = Verdict::from_meters(&meters.since(&self.seen), self.window.wait_share());
            self.seen = meters;
            verdict
        });
        let report = StepReport {
            step: state.step,
            loss: step.loss,
            lr: step.lr,
            grad_norm: step.grad_norm,
            tokens: state.tokens,
            tokens_per_second: self.window.tokens_per_second(),
            wait_share: self.window.wait_share(),
            verdict,
            seconds: state.seconds,
            logged,
        };
        if report.logged {
            self.window = Clock::default();
            self.metrics.write(&report)?;
        }
        tracing::debug!(step = report.step, loss = report.loss, lr = report.lr, "step");
        self.observer.on_step(&report);
        Ok(())
    }

    async fn validate(&mut self) -> Result<()> {
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
                self.metrics.write(&validation)?;
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
            verdict: self
                .watch
                .as_ref()
                .map(|watch| Verdict::from_meters(&watch.meters(), self.total.wait_share())),
            seconds: state.seconds,
            checkpoint,
        })
    }
}
