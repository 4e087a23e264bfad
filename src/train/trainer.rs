//! Trains a model on batches, one step at a time. Holds the model, the moments and the run's numbers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsAccumulator;
use burn::tensor::Device;
use futures::{Stream, StreamExt};

use super::checkpoint::{Checkpoint, Parts, State};
use super::device;
use super::gradients::{gradients, nats};
use super::model::Gpt;
use super::optimizer::Optimizer;
use super::pretrained::Pretrained;
use super::report::Validation;
use super::schedule::learning_rate;
use super::scope::Scope;
use super::unigram::Unigram;
use crate::batch::Batch;
use crate::config::Config;
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
#[derive(Debug)]
pub struct Trainer {
    config: Config,
    device: Device,
    parts: usize,
    scope: Scope,
    model: Gpt,
    optimizer: Optimizer,
    unigram: Unigram,
    state: State,
    cursor: Option<Cursor>,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The mean loss of the step's targets, under the model before the step, in nats.
    pub loss: f64,
    /// The learning rate.
    pub lr: f64,
    /// The L2 norm of the gradient before it was clipped.
    pub grad_norm: f64,
    /// The number of targets.
    pub tokens: usize,
}

impl Trainer {
    /// Creates a model for the ids of `tokenizer`: a new one, drawn from the config's seed, or that of `train.init`.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, a device that this build does not have, or a model of `train.init` that is
    /// not supported or has another tokenizer; [`Error::Io`] if it cannot be read.
    pub fn new(config: &Config, tokenizer: &dyn Tokenizer) -> Result<Self> {
        let Some(directory) = &config.train.init else { return Self::blank(config, tokenizer) };
        let pretrained = Pretrained::open(directory)?;
        pretrained.check_tokenizer(tokenizer)?;
        let trainer = Self::blank(&pretrained.adopt(config)?, tokenizer)?;
        let model = pretrained.load(trainer.model)?;
        Ok(Self { model, ..trainer })
    }

    /// A trainer of a new model of the shape of `[model]`.
    fn blank(config: &Config, tokenizer: &dyn Tokenizer) -> Result<Self> {
        config.validate()?;
        let device = device::open(&config.train)?.autodiff();
        let model = Gpt::from_config(config, tokenizer, &device)?;
        Ok(Self {
            parts: device::parts(&config.train),
            scope: Scope::from_config(&config.train),
            optimizer: Optimizer::new(&config.train, &model),
            unigram: Unigram::new(tokenizer.vocab_size()),
            state: State::new(fingerprint(config, tokenizer)),
            cursor: None,
            config: config.clone(),
            device,
            model,
        })
    }

    /// Loads the model of `checkpoint`. What follows is what would have followed, bit for bit on the same kind of
    /// machine, if the batches continue at the [`cursor`](Self::cursor).
    ///
    /// # Errors
    /// As [`Trainer::new`]; also [`Error::Fingerprint`] if the model had another shape or tokenizer, [`Error::Cursor`]
    /// and [`Error::Io`] if the checkpoint cannot be read.
    pub fn resume(config: &Config, tokenizer: &dyn Tokenizer, checkpoint: &Checkpoint) -> Result<Self> {
        let mut trainer = Self::blank(config, tokenizer)?;
        trainer.state.model.check(&checkpoint.state().model)?;
        trainer.model = checkpoint.model(trainer.model)?;
        // After the model: its parameters have now taken the ids that the moments are stored under.
        trainer.optimizer = checkpoint.optimizer(Optimizer::new(&config.train, &trainer.model))?;
        trainer.unigram = checkpoint.unigram(tokenizer.vocab_size())?;
        trainer.cursor = checkpoint.cursor()?;
        trainer.state = checkpoint.state().clone();
        Ok(trainer)
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
        for batch in batches {
            self.check(batch)?;
        }
        let mut unigram = self.unigram.clone();
        let mut sum = GradientsAccumulator::new();
        let (mut nats, mut tokens) = (0.0, 0);
        for batch in batches {
            unigram.count(batch, self.scope);
            let span = stage_span!("trainer", "gradients");
            let found =
                span.in_scope(|| gradients(&self.model, batch, self.scope, &self.device, self.parts))?;
            nats += found.nats;
            tokens += found.tokens;
            sum.accumulate(&self.model, found.params);
        }
        let cursor = batches.last().map(|batch| batch.cursor().clone());
        if tokens == 0 {
            self.cursor = cursor.or(self.cursor.take());
            return Ok(None);
        }
        let lr = learning_rate(&self.config.train, self.state.step);
        let span = stage_span!("trainer", "optimizer");
        let stepped =
            span.in_scope(|| self.optimizer.try_step(self.model.clone(), sum.grads(), tokens, lr))?;
        let Some((model, grad_norm)) = stepped else { return Err(self.diverged(batches)) };
        let loss = nats / tokens as f64;
        self.model = model;
        self.unigram = unigram;
        self.cursor = cursor;
        self.state.step += 1;
        self.state.tokens += tokens as u64;
        self.state.loss = Some(loss);
        self.state.seconds += began.elapsed().as_secs_f64();
        Ok(Some(Step { loss, lr, grad_norm, tokens }))
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
        let (model, device) = (self.model.valid(), self.device.clone().inner());
        let (mut sum, mut tokens, mut bytes) = (0.0, 0, 0);
        for _ in 0..self.config.train.validation_batches {
            let Some(batch) = batches.next().await.transpose()? else { break };
            self.check(&batch)?;
            sum += nats(&model, &batch, self.scope, &device, self.parts)?;
            tokens += self.scope.tokens(&batch) as u64;
            bytes += self.scope.text_bytes(&batch);
        }
        if tokens == 0 {
            return Ok(None);
        }
        let loss = sum / tokens as f64;
        let bits_per_byte = (bytes > 0).then(|| sum / std::f64::consts::LN_2 / bytes as f64);
        (self.state.validation_loss, self.state.validation_step) = (Some(loss), Some(self.state.step));
        self.state.best_validation_loss =
            Some(self.state.best_validation_loss.map_or(loss, |best| best.min(loss)));
        self.state.bits_per_byte = bits_per_byte;
        Ok(Some(Validation {
            step: self.state.step,
            validation_loss: loss,
            bits_per_byte,
            validation_tokens: tokens,
        }))
    }

    /// Saves a checkpoint under `parent`, keeps the newest `train.keep`, and returns its path.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Train`] if it cannot be written; earlier checkpoints are kept.
    pub fn save(&self, parent: &Path) -> Result<PathBuf> {
        let parts = Parts {
            model: &self.model,
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

    /// The model, with autodiff; [`Module::valid`] returns it without.
    pub fn model(&self) -> &Gpt {
        &self.model
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
    fn diverged(&self, batches: &[Batch]) -> Error {
        let first = batches.first().map_or(0, Batch::number);
        Error::Diverged {
            step: self.state.step + 1,
            batches: first..batches.last().map_or(first, Batch::number) + 1,
            remedy: "lower train.lr, or raise train.warmup, and go on from a checkpoint".to_owned(),
        }
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let (length, vocab) = (batch.seq_len(), self.unigram.vocab());
        if length == 0 || length > self.model.seq_len() {
            return Err(Error::Train(format!(
                "a batch has {length} targets a row, and the model takes 1 to {} (pipeline.seq_len)",
                self.model.seq_len()
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

/// The fingerprint that a model's parameters belong to: its shape, what it was trained to look at, its tokenizer.
fn fingerprint(config: &Config, tokenizer: &dyn Tokenizer) -> Fingerprint {
    let mut fields = std::collections::BTreeMap::new();
    if let Ok(serde_json::Value::Object(model)) = serde_json::to_value(&config.model) {
        fields.extend(model.into_iter().map(|(key, value)| (format!("model.{key}"), value.to_string())));
    }
    if config.train.mask_documents {
        fields.insert("train.mask_documents".to_owned(), true.to_string());
    }
    fields.insert("tokenizer".to_owned(), tokenizer.fingerprint());
    fields.insert("vocabulary".to_owned(), tokenizer.vocab_size().to_string());
    Fingerprint(fields)
}
