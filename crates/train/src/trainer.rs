//! Trains a model on batches, one step at a time. Holds the model, the moments and the run's numbers.

mod step;
mod together;
mod validate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use burn::optim::ModuleOptimizer;
use burn::tensor::Device;

pub use self::step::{Step, Submitted};
pub(super) use self::validate::Batches;
use crate::checkpoint::{Checkpoint, Contents, State, fingerprint, folder};
use crate::config::RunConfig;
use crate::cost::{Flops, Memory};
use crate::device;
use crate::model::{Gpt, Initial, LanguageModel, Scope, Unigram};
use crate::optim::{Custom, LossNames, Optimizer};
use crate::peers::Peers;
use crate::pretrained::Pretrained;
use millstream::batch::Batch;
use millstream::cursor::{Cursor, Fingerprint};
use millstream::error::{Error, Result};
use millstream::tokenizer::Tokenizer;

/// A model in training. [`run`](crate::run()) drives one; your own loop can too:
///
/// ```no_run
/// use futures::StreamExt;
/// use millstream::Loader;
/// use millstream_train::{RunConfig, Trainer};
///
/// # async fn example() -> millstream::Result<()> {
/// let config = RunConfig::load("configs/quickstart.toml")?;
/// let mut loader = Loader::open(&config.data).await?;
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
/// The model is the crate's [`Gpt`], or [your own](Self::with_model). The optimizer is the one that `train.optimizer`
/// names, or [any of burn's](Self::with_optimizer).
///
/// Several ranks train one model together if each has a trainer with its [`Peers`](Self::with_peers), and gives it its own
/// rows of each batch. All of them then call the same methods in the same order. A trainer computes on the first of
/// `train.devices`; [`run`](crate::run()) makes one for each of them.
#[derive(Debug)]
pub struct Trainer<M = Gpt> {
    config: RunConfig,
    device: Device,
    parts: usize,
    scope: Scope,
    loss_names: LossNames,
    flops: Option<Flops>,
    /// Taken out while it is stepped, so that its parameters are changed in place.
    model: Option<M>,
    optimizer: Optimizer,
    custom: Option<Custom<M>>,
    unigram: Unigram,
    state: State,
    cursor: Option<Cursor>,
    peers: Peers,
    /// How long the steps have waited for the peers and summed with them since [`take_summed`](Self::take_summed).
    summed: Duration,
}

const HELD: &str = "the model is there, unless a step has panicked";

impl Trainer {
    /// Creates a model for the ids of `tokenizer`: a new one, drawn from the config's seed, or that of `train.init`.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, a device that this build does not have, or a model of `train.init` that is
    /// not supported or has another tokenizer; [`Error::Io`] if it cannot be read.
    pub fn new(config: &RunConfig, tokenizer: &dyn Tokenizer) -> Result<Self> {
        let Some(directory) = &config.train.init else {
            return Self::with_gpt(config, tokenizer, Initial::Drawn(config.data.seed), Ok);
        };
        Self::from_pretrained(&Pretrained::open(directory)?, config, tokenizer)
    }

    /// A trainer of the model of `train.init`.
    pub(super) fn from_pretrained(
        pretrained: &Pretrained,
        config: &RunConfig,
        tokenizer: &dyn Tokenizer,
    ) -> Result<Self> {
        pretrained.check_tokenizer(tokenizer)?;
        pretrained.warn(config);
        let config = pretrained.apply_shape(config)?;
        Self::with_gpt(&config, tokenizer, Initial::Loaded, |model| pretrained.load(model))
    }

    /// A trainer of a model of the shape of `[model]`, with the weights that `load` gives it, and with the adapters of
    /// `[train.lora]`.
    fn with_gpt(
        config: &RunConfig,
        tokenizer: &dyn Tokenizer,
        initial: Initial,
        load: impl FnOnce(Gpt) -> Result<Gpt>,
    ) -> Result<Self> {
        config.validate()?;
        // `RunConfig::validate` leaves `[model]` out if there is a `train.init`.
        config.model.validate()?;
        let vocab = config.model.vocab_size.unwrap_or(tokenizer.vocab_size());
        Memory::new(config, vocab).check(config)?;
        let device = device::open(&config.train)?.autodiff();
        let model = load(Gpt::with_initial(config, tokenizer, initial, &device)?)?.with_adapters(config);
        let trainer =
            Self::from_model(config, tokenizer, device, model, fingerprint::for_gpt(config, tokenizer))?;
        Ok(Self { flops: Some(Flops::for_run(config, vocab)), ..trainer })
    }

    /// Creates a trainer of the model of `checkpoint`, as [`restored`](Self::restored) does. A run with `train.init` goes
    /// on with the [`config`](Self::config) of the trainer that saved the checkpoint, which has the model's shape.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`restored`](Self::restored).
    pub fn resume(config: &RunConfig, tokenizer: &dyn Tokenizer, checkpoint: &Checkpoint) -> Result<Self> {
        checkpoint.require_gpt()?;
        Self::with_gpt(config, tokenizer, Initial::Loaded, Ok)?.restored(checkpoint)
    }
}

impl<M: LanguageModel> Trainer<M> {
    /// Creates a trainer of a model that `make` creates on the config's device, for the ids of `tokenizer`. `[model]`,
    /// `train.init`, `train.lora` and `train.precision` say nothing about such a model.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, a device that this build does not have, or `train.optimizer = "muon"` for a
    /// model that names no [hidden matrices](LanguageModel::hidden_matrices).
    pub fn with_model(
        config: &RunConfig,
        tokenizer: &dyn Tokenizer,
        make: impl FnOnce(&Device) -> M,
    ) -> Result<Self> {
        config.validate()?;
        let device = device::open(&config.train)?.autodiff();
        // burn draws weights when they are first used, which would be on several threads.
        let model = make(&device).materialize();
        let fingerprint = fingerprint::for_model(&model, config, tokenizer);
        Self::from_model(config, tokenizer, device, model, fingerprint)
    }

    fn from_model(
        config: &RunConfig,
        tokenizer: &dyn Tokenizer,
        device: Device,
        model: M,
        fingerprint: Fingerprint,
    ) -> Result<Self> {
        let optimizer = Optimizer::new(&config.train, &model)?;
        Ok(Self {
            parts: device::parts(&config.train),
            flops: None,
            scope: Scope::from_config(&config.train),
            loss_names: LossNames::from_config(config),
            state: State::new(fingerprint, optimizer.fingerprint().clone()),
            optimizer,
            custom: None,
            unigram: Unigram::new(tokenizer.vocab_size()),
            cursor: None,
            config: config.clone(),
            device,
            model: Some(model),
            peers: Peers::ALONE,
            summed: Duration::ZERO,
        })
    }

    /// Steps with an optimizer of burn or your own, instead of the one that `train.optimizer` names. `make` makes it for
    /// the model: any [`burn::optim::Optimizer`], or a [`ModuleOptimizer`] with one for each group of parameters. Call it
    /// before the first step, and before [`restored`](Self::restored).
    ///
    /// The learning rate of each step, the clip and `accumulate` are the config's. Checkpoints have the optimizer's moments
    /// and its name: its type's, or that of the function that makes a [`ModuleOptimizer`]. They do not have its settings:
    /// give it the same ones when you resume.
    ///
    /// ```no_run
    /// use burn::optim::LionConfig;
    /// use millstream::tokenizer::ByteTokenizer;
    /// use millstream_train::{RunConfig, Trainer};
    ///
    /// # fn example() -> millstream::Result<()> {
    /// let config = RunConfig::load("configs/quickstart.toml")?;
    /// let trainer = Trainer::new(&config, &ByteTokenizer)?;
    /// let trainer = trainer.with_optimizer(|_| LionConfig::new().with_weight_decay(0.5).build());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_optimizer<O: Into<ModuleOptimizer>>(
        mut self,
        make: impl Fn(&M) -> O + Send + Sync + 'static,
    ) -> Self {
        let custom = Custom::new(make);
        self.optimizer = custom.optimizer(&self.config.train, self.model());
        self.state.optimizer = self.optimizer.fingerprint().clone();
        Self { custom: Some(custom), ..self }
    }

    /// Loads the model of `checkpoint`, its moments and numbers. On the same kind of machine, the run then continues bit
    /// for bit as without a break, if the batches continue at the [`cursor`](Self::cursor).
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the model had another shape, tokenizer or optimizer, or if the checkpoint is damaged;
    /// [`Error::Io`] if it cannot be read.
    pub fn restored(mut self, checkpoint: &Checkpoint) -> Result<Self> {
        checkpoint.check_model(&self.state.model)?;
        let model = checkpoint.model(self.take_model())?;
        // After the model: its parameters now have the ids of the saved ones, which the moments are stored under.
        let optimizer = match &self.custom {
            Some(custom) => custom.optimizer(&self.config.train, &model),
            None => Optimizer::new(&self.config.train, &model)?,
        };
        let mut state = checkpoint.state().clone();
        state.loss_by.retain(&self.loss_names);
        Ok(Self {
            optimizer: checkpoint.optimizer(optimizer)?,
            unigram: checkpoint.unigram(self.unigram.vocab())?,
            cursor: checkpoint.cursor()?,
            state,
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

    /// Saves a checkpoint under `parent`, removes all but the newest `train.keep`, and returns the new one's path. With
    /// peers, rank 0 writes one for all ranks.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Train`] if it cannot be written, or if the parameters of the peers differ; earlier
    /// checkpoints are kept.
    pub fn save(&self, parent: &Path) -> Result<PathBuf> {
        self.check_equal()?;
        let (cursor, unigram) = (self.whole_cursor()?, self.whole_unigram()?);
        let contents = Contents {
            model: self.model(),
            optimizer: &self.optimizer,
            unigram: &unigram,
            cursor: cursor.as_ref(),
            state: &self.state,
        };
        self.peers.agree(match self.peers.is_first() {
            true => Checkpoint::save(parent, contents, self.config.train.keep),
            false => Ok(folder::path(parent, self.state.step)),
        })
    }

    /// Adds time spent waiting for batches to the run's seconds. Steps add theirs.
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

    /// Where the data continues, for this process; `None` before the first step.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// The loss of a model that knows only how frequent each token was so far, in nats per token.
    ///
    /// # Errors
    /// [`Error::Peer`] if a rank has left.
    pub fn unigram_loss(&self) -> Result<f64> {
        self.whole_unigram().map(|unigram| unigram.loss())
    }

    /// The config that the trainer was made with.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// Refuses a batch whose rows are too long for the model, or which has ids beyond its vocabulary.
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
