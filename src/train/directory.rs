//! A run's directory: the resolved config, the tokenizer, the metrics, the trail of cursors and the checkpoints.

use std::borrow::Cow;
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

/// `train.out`: everything that a run writes, and everything needed to resume it or use its model.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    root: PathBuf,
}

impl RunDirectory {
    /// Creates the directory of a new run, and writes its config and, if there is one, its `tokenizer.json`.
    ///
    /// # Errors
    /// [`Error::Config`] if it already has another run's checkpoints, [`Error::Io`] if it cannot be written.
    pub fn create(config: &Config, tokenizer_json: Option<&str>) -> Result<Self> {
        let run = Self::vacant(config)?;
        if let Some(json) = tokenizer_json {
            write_atomically(&run.tokenizer(), json.as_bytes())?;
        }
        let toml = toml::to_string_pretty(config).map_err(|e| Error::config(CONFIG, e.to_string()))?;
        write_atomically(&run.root.join(CONFIG), toml.as_bytes())?;
        Ok(run)
    }

    /// Returns the directory that a new run would use; writes nothing.
    ///
    /// # Errors
    /// [`Error::Config`] if it already has another run's checkpoints.
    pub fn vacant(config: &Config) -> Result<Self> {
        let run = Self { root: config.train.out.clone() };
        match Checkpoint::latest(&run.checkpoints())? {
            None => Ok(run),
            Some(_) => {
                let out = run.root.to_string_lossy();
                // Quoted for a shell, whatever the name is.
                let quoted = shlex::try_quote(&out).unwrap_or(Cow::Borrowed(&out));
                let problem = format!(
                    "{out} holds the checkpoints of a run; go on with `millstream train --resume {quoted}`, or set \
                     another train.out"
                );
                Err(Error::config("train.out", problem))
            }
        }
    }

    /// Opens the directory of an existing run.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not a run directory.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        match root.join(CONFIG).is_file() {
            true => Ok(Self { root }),
            false => Err(Error::config(
                root.display().to_string(),
                format!("this is not a run's directory: it has no {CONFIG}; name the train.out of a run"),
            )),
        }
    }

    /// Loads the run's config, and applies each `key=value` on top. `train.out` and, if the run keeps its tokenizer,
    /// `tokenizer.path` point into this directory, even if it was moved.
    ///
    /// # Errors
    /// As [`Config::load_with`].
    pub fn config(&self, settings: &[String]) -> Result<Config> {
        Ok(self.adopt(Config::load_with(self.config_file(), settings)?))
    }

    /// Adapts another config to this run: it gets this directory's `train.out` and tokenizer.
    pub fn adopt(&self, mut config: Config) -> Config {
        config.train.out = self.root.clone();
        if self.tokenizer().is_file() {
            config.tokenizer = config.tokenizer.with_json(self.tokenizer());
        }
        config
    }

    /// Returns the newest complete checkpoint.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none, and the errors of [`Checkpoint::open`].
    pub fn latest(&self) -> Result<Checkpoint> {
        Checkpoint::latest(&self.checkpoints())?.ok_or_else(|| {
            Error::config(
                self.root.display().to_string(),
                "the run has no complete checkpoint; start it again, without resuming",
            )
        })
    }

    /// Loads the model of the newest checkpoint, for [`generate`](super::generate::generate), on the config's device.
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

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The path of the run's config.
    pub fn config_file(&self) -> PathBuf {
        self.root.join(CONFIG)
    }

    /// The path of the checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The path of the metrics.
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The path of the [trail](crate::trail) of cursors.
    pub fn trail(&self) -> PathBuf {
        self.root.join("cursors.jsonl")
    }

    /// The path of the [listing](crate::files::Listing) of the files that the run reads.
    pub fn files(&self) -> PathBuf {
        self.root.join("files.jsonl")
    }

    /// The path of the tokenizer, if the run keeps one.
    pub fn tokenizer(&self) -> PathBuf {
        self.root.join(TOKENIZER)
    }
}
