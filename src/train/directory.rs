//! A run's directory: the resolved config, the tokenizer, the metrics, the trail of cursors and the checkpoints.

use std::path::{Path, PathBuf};

use burn::module::Module;

use super::checkpoint::Checkpoint;
use super::{device, model::Gpt};
use crate::atomic::write_atomically;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

const CONFIG: &str = "config.toml";
const TOKENIZER: &str = "tokenizer.json";

/// `train.out`: all that a run leaves, and all that resuming it or using its model needs.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    root: PathBuf,
}

impl RunDirectory {
    /// The directory of a new run: writes its config and, if it has one, the `tokenizer.json` of its ids.
    ///
    /// # Errors
    /// [`Error::Config`] if there are checkpoints of another run in it, [`Error::Io`] if it cannot be written.
    pub fn create(config: &Config, tokenizer_json: Option<&str>) -> Result<Self> {
        let run = Self::vacant(config)?;
        if let Some(json) = tokenizer_json {
            write_atomically(&run.tokenizer(), json.as_bytes())?;
        }
        let toml = toml::to_string_pretty(config).map_err(|e| Error::config(CONFIG, e.to_string()))?;
        write_atomically(&run.root.join(CONFIG), toml.as_bytes())?;
        Ok(run)
    }

    /// The directory that a new run would have; nothing is written.
    ///
    /// # Errors
    /// [`Error::Config`] if there are checkpoints of another run in it.
    pub fn vacant(config: &Config) -> Result<Self> {
        let run = Self { root: config.train.out.clone() };
        match Checkpoint::latest(&run.checkpoints())? {
            None => Ok(run),
            Some(_) => Err(Error::config(
                "train.out",
                format!(
                    "{out} holds the checkpoints of a run; go on with `millstream train --resume {out}`, \
                     or set another train.out",
                    out = run.root.display()
                ),
            )),
        }
    }

    /// The directory of a run that was begun.
    ///
    /// # Errors
    /// [`Error::Config`] if it is none.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        match root.join(CONFIG).is_file() {
            true => Ok(Self { root }),
            false => Err(Error::config(
                root.display().to_string(),
                format!("this is no run's directory: it has no {CONFIG}; name the train.out of a run"),
            )),
        }
    }

    /// The run's config, and each `key=value` over it. Its `train.out` and, if the run keeps its tokenizer, its
    /// `tokenizer.path` are those of the directory, wherever that was moved.
    ///
    /// # Errors
    /// As [`Config::load_with`].
    pub fn config(&self, settings: &[String]) -> Result<Config> {
        Ok(self.adopt(Config::load_with(self.root.join(CONFIG), settings)?))
    }

    /// Another config for this run: with the directory's own `train.out` and tokenizer.
    pub fn adopt(&self, mut config: Config) -> Config {
        config.train.out = self.root.clone();
        if self.tokenizer().is_file() {
            config.tokenizer = config.tokenizer.with_json(self.tokenizer());
        }
        config
    }

    /// The newest whole checkpoint.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none, and as [`Checkpoint::open`].
    pub fn latest(&self) -> Result<Checkpoint> {
        Checkpoint::latest(&self.checkpoints())?.ok_or_else(|| {
            Error::config(
                self.root.display().to_string(),
                "the run has no whole checkpoint; start it anew, without resuming",
            )
        })
    }

    /// The model of the newest checkpoint, for [`generate`](super::generate::generate), on the config's device.
    ///
    /// # Errors
    /// As [`latest`](Self::latest), and for a device or a file that cannot be used.
    pub fn model(&self, config: &Config, tokenizer: &dyn Tokenizer) -> Result<Gpt> {
        let checkpoint = self.latest()?;
        let device = device::open(&config.train)?;
        let vocab = tokenizer.vocab_size();
        let model = Gpt::new(&config.model, vocab, config.pipeline.seq_len, config.seed, &device);
        Ok(checkpoint.model(model)?.valid())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Where the checkpoints are.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// Where the metrics are.
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// Where the [trail](crate::trail) of cursors is.
    pub fn trail(&self) -> PathBuf {
        self.root.join("cursors.jsonl")
    }

    /// Where the tokenizer is, if the run keeps one.
    pub fn tokenizer(&self) -> PathBuf {
        self.root.join(TOKENIZER)
    }
}
