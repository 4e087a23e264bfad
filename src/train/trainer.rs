//! Trains a model on batches, one step at a time. Holds the model, the moments and the run's numbers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use futures::{Stream, StreamExt};

use super::checkpoint::{Checkpoint, Parts, State};
use super::cost::{Flops, Memory};
use super::device;
use super::fingerprint;
use super::gradients::{Computed, Factor, add, compute, global_norm, losses};
use super::language_model::LanguageModel;
use super::model::{Gpt, Initial};
use super::optimizer::Optimizer;
use super::pretrained::Pretrained;
use super::reading::{Reading, read};
use super::report::{SourceLoss, Validation};
use super::schedule::learning_rate;
use super::scope::Scope;
use super::tally::Tally;
use super::unigram::Unigram;
use crate::batch::Batch;
use crate::config::{Config, names};
use crate::cursor::{Cursor, Fingerprint};
use crate::error::{Error, Result};
use crate::meter::stage_span;
use crate::tokenizer::Tokenizer;

/// A model in training. [`run`](super::run) drives one; your own loop can too:
///
/// ```no_run
/// use futures::StreamExt;
/// use millstream::train::{Trainer, checkpoint::Checkpoint};
/// use millstream::{Config, Loader};
///
/// # async fn example() -> millstream::Result<()> {
/// let config = Config::load("configs/quickstart.toml")?;
/// let mut loader = Loader::open(&config).await?;
/// let mut trainer = Trainer::new(&config, &**loader.tokenizer())?;
/// while trainer.state().step < config.train.steps
///     && let Some(batch) = loader.next().await
/// {
///     if let Some(step) = trainer.step(&[batch?])? {
///         println!("{:.3}", step.loss);
///     }
/// }
/// trainer.save("checkpoints".as_ref())?;
/// # Ok(()) }
/// ```
///
/// Training blocks its thread, and GPU devices keep memory for each thread that uses them. Call it always from the same
/// thread, such as the root future of a multi-thread runtime.
///
/// [`step`](Self::step) waits for the device to finish. [`submit`](Self::submit) does not: it queues a step, and
/// [`complete`](Self::complete) reads its result later, so that a GPU is given the next step before it has finished the
/// last.
///
/// The model is the crate's [`Gpt`], or [your own](Self::with_model).
#[derive(Debug)]
pub struct Trainer<M = Gpt> {
    config: Config,
    device: Device,
    parts: usize,
    scope: Scope,
    flops: Option<Flops>,
    /// Taken out while it is stepped, so that its parameters are changed in place.
    model: Option<M>,
    optimizer: Optimizer,
    unigram: Unigram,
    state: State,
    cursor: Option<Cursor>,
}

const HELD: &str = "the model is there, unless a step has panicked";

/// The result of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The number of the step, from 1.
    pub number: u64,
    /// The mean loss of the step's targets, under the model before the step, in nats.
    pub loss: f64,
    /// The learning rate.
    pub lr: f64,
    /// The L2 norm of the gradient before it was clipped.
    pub grad_norm: f64,
    /// The number of targets.
    pub tokens: usize,
    /// The floating-point operations, as [`Flops`] counts them; `None` for a model that is not the crate's own.
    pub flops: Option<f64>,
    /// The loss of each source's targets, by the source's name; empty if there is only one source.
    pub sources: BTreeMap<String, SourceLoss>,
}

/// A step that the device may still be at work on: what is known of it, and what is being read.
#[derive(Debug)]
#[must_use = "a step that has diverged is known only when it is completed"]
pub struct Submitted {
    batches: Vec<Batch>,
    number: u64,
    lr: f64,
    results: Reading,
}

/// A step's gradients.
struct Gradients {
    params: GradientsParams,
    losses: Vec<Tensor<1>>,
    unigram: Unigram,
    tokens: usize,
}

impl Trainer {
    /// Creates a model for the ids of `tokenizer`: a new one, drawn from the config's seed, or that of `train.init`.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, a device that this build does not have, or a model of `train.init` that is
    /// not supported or has another tokenizer; [`Error::Io`] if it cannot be read.
    pub fn new(config: &Config, tokenizer: &dyn Tokenizer) -> Result<Self> {
        let Some(directory) = &config.train.init else {
            return Self::of_gpt(config, tokenizer, Initial::Drawn(config.seed));
        };
        let pretrained = Pretrained::open(directory)?;
        pretrained.check_tokenizer(tokenizer)?;
        let mut trainer = Self::of_gpt(&pretrained.adopt(config)?, tokenizer, Initial::Loaded)?;
        let model = pretrained.load(trainer.take_model())?;
        Ok(Self { model: Some(model), ..trainer })
    }

    /// A trainer of a model of the shape of `[model]`.
    fn of_gpt(config: &Config, tokenizer: &dyn Tokenizer, initial: Initial) -> Result<Self> {
        config.validate()?;
        // With `train.init` that has not been checked.
        config.model.validate()?;
        let vocab = config.model.vocab_size.unwrap_or(tokenizer.vocab_size());
        Memory::of(config, vocab).check(config)?;
        let device = device::open(&config.train)?.autodiff();
        let model = Gpt::of(config, tokenizer, initial, &device)?;
        let trainer = Self::of(config, tokenizer, device, model, fingerprint::of_gpt(config, tokenizer));
        Ok(Self { flops: Some(Flops::of(&config.model, vocab)), ..trainer })
    }

    /// Creates a trainer of the model of `checkpoint`, as [`restored`](Self::restored) does. A run with `train.init` goes
    /// on with the [`config`](Self::config) of the trainer that saved the checkpoint, which has the model's shape.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`restored`](Self::restored).
    pub fn resume(config: &Config, tokenizer: &dyn Tokenizer, checkpoint: &Checkpoint) -> Result<Self> {
        checkpoint.require_gpt()?;
        Self::of_gpt(config, tokenizer, Initial::Loaded)?.restored(checkpoint)
    }
}

impl<M: LanguageModel> Trainer<M> {
    /// Creates a trainer of a model that `make` creates on the config's device, for the ids of `tokenizer`. `[model]`,
    /// `train.init` and `train.precision` say nothing about such a model.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, or a device that this build does not have.
    pub fn with_model(
        config: &Config,
        tokenizer: &dyn Tokenizer,
        make: impl FnOnce(&Device) -> M,
    ) -> Result<Self> {
        config.validate()?;
        let device = device::open(&config.train)?.autodiff();
        // Drawn now, once: burn draws weights when they are first used, which would be on several threads.
        let model = make(&device).materialize();
        let fingerprint = fingerprint::of_model(&model, config, tokenizer);
        Ok(Self::of(config, tokenizer, device, model, fingerprint))
    }

    fn of(
        config: &Config,
        tokenizer: &dyn Tokenizer,
        device: Device,
        model: M,
        fingerprint: Fingerprint,
    ) -> Self {
        Self {
            parts: device::parts(&config.train),
            flops: None,
            scope: Scope::from_config(&config.train),
            optimizer: Optimizer::new(&config.train, &model),
            unigram: Unigram::new(tokenizer.vocab_size()),
            state: State::new(fingerprint),
            cursor: None,
            config: config.clone(),
            device,
            model: Some(model),
        }
    }

    /// Loads the model of `checkpoint`, its moments and numbers. What follows is what would have followed, bit for bit
    /// on the same kind of machine, if the batches continue at the [`cursor`](Self::cursor).
    ///
    /// # Errors
    /// [`Error::Fingerprint`] if the model had another shape or tokenizer, [`Error::Cursor`] and [`Error::Io`] if the
    /// checkpoint cannot be read.
    pub fn restored(mut self, checkpoint: &Checkpoint) -> Result<Self> {
        self.state.model.check(&checkpoint.state().model)?;
        let model = checkpoint.model(self.take_model())?;
        Ok(Self {
            // After the model: its parameters have now taken the ids that the moments are stored under.
            optimizer: checkpoint.optimizer(Optimizer::new(&self.config.train, &model))?,
            unigram: checkpoint.unigram(self.unigram.vocab())?,
            cursor: checkpoint.cursor()?,
            state: checkpoint.state().clone(),
            model: Some(model),
            ..self
        })
    }

    /// Splits the rows of each batch into this many parts, which run in parallel; 0 means 1. The default is one per
    /// core on the CPU and one elsewhere. Another number rounds sums differently.
    #[must_use]
    pub fn with_parts(self, parts: usize) -> Self {
        Self { parts, ..self }
    }

    /// Does one optimizer step over all the batches together. Every target has the same weight, whichever batch it is
    /// in. The batches may differ in rows and width. Without targets nothing is stepped and it returns `None`: only the
    /// cursor moves on.
    ///
    /// # Errors
    /// [`Error::Train`] if the batches do not fit the model or the device fails, [`Error::Diverged`] if the gradient is
    /// not finite. The model is then unchanged.
    pub fn step(&mut self, batches: &[Batch]) -> Result<Option<Step>> {
        let began = Instant::now();
        let Some(gradients) = self.gradients(batches)? else { return Ok(None) };
        let norm = global_norm(self.model(), &gradients.params);
        let results = read(self.results(&gradients, norm))?;
        let (tally, norm) = tallied(&results, batches, self.scope);
        if !norm.is_finite() {
            return Err(self.diverged(self.state.step + 1, batches));
        }
        let factor = self.optimizer.factor(norm, gradients.tokens);
        let lr = self.apply(gradients, &factor, batches);
        self.state.seconds += began.elapsed().as_secs_f64();
        Ok(Some(self.reported(self.state.step, lr, &tally, norm, batches)))
    }

    /// Queues the work of one optimizer step on the device, as [`step`](Self::step) does, and does not wait for it.
    /// Give the result to [`complete`](Self::complete) before you save a checkpoint.
    ///
    /// # Errors
    /// [`Error::Train`] if the batches do not fit the model. The model is then unchanged.
    pub fn submit(&mut self, batches: Vec<Batch>) -> Result<Option<Submitted>> {
        let began = Instant::now();
        let Some(gradients) = self.gradients(&batches)? else { return Ok(None) };
        let norm = global_norm(self.model(), &gradients.params);
        let factor = match &norm {
            Some(norm) => self.optimizer.factor_on_device(norm.clone(), gradients.tokens),
            None => self.optimizer.factor(0.0, gradients.tokens),
        };
        let results = self.results(&gradients, norm);
        let lr = self.apply(gradients, &factor, &batches);
        // Now, and not when the step is completed: the next one is queued by then, and the device would do that first.
        let results = Reading::begin(results);
        self.state.seconds += began.elapsed().as_secs_f64();
        Ok(Some(Submitted { batches, number: self.state.step, lr, results }))
    }

    /// Waits for a submitted step, and returns its result.
    ///
    /// # Errors
    /// [`Error::Train`] if the device failed. [`Error::Diverged`] if the gradient was not finite: the model and its
    /// moments are then lost, and you go on from a checkpoint.
    pub fn complete(&mut self, submitted: Submitted) -> Result<Step> {
        let began = Instant::now();
        let Submitted { batches, number, lr, results } = submitted;
        let (tally, norm) = tallied(&results.finish()?, &batches, self.scope);
        self.state.seconds += began.elapsed().as_secs_f64();
        match norm.is_finite() {
            true => Ok(self.reported(number, lr, &tally, norm, &batches)),
            false => Err(self.diverged(number, &batches)),
        }
    }

    /// The gradients of all the batches together; `None` if they have no targets.
    fn gradients(&mut self, batches: &[Batch]) -> Result<Option<Gradients>> {
        for batch in batches {
            self.check(batch)?;
        }
        let mut unigram = self.unigram.clone();
        let (mut sum, mut losses, mut tokens) = (GradientsParams::new(), Vec::new(), 0);
        for batch in batches.iter().filter(|batch| self.scope.tokens(batch) > 0) {
            unigram.count(batch, self.scope);
            let span = stage_span!("trainer", "gradients");
            let Computed { losses: found, params } =
                span.in_scope(|| compute(self.model(), batch, self.scope, &self.device, self.parts))?;
            losses.push(found);
            tokens += self.scope.tokens(batch);
            add(self.model(), &mut sum, params);
        }
        if tokens == 0 {
            self.cursor = batches.last().map(|batch| batch.cursor().clone()).or(self.cursor.take());
            return Ok(None);
        }
        Ok(Some(Gradients { params: sum, losses, unigram, tokens }))
    }

    /// The losses of all batches of a step, and the norm of the sum of their gradients. They are one tensor, because each
    /// read waits for the device.
    fn results(&self, gradients: &Gradients, norm: Option<Tensor<1>>) -> Tensor<1> {
        let norm = norm.unwrap_or_else(|| Tensor::zeros([1], &self.device.clone().inner()));
        Tensor::cat(gradients.losses.iter().cloned().chain([norm]).collect(), 0)
    }

    /// Moves the model along its gradients, and returns the learning rate.
    fn apply(&mut self, gradients: Gradients, factor: &Factor, batches: &[Batch]) -> f64 {
        let lr = learning_rate(&self.config.train, self.state.step);
        let span = stage_span!("trainer", "optimizer");
        let model = self.take_model();
        self.model = Some(span.in_scope(|| self.optimizer.apply(model, gradients.params, factor, lr)));
        self.unigram = gradients.unigram;
        self.cursor = batches.last().map(|batch| batch.cursor().clone());
        self.state.step += 1;
        self.state.tokens += gradients.tokens as u64;
        lr
    }

    fn reported(&mut self, number: u64, lr: f64, tally: &Tally, grad_norm: f64, batches: &[Batch]) -> Step {
        let (loss, tokens) = (tally.loss(), tally.tokens());
        self.state.loss = Some(loss);
        let stepped = batches.iter().filter(|batch| self.scope.tokens(batch) > 0);
        let flops = self.flops.as_ref().map(|flops| flops.of_batches(stepped));
        let sources = tally.sources(&names(&self.config.sources));
        Step { number, loss, lr, grad_norm, tokens, flops, sources }
    }

    /// Returns the loss on at most `train.validation_batches` of `batches`; `None` if they have no targets.
    ///
    /// The targets are those of training: with `train.mask_documents` each is predicted from its own document, and a
    /// document's first id is not a target. So losses with and without that setting have different targets.
    ///
    /// # Errors
    /// The errors of the batches and of [`step`](Self::step).
    pub async fn validate<S>(&mut self, mut batches: S) -> Result<Option<Validation>>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
    {
        let (model, device) = (self.model().valid(), self.device.clone().inner());
        let (mut tally, mut bytes) = (Tally::default(), 0);
        let mut unread: Option<(Batch, Reading)> = None;
        for _ in 0..self.config.train.validation_batches {
            let Some(batch) = batches.next().await.transpose()? else { break };
            self.check(&batch)?;
            if self.scope.tokens(&batch) == 0 {
                continue;
            }
            bytes += self.scope.text_bytes(&batch);
            let losses = Reading::begin(losses(&model, &batch, self.scope, &device, self.parts)?);
            // One batch late, so that the device has work while the losses are added up.
            if let Some((batch, losses)) = unread.replace((batch, losses)) {
                tally.add(&batch, self.scope, &losses.finish()?);
            }
        }
        let Some((batch, losses)) = unread else { return Ok(None) };
        tally.add(&batch, self.scope, &losses.finish()?);
        let loss = tally.loss();
        let bits_per_byte = (bytes > 0).then(|| tally.nats() / std::f64::consts::LN_2 / bytes as f64);
        (self.state.validation_loss, self.state.validation_step) = (Some(loss), Some(self.state.step));
        self.state.best_validation_loss =
            Some(self.state.best_validation_loss.map_or(loss, |best| best.min(loss)));
        self.state.bits_per_byte = bits_per_byte;
        Ok(Some(Validation {
            step: self.state.step,
            validation_loss: loss,
            bits_per_byte,
            validation_tokens: tally.tokens() as u64,
            sources: tally.sources(&names(&self.config.sources)),
        }))
    }

    /// Saves a checkpoint under `parent`, keeps the newest `train.keep`, and returns its path.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Train`] if it cannot be written; earlier checkpoints are kept.
    pub fn save(&self, parent: &Path) -> Result<PathBuf> {
        let parts = Parts {
            model: self.model(),
            optimizer: &self.optimizer,
            unigram: &self.unigram,
            cursor: self.cursor.as_ref(),
            state: &self.state,
        };
        Checkpoint::save(parent, parts, self.config.train.keep)
    }

    /// Adds time spent waiting for batches to the run's seconds; steps add their own time.
    pub fn waited(&mut self, time: Duration) {
        self.state.seconds += time.as_secs_f64();
    }

    /// The model, with autodiff; [`Module::valid`](burn::module::Module::valid) returns it without.
    pub fn model(&self) -> &M {
        self.model.as_ref().expect(HELD)
    }

    fn take_model(&mut self) -> M {
        self.model.take().expect(HELD)
    }

    /// The run's numbers so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Where the data continues; `None` before the first step.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// The loss of a model that knows only how frequent each token was so far, in nats per token.
    pub fn unigram_loss(&self) -> f64 {
        self.unigram.loss()
    }

    /// The config that the trainer was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The error that the gradient of these batches is not finite.
    fn diverged(&self, step: u64, batches: &[Batch]) -> Error {
        let first = batches.first().map_or(0, Batch::number);
        Error::Diverged {
            step,
            batches: first..batches.last().map_or(first, Batch::number) + 1,
            remedy: "lower train.lr, or raise train.warmup, and go on from a checkpoint".to_owned(),
        }
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let (length, vocab) = (batch.seq_len(), self.unigram.vocab());
        let most = self.model().seq_len().unwrap_or(usize::MAX);
        if length == 0 || length > most {
            return Err(Error::Train(format!(
                "a batch has {length} targets a row, and the model takes 1 to {most} (pipeline.seq_len)"
            )));
        }
        match batch.ids().iter().find(|&&id| id as usize >= vocab) {
            None => Ok(()),
            Some(id) => Err(Error::Train(format!(
                "id {id} of a batch is beyond the model's vocabulary of {vocab}: the batches come from \
                 another tokenizer than the model was made for"
            ))),
        }
    }
}

/// The losses of a step's batches, and the norm of their mean gradient, from its results.
fn tallied(results: &[f32], batches: &[Batch], scope: Scope) -> (Tally, f64) {
    let (mut at, mut tally) = (0, Tally::default());
    for batch in batches {
        if scope.tokens(batch) > 0 {
            let places = batch.rows() * batch.seq_len();
            tally.add(batch, scope, &results[at..at + places]);
            at += places;
        }
    }
    let norm = f64::from(results[at]) / tally.tokens() as f64;
    (tally, norm)
}
