//! One rank of a run: opens its trainer and its loader, for a new run or a resume, and drives them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::StreamExt;
use futures::future::{Either, select};

use super::devices::{for_rank, for_whole_run};
use super::proof::with_first_proved;
use super::ready::ready;
use super::session::Session;
use crate::checkpoint::{Checkpoint, folder};
use crate::config::RunConfig;
use crate::directory::RunDirectory;
use crate::events::{Observer, Outcome};
use crate::peers::Peers;
use crate::pretrained::Pretrained;
use crate::trainer::Trainer;
use millstream::ask_hub_with;
use millstream::error::{Error, Result};
use millstream::files::Listing;
use millstream::loader::{Loader, LoaderBuilder, explain};
use millstream::tokenizer::Tokenizer;

/// One rank of a run, before it begins.
#[derive(Clone)]
pub(super) struct Rank {
    /// The config of the whole run.
    pub(super) config: RunConfig,
    pub(super) peers: Peers,
    tokenizer: Arc<dyn Tokenizer>,
    beginning: Beginning,
}

#[derive(Clone)]
pub(super) enum Beginning {
    New { tokenizer_json: Option<String> },
    Resumed { directory: RunDirectory, checkpoint: Box<Checkpoint> },
}

/// A run that is ready for its first step, on one rank.
struct Begun {
    /// The config of the whole run, with the settings from a model of `train.init`.
    config: RunConfig,
    trainer: Trainer,
    loader: Loader,
    directory: RunDirectory,
}

impl Rank {
    /// The rank of this process, as its launcher started it.
    pub(super) fn new(
        config: &RunConfig,
        tokenizer: Arc<dyn Tokenizer>,
        beginning: Beginning,
    ) -> Result<Self> {
        Ok(Self { config: config.clone(), peers: Peers::join(&config.data.pipeline)?, tokenizer, beginning })
    }

    /// The same run, as another rank.
    pub(super) fn with_peers(&self, peers: Peers) -> Self {
        Self { peers, ..self.clone() }
    }

    fn own(&self, config: &RunConfig) -> RunConfig {
        for_rank(config, self.peers.world())
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
        let begun = begun.map_err(|error| for_whole_run(error, &self.config));
        let Begun { config, trainer, loader, directory } = self.peers.agree(begun)?;
        observer.on_open(&loader.watch());
        let (watch, held_out) = (Some(loader.watch()), loader.held_out());
        let held_out = async || match config.data.pipeline.holdout > 0.0 {
            true => held_out.clone().open().await.map(Some),
            false => Ok(None),
        };
        let is_new = matches!(self.beginning, Beginning::New { .. });
        let batches = match is_new && self.peers.is_first() {
            true => with_first_proved(&config.data, loader).await,
            false => loader.boxed(),
        };
        Session::open(trainer, &config, &directory, watch, observer, held_out)?.run(batches, stop).await
    }

    /// Begins a run. The first rank makes the directory.
    async fn begin(
        &self,
        tokenizer_json: Option<&str>,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Begun> {
        ready(&self.config)?;
        ask_hub_with(&self.config.data.store);
        let (config, trainer) = match &self.config.train.init {
            None => (self.config.clone(), Trainer::new(&self.own(&self.config), &*self.tokenizer)?),
            Some(directory) => {
                let pretrained = Pretrained::open(directory)?;
                let config = pretrained.resolve(&self.config)?;
                let trainer = Trainer::from_pretrained(&pretrained, &self.own(&config), &*self.tokenizer)?;
                (config, trainer)
            }
        };
        let builder = Loader::builder(&self.own(&config).data).with_tokenizer(self.tokenizer.clone());
        let loader = opened(builder, stop).await?;
        let directory = match self.peers.is_first() {
            true => RunDirectory::create(&config, tokenizer_json)?,
            false => RunDirectory::unclaimed(&config),
        };
        self.begun(config, trainer, loader, directory)
    }

    /// Continues a run. The first rank claims the directory.
    async fn go_on(
        &self,
        directory: &RunDirectory,
        checkpoint: &Checkpoint,
        observer: &mut dyn Observer,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Begun> {
        let config = &self.config;
        ready(config)?;
        let mut directory = directory.clone();
        if self.peers.is_first() {
            directory = directory.claim()?;
            // Before anything is written: they may fill the disk.
            folder::remove_partial(&directory.checkpoints())?;
        }
        let began = directory.config(&[])?.train.init;
        if config.train.init != began {
            let was = began.map_or("absent".to_owned(), |init| format!("{:?}", init.display().to_string()));
            let problem =
                format!("a run that is resumed has its weights already; leave it as it was ({was})");
            return Err(Error::config("train.init", problem));
        }
        let own = self.own(config);
        let trainer = Trainer::resume(&own, &*self.tokenizer, checkpoint)?;
        observer.on_message(&format!("resuming from {}", checkpoint.path().display()));
        let step = checkpoint.state().step;
        for edit in directory.edits_in_force(step, config)? {
            observer.on_message(&format!("  with {edit}, which was written into the run's config.toml"));
        }
        for (step, setting) in directory.settings_in_force(step, config)? {
            observer.on_message(&format!("  with {setting}, set at step {step}"));
        }
        let mut builder = Loader::builder(&own.data).with_tokenizer(self.tokenizer.clone());
        if let Some(cursor) = trainer.cursor() {
            builder = builder.with_cursor(cursor.clone());
        }
        let loader = match opened(builder, stop).await {
            Ok(loader) => loader,
            Err(error) => match Listing::load(directory.files()) {
                Ok(was) => return Err(explain(error, &was, &own.data).await),
                Err(_) => return Err(error),
            },
        };
        self.begun(config.clone(), trainer, loader, directory)
    }

    /// Saves the list of the files that the run reads, once for all ranks.
    fn begun(
        &self,
        config: RunConfig,
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
