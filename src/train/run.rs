//! Trains a model from a config, in its run directory. The loop: await a batch, step, report, save.
//!
//! The loop runs on the task that awaits it, and blocks its thread while a step computes. So make that task the root
//! future of a multi-thread runtime: the loader then works on the other threads.

use std::future::Future;
use std::ops::AsyncFnMut;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use futures::{Stream, StreamExt};
use tracing::Instrument;

use super::checkpoint::Checkpoint;
use super::directory::RunDirectory;
use super::metrics::Metrics;
use super::report::{End, Observer, Outcome, StepReport};
use super::trainer::{Step, Trainer};
use crate::batch::Batch;
use crate::config::Config;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::loader::{Loader, Watch};
use crate::meter::{Meters, Verdict, stage_span};
use crate::tokenizer::Tokenizer;
use crate::trail::Trail;
use crate::world::World;

/// After this many steps in a row without targets, the run assumes that none will ever come.
const MOST_WITHOUT_TARGETS: u32 = 1000;

/// Trains a new model from `config`, in the directory `train.out`.
///
/// `tokenizer` makes the ids. `tokenizer_json`, if it is one of Hugging Face's, is kept in the run directory, so that
/// resuming and generating use the same tokenizer. When `stop` is ready, the run finishes the current step, saves a
/// checkpoint and returns [`End::Interrupted`]. If the data ends before the steps do, the run ends as well and returns
/// [`End::DataEnded`].
///
/// # Errors
/// [`Error::Config`](crate::Error::Config) if `train.out` holds another run or a setting is wrong, the loader's errors,
/// and [`Error::Train`](crate::Error::Train) if training cannot continue.
pub async fn run(
    config: &Config,
    tokenizer: Arc<dyn Tokenizer>,
    tokenizer_json: Option<&str>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    refuse_ranks(config)?;
    let trainer = Trainer::new(config, &*tokenizer)?;
    let loader = Loader::builder(config).with_tokenizer(tokenizer.clone()).open().await?;
    let directory = RunDirectory::create(config, tokenizer_json)?;
    observer.on_open(&loader.watch());
    let run = Run { trainer, directory: &directory, watch: Some(loader.watch()), observer };
    run.drive(loader, async || held_out(config, &tokenizer).await, stop).await
}

/// Continues the run in `train.out` from its newest checkpoint, as [`run`] would have.
///
/// [`RunDirectory::config`] returns the config that the run was started with. You may change settings that do not
/// affect the order of the batches or the model's shape, such as `train.steps`.
///
/// # Errors
/// As [`run`]; also [`Error::Fingerprint`](crate::Error::Fingerprint) if the config, the tokenizer or the files would
/// give other batches or another model.
pub async fn resume(
    config: &Config,
    tokenizer: Arc<dyn Tokenizer>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    refuse_ranks(config)?;
    let directory = RunDirectory::open(&config.train.out)?;
    let checkpoint: Checkpoint = directory.latest()?;
    let trainer = Trainer::resume(config, &*tokenizer, &checkpoint)?;
    observer.on_message(&format!("resuming from {}", checkpoint.path().display()));
    let mut builder = Loader::builder(config).with_tokenizer(tokenizer.clone());
    if let Some(cursor) = trainer.cursor() {
        builder = builder.with_cursor(cursor.clone());
    }
    let loader = builder.open().await?;
    observer.on_open(&loader.watch());
    let run = Run { trainer, directory: &directory, watch: Some(loader.watch()), observer };
    run.drive(loader, async || held_out(config, &tokenizer).await, stop).await
}

/// Refuses to run as one of several ranks: it would not see the other ranks' gradients.
fn refuse_ranks(config: &Config) -> Result<()> {
    match World::detect(&config.pipeline)? {
        World::ALONE => Ok(()),
        World { rank, size } => {
            let problem = format!(
                "this would be rank {rank} of {size}, and the trainer is one process; set pipeline.world = 1, or \
                 await the loader in your own distributed trainer"
            );
            Err(Error::config("pipeline.world", problem))
        }
    }
}

/// The held-out batches; `None` if nothing is held out.
async fn held_out(config: &Config, tokenizer: &Arc<dyn Tokenizer>) -> Result<Option<Loader>> {
    if config.pipeline.holdout == 0.0 {
        return Ok(None);
    }
    Loader::builder(config).with_tokenizer(tokenizer.clone()).with_held_out(true).open().await.map(Some)
}

/// Trains on `batches` until the steps or the data end, or `stop` is ready. It does what [`run`] and [`resume`] do, for
/// custom batches. `held_out` opens a new stream for each validation, or returns `None`.
///
/// # Errors
/// As [`run`].
pub async fn drive<S, V>(
    trainer: Trainer,
    directory: &RunDirectory,
    batches: S,
    held_out: impl AsyncFnMut() -> Result<Option<V>>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome>
where
    S: Stream<Item = Result<Batch>> + Unpin,
    V: Stream<Item = Result<Batch>> + Unpin,
{
    Run { trainer, directory, watch: None, observer }.drive(batches, held_out, stop).await
}

/// A run that has not started yet.
struct Run<'a> {
    trainer: Trainer,
    directory: &'a RunDirectory,
    /// Watches the loader that the batches come from, if they come from one.
    watch: Option<Watch>,
    observer: &'a mut dyn Observer,
}

impl Run<'_> {
    async fn drive<S, V>(
        self,
        batches: S,
        held_out: impl AsyncFnMut() -> Result<Option<V>>,
        stop: impl Future<Output = ()>,
    ) -> Result<Outcome>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
        V: Stream<Item = Result<Batch>> + Unpin,
    {
        let Self { trainer, directory, watch, observer } = self;
        let metrics = Metrics::open(directory.metrics(), trainer.state().step)?;
        let trail = Trail::open(directory.trail(), trainer.cursor().map_or(0, Cursor::batch))?;
        // A resumed run that makes no step already has its checkpoint.
        let step = trainer.state().step;
        let saved = Checkpoint::latest(&directory.checkpoints())?
            .filter(|checkpoint| checkpoint.state().step == step)
            .map(|checkpoint| (step, checkpoint.path().to_owned()));
        // A finished run is not validated again either.
        let finished = step >= trainer.config().train.steps && trainer.state().validation_loss.is_some();
        let mut session = Session {
            saved,
            trainer,
            directory,
            metrics,
            trail,
            observer,
            held_out,
            validated: finished.then_some(step),
            can_validate: true,
            seen: watch.as_ref().map(Watch::meters).unwrap_or_default(),
            watch,
            total: Clock::default(),
            window: Clock::default(),
        };
        let end = session.steps(batches, pin!(stop)).await?;
        session.finish(end).await
    }
}

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
struct Session<'a, H> {
    trainer: Trainer,
    directory: &'a RunDirectory,
    metrics: Metrics,
    trail: Trail,
    observer: &'a mut dyn Observer,
    held_out: H,
    /// The step of the last checkpoint, and of the last validation.
    saved: Option<(u64, std::path::PathBuf)>,
    validated: Option<u64>,
    can_validate: bool,
    watch: Option<Watch>,
    /// The loader's meters when they were last read.
    seen: Meters,
    total: Clock,
    window: Clock,
}

impl<V, H> Session<'_, H>
where
    V: Stream<Item = Result<Batch>> + Unpin,
    H: AsyncFnMut() -> Result<Option<V>>,
{
    async fn steps<S>(&mut self, mut batches: S, mut stop: Pin<&mut impl Future<Output = ()>>) -> Result<End>
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
            let step = stage_span!("trainer", "step").in_scope(|| self.trainer.step(&gathered))?;
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
        let logged = state.step.is_multiple_of(config.log_every) || state.step == config.steps;
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
        if !self.can_validate || self.validated == Some(step) {
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
        self.validated = Some(step);
        Ok(())
    }

    fn save(&mut self) -> Result<std::path::PathBuf> {
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

    async fn finish(mut self, end: End) -> Result<Outcome> {
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
        Ok(Outcome {
            end,
            step: state.step,
            tokens: state.tokens,
            loss: state.loss,
            unigram_loss: self.trainer.unigram_loss(),
            validation_loss: state.validation_loss,
            bits_per_byte: state.bits_per_byte,
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
