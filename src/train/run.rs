//! Trains a model from a config, in its run directory: begins a run, or opens one where it goes on.

use std::future::Future;
use std::ops::AsyncFnMut;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::Stream;
use futures::future::{Either, select};

use super::advice;
use super::checkpoint::Checkpoint;
use super::directory::RunDirectory;
use super::language_model::LanguageModel;
use super::peers::Peers;
use super::pretrained::Pretrained;
use super::ready::ready;
use super::records::Records;
use super::replicas;
use super::report::{Observer, Outcome};
use super::session::Session;
use super::trainer::Trainer;
use crate::batch::Batch;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::files::Listing;
use crate::loader::{Loader, LoaderBuilder, Watch, explain};
use crate::tokenizer::Tokenizer;

/// Trains a new model from `config`, in the directory `train.out`.
///
/// `train.devices` can name several devices: each has a thread, and they train one model [together](Peers). If a launcher
/// has started several processes, each calls this, and they do so too. Rank 0 writes the directory, which all ranks must see. Each has its own `observer`. If one is asked to stop, all of them do.
///
/// `tokenizer` makes the ids. `tokenizer_json`, if it is one of Hugging Face's, is kept in the run directory, so that
/// resuming and generating use the same tokenizer. When `stop` is ready, the run finishes the current step, saves a
/// checkpoint and returns [`End::Interrupted`](super::End::Interrupted). If the data ends before the steps do, the run
/// ends as well and returns [`End::DataEnded`](super::End::DataEnded).
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
    let beginning = Beginning::New { tokenizer_json: tokenizer_json.map(str::to_owned) };
    replicas::train(Rank::new(config, tokenizer, beginning)?, observer, pin!(stop)).await
}

/// Continues the run in `train.out` from its newest checkpoint, as [`run`] would have.
///
/// [`RunDirectory::config`] returns the config that the run has had so far. You may change settings that do not affect
/// the order of the batches or the model's shape, such as `train.steps`. The run directory keeps what you change.
///
/// # Errors
/// As [`run`]; also [`Error::Fingerprint`](crate::Error::Fingerprint) if the config, the tokenizer or the files would
/// give other batches or another model, and [`Error::Busy`](crate::Error::Busy) if another process trains in the
/// directory.
pub async fn resume(
    config: &Config,
    tokenizer: Arc<dyn Tokenizer>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    let peers = Peers::join(&config.pipeline)?;
    let opened = || {
        let directory = RunDirectory::open(&config.train.out)?;
        let directory = if peers.is_first() { directory.claim()? } else { directory };
        let checkpoint = directory.latest()?;
        Ok((directory, checkpoint))
    };
    let (directory, checkpoint) = peers.agree(opened())?;
    resume_from(&directory, &checkpoint, config, tokenizer, observer, stop).await
}

/// Continues the run in `directory` from one of its checkpoints, as [`resume`] does from the newest. Checkpoints after
/// that one are renamed, so that the run does not mix them with those that follow.
///
/// [`RunDirectory::config_at`] returns the config that the run had then.
///
/// # Errors
/// As [`resume`].
pub async fn resume_from(
    directory: &RunDirectory,
    checkpoint: &Checkpoint,
    config: &Config,
    tokenizer: Arc<dyn Tokenizer>,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome> {
    let beginning = Beginning::Resumed { directory: directory.clone(), checkpoint: checkpoint.clone() };
    replicas::train(Rank::new(config, tokenizer, beginning)?, observer, pin!(stop)).await
}

/// One rank of a run, before it begins.
#[derive(Clone)]
pub(super) struct Rank {
    /// The config of the whole run.
    pub(super) config: Config,
    pub(super) peers: Peers,
    tokenizer: Arc<dyn Tokenizer>,
    beginning: Beginning,
}

/// How a run begins.
#[derive(Clone)]
enum Beginning {
    New { tokenizer_json: Option<String> },
    Resumed { directory: RunDirectory, checkpoint: Checkpoint },
}

/// A run that is ready for its first step, on one rank.
struct Begun {
    /// The config of the whole run, with what a model of `train.init` gives it.
    config: Config,
    trainer: Trainer,
    loader: Loader,
    directory: RunDirectory,
}

impl Rank {
    /// This process, as its launcher has started it.
    fn new(config: &Config, tokenizer: Arc<dyn Tokenizer>, beginning: Beginning) -> Result<Self> {
        Ok(Self { config: config.clone(), peers: Peers::join(&config.pipeline)?, tokenizer, beginning })
    }

    /// The same run, as another rank.
    pub(super) fn with_peers(&self, peers: Peers) -> Self {
        Self { peers, ..self.clone() }
    }

    /// What this rank reads and trains on.
    fn own(&self, config: &Config) -> Config {
        replicas::of_rank(config, self.peers.world())
    }

    /// Trains until the steps or the data end, or a rank is asked to stop.
    pub(super) async fn train(
        self,
        observer: &mut dyn Observer,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Outcome> {
        let begun = match &self.beginning {
            Beginning::New { tokenizer_json } => self.begin(tokenizer_json.as_deref(), stop.as_mut()).await,
            Beginning::Resumed { directory, checkpoint } => {
                self.go_on(directory, checkpoint, observer, stop.as_mut()).await
            }
        };
        let Begun { config, trainer, loader, directory } = self.peers.agree(begun)?;
        #[cfg(feature = "cuda-untuned")]
        let trainer = trainer.with_peers(self.peers.clone().with_nccl(&config.train)?);
        observer.on_open(&loader.watch());
        let (own, watch) = (self.own(&config), Some(loader.watch()));
        let run = Run { trainer, config, directory: &directory, watch, observer };
        run.drive(loader, async || held_out(&own, &self.tokenizer).await, stop).await
    }

    /// Begins a run. The first rank makes the directory.
    async fn begin(
        &self,
        tokenizer_json: Option<&str>,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Begun> {
        ready(&self.config)?;
        let (config, trainer) = match &self.config.train.init {
            None => (self.config.clone(), Trainer::new(&self.own(&self.config), &*self.tokenizer)?),
            Some(directory) => {
                let pretrained = Pretrained::open(directory)?;
                let config = pretrained.resolve(&self.config)?;
                let trainer = Trainer::of_pretrained(&pretrained, &self.own(&config), &*self.tokenizer)?;
                (config, trainer)
            }
        };
        let builder = Loader::builder(&self.own(&config)).with_tokenizer(self.tokenizer.clone());
        let loader = opened(builder, stop).await?;
        let directory = match self.peers.is_first() {
            true => RunDirectory::create(&config, tokenizer_json)?,
            false => RunDirectory::of_first(&config),
        };
        self.begun(config, trainer, loader, directory)
    }

    /// Goes on with a run. The first rank claims the directory.
    async fn go_on(
        &self,
        directory: &RunDirectory,
        checkpoint: &Checkpoint,
        observer: &mut dyn Observer,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Begun> {
        let config = &self.config;
        ready(config)?;
        let directory = if self.peers.is_first() { directory.clone().claim()? } else { directory.clone() };
        let began = directory.config(&[])?.train.init;
        if config.train.init != began {
            let was = began.map_or("absent".to_owned(), |init| format!("{:?}", init.display().to_string()));
            let problem = format!("a run that goes on has its weights already; leave it as it was ({was})");
            return Err(Error::config("train.init", problem));
        }
        let own = self.own(config);
        let trainer = Trainer::resume(&own, &*self.tokenizer, checkpoint)?;
        observer.on_message(&format!("resuming from {}", checkpoint.path().display()));
        for (step, setting) in directory.kept_settings(checkpoint.state().step, config)? {
            observer.on_message(&format!("  with {setting}, set at step {step}"));
        }
        let mut builder = Loader::builder(&own).with_tokenizer(self.tokenizer.clone());
        if let Some(cursor) = trainer.cursor() {
            builder = builder.with_cursor(cursor.clone());
        }
        let loader = match opened(builder, stop).await {
            Ok(loader) => loader,
            Err(error) => match Listing::load(directory.files()) {
                Ok(was) => return Err(explain(error, &was, &own).await),
                // An older run has no listing.
                Err(_) => return Err(error),
            },
        };
        self.begun(config.clone(), trainer, loader, directory)
    }

    /// Notes which files the run reads, once for all ranks.
    fn begun(
        &self,
        config: Config,
        trainer: Trainer,
        loader: Loader,
        directory: RunDirectory,
    ) -> Result<Begun> {
        if self.peers.is_first() {
            loader.listing().save(directory.files())?;
        }
        Ok(Begun { config, trainer: trainer.with_peers(self.peers.clone()), loader, directory })
    }
}

/// Opens the loader, unless `stop` is ready before.
async fn opened(builder: LoaderBuilder, stop: Pin<&mut impl Future<Output = ()>>) -> Result<Loader> {
    match select(stop, pin!(builder.open())).await {
        Either::Left(_) => {
            Err(Error::Train("interrupted before the first step: nothing has changed".to_owned()))
        }
        Either::Right((loader, _)) => loader,
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
/// custom batches and models. `held_out` opens a new stream for each validation, or returns `None`.
///
/// # Errors
/// As [`run`].
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
struct Run<'a, M> {
    trainer: Trainer<M>,
    /// The config of the whole run, where the trainer has that of its rank.
    config: Config,
    directory: &'a RunDirectory,
    /// Watches the loader that the batches come from, if they come from one.
    watch: Option<Watch>,
    observer: &'a mut dyn Observer,
}

impl<M: LanguageModel> Run<'_, M> {
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
        let Self { trainer, config, directory, watch, observer } = self;
        let peers = trainer.peers().clone();
        trainer.check_equal()?;
        let (step, steps) = (trainer.state().step, trainer.config().train.steps);
        let records = match peers.is_first() {
            true => Records::open(directory, &config, step, trainer.cursor(), observer).map(Some),
            false => Ok(None),
        };
        let records = peers.agree(records)?;
        if step >= steps {
            let raise = format!("train.steps={}", step.saturating_mul(2));
            let command = advice::resume(directory.path(), &["--set", &raise]);
            observer.on_message(&format!(
                "the run is finished: it has done {step} of {steps} steps; raise train.steps to go on: {command}"
            ));
        }
        let mut session = Session::new(trainer, directory.clone(), records, observer, held_out, watch)?;
        let end = session.steps(batches, pin!(stop)).await;
        peers.heed(match end {
            Ok(end) => session.finish(end).await,
            Err(error) => Err(error),
        })
    }
}
