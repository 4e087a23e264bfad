//! The reports of a session, to its observer and to the run's log. Holds the session's rates, and those since the last
//! logged step.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::clock::Clock;
use crate::directory::RunLog;
use crate::events::{End, LossByValue, Observer, Outcome, StepReport, Validation};
use crate::model::LanguageModel;
use crate::trainer::{Step, Trainer};
use millstream::cursor::Cursor;
use millstream::error::Result;
use millstream::loader::Watch;
use millstream::meter::{Meters, Skipped, Verdict};
use millstream::process::resident_bytes;

pub(super) struct Reports<'a> {
    pub(super) observer: &'a mut dyn Observer,
    /// The log that rank 0 writes; `None` on the others.
    log: Option<RunLog>,
    watch: Option<Watch>,
    /// The loader's meters at the last logged step.
    logged_meters: Meters,
    /// How many targets the run has trained on, in earlier sessions too.
    tokens: u64,
    /// The time since the session began.
    total: Clock,
    /// The time since the last logged step.
    window: Clock,
    /// The last step of the session, if it is not logged.
    unlogged: Option<Step>,
}

impl<'a> Reports<'a> {
    /// The reports of a session that continues after `tokens` targets. `watch` is of the loader, if there is one.
    pub(super) fn new(
        observer: &'a mut dyn Observer,
        log: Option<RunLog>,
        watch: Option<Watch>,
        tokens: u64,
    ) -> Self {
        let logged_meters = watch.as_ref().map(Watch::meters).unwrap_or_default();
        let (total, window) = (Clock::default(), Clock::default());
        Self { observer, log, watch, logged_meters, tokens, total, window, unlogged: None }
    }

    /// Adds time that was spent waiting for batches and training, and how much of the latter went into waiting for the
    /// peers and summing with them, if there are any.
    pub(super) fn pass(&mut self, waited: Duration, trained: Duration, summed: Option<Duration>) {
        self.total.pass(waited, trained, summed);
        self.window.pass(waited, trained, summed);
    }

    /// Reports a step that `trainer` has done.
    ///
    /// # Errors
    /// [`Error::Io`](millstream::Error::Io) if it cannot be written to the log. The observer has it all the same.
    pub(super) fn step<M: LanguageModel>(&mut self, trainer: &mut Trainer<M>, step: &Step) -> Result<()> {
        self.total.count(step);
        self.window.count(step);
        self.tokens += step.tokens as u64;
        let config = &trainer.config().train;
        let is_last = config.log_every > 0 && step.number == config.steps;
        let logged = is_last || step.number.is_multiple_of(config.log_every);
        self.unlogged = (!logged).then(|| step.clone());
        self.report(trainer, step, logged)
    }

    /// Logs the last step if it is not: the data has ended behind it.
    pub(super) fn last_step<M: LanguageModel>(&mut self, trainer: &mut Trainer<M>) -> Result<()> {
        match self.unlogged.take().filter(|_| trainer.config().train.log_every > 0) {
            Some(step) => self.report(trainer, &step, true),
            None => Ok(()),
        }
    }

    fn report<M: LanguageModel>(
        &mut self,
        trainer: &mut Trainer<M>,
        step: &Step,
        logged: bool,
    ) -> Result<()> {
        let rates = self.window.rates(|flops| mfu(trainer, flops));
        let loader = self.watch.as_ref().filter(|_| logged).map(|watch| {
            let meters = watch.meters();
            let since = meters.since(&self.logged_meters);
            self.logged_meters = meters;
            (Verdict::from_meters(&since, rates.wait_share), since.shares())
        });
        let (verdict, stages) = loader.unzip();
        let report = StepReport {
            step: step.number,
            loss: step.loss,
            lr: step.lr,
            grad_norm: step.grad_norm,
            tokens: self.tokens,
            rates,
            loss_by: if logged { trainer.take_loss_by() } else { LossByValue::new() },
            verdict,
            memory: logged.then(resident_bytes).flatten(),
            stages,
            seconds: trainer.state().seconds,
            logged,
        };
        if logged {
            self.window = Clock::default();
        }
        let log = self.log.as_mut().filter(|_| logged);
        let written = log.map_or(Ok(()), |log| {
            log.write(&report)?;
            log.record_skipped(skipped(self.watch.as_ref()))
        });
        tracing::debug!(step = report.step, loss = report.loss, lr = report.lr, "step");
        self.observer.on_step(&report);
        written
    }

    pub(super) fn validation(&mut self, validation: &Validation) -> Result<()> {
        let step = validation.step;
        // An earlier session may have written it before it was cut off.
        let log = self.log.as_mut().filter(|log| !log.has_validation(step));
        let written = log.map_or(Ok(()), |log| log.write(validation));
        tracing::debug!(step, loss = validation.validation_loss, "validation");
        self.observer.on_validation(validation);
        written
    }

    /// Adds a cursor to the run's trail, and what was skipped to its record.
    pub(super) fn record_cursor(&mut self, cursor: &Cursor) -> Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.record_cursor(cursor)?;
        log.record_skipped(skipped(self.watch.as_ref()))
    }

    /// Adds batches that no step uses to the run's record.
    pub(super) fn record_unused(&mut self, batches: Range<u64>) -> Result<()> {
        self.log.as_mut().map_or(Ok(()), |log| log.record_unused(batches))
    }

    /// The result of a session whose state is saved at `checkpoint`.
    pub(super) fn outcome<M: LanguageModel>(
        &self,
        trainer: &Trainer<M>,
        end: End,
        checkpoint: PathBuf,
    ) -> Result<Outcome> {
        let unigram_loss = trainer.unigram_loss()?;
        let state = trainer.state();
        let is_validated = state.validation_step == Some(state.step);
        let rates = self.total.rates(|flops| mfu(trainer, flops));
        let verdict = |watch: &Watch| Verdict::from_meters(&watch.meters(), rates.wait_share);
        Ok(Outcome {
            end,
            step: state.step,
            tokens: state.tokens,
            loss: state.loss,
            unigram_loss,
            validation_loss: state.validation_loss.filter(|_| is_validated),
            bits_per_byte: state.bits_per_byte.filter(|_| is_validated),
            rates,
            verdict: self.watch.as_ref().map(verdict),
            seconds: state.seconds,
            checkpoint,
        })
    }
}

/// The documents that the loader has skipped since it was last asked.
fn skipped(watch: Option<&Watch>) -> Vec<Skipped> {
    watch.map(Watch::take_skipped).unwrap_or_default()
}

/// The share of a device's peak that each rank reaches, given the rate of all ranks together.
fn mfu<M: LanguageModel>(trainer: &Trainer<M>, flops_per_second: f64) -> Option<f64> {
    trainer.config().train.mfu(flops_per_second / trainer.peers().world().size as f64)
}
