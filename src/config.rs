//! The config: plain structs, one default each, and one [`validate`](Config::validate).
//!
//! Files are TOML, JSON or YAML by extension. Names are fixed: scripts rely on them.

use std::num::NonZeroUsize;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

mod bytes;
mod exclude;
mod mixture;
mod model;
mod or_auto;
mod packing;
mod parse;
mod pipeline;
mod source;
mod store;
mod tokenizer;
mod train;

pub use crate::cursor::ExcludedDocument;
pub use bytes::ByteCount;
pub use exclude::ExcludeConfig;
pub(crate) use mixture::names;
pub use mixture::{MixtureChange, MixtureConfig};
pub use model::{Activation, ModelConfig};
pub use or_auto::OrAuto;
pub use packing::{Pack, Packing};
pub use pipeline::{Last, PipelineConfig, Uneven};
pub(crate) use source::STDIN;
pub use source::{DocumentKind, OnError, Oversize, SampleConfig, SourceConfig, SourceKind, TokenCacheConfig};
pub use store::StoreConfig;
pub use tokenizer::{LearnConfig, SpecialTokens, TokenizerConfig, TokenizerKind};
pub use train::{Precision, TrainConfig};

/// Everything that a run is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What every order, and the model's first weights, are drawn from.
    pub seed: u64,
    /// Where documents come from.
    #[serde(rename = "source")]
    pub sources: Vec<SourceConfig>,
    /// How much of each source.
    pub mixture: MixtureConfig,
    /// What is left out.
    pub exclude: ExcludeConfig,
    /// How files are read that do not lie on this machine.
    pub store: StoreConfig,
    /// How text becomes ids.
    pub tokenizer: TokenizerConfig,
    /// How ids become batches.
    pub pipeline: PipelineConfig,
    /// The model that is trained.
    pub model: ModelConfig,
    /// How it is trained.
    pub train: TrainConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 42,
            sources: Vec::new(),
            mixture: MixtureConfig::default(),
            exclude: ExcludeConfig::default(),
            store: StoreConfig::default(),
            tokenizer: TokenizerConfig::default(),
            pipeline: PipelineConfig::default(),
            model: ModelConfig::default(),
            train: TrainConfig::default(),
        }
    }
}

impl Config {
    /// Reads a config file, TOML, JSON or YAML by its extension, and validates it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Config`] if it is no config: the message names the
    /// key, and for an unknown one the nearest that exists.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &[])
    }

    /// Reads a config file and then sets each `key=value`, such as `train.steps=100`, over it.
    ///
    /// A value is read as TOML (`100`, `true`, `"text"`, `[1, 2]`) and taken as a string if it is none.
    /// `source.0.paths` names a key of the first source.
    ///
    /// # Errors
    /// As [`Config::load`]; a setting that is no `key=value` is an [`Error::Config`] too.
    pub fn load_with(path: impl AsRef<Path>, settings: &[String]) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, "read the config", e))?;
        let mut value = parse::value(path, &text)?;
        for setting in settings {
            parse::set(&mut value, setting)?;
        }
        let config: Self = parse::config(value)?;
        config.validate()?;
        Ok(config)
    }

    /// How many times a source is read; endless if `None`.
    pub(crate) fn epochs(&self, source: usize) -> Option<u64> {
        match &self.sources[source] {
            // It comes only once.
            stdin if stdin.is_stdin() => Some(1),
            source => source.epochs.or(self.pipeline.epochs),
        }
    }

    /// Checks every value against its bounds. The error names the key, the value and the bound.
    pub fn validate(&self) -> Result<()> {
        for (index, source) in self.sources.iter().enumerate() {
            source.validate(&format!("source.{index}"))?;
        }
        let unweighted = |source: &SourceConfig| source.is_stdin() && source.weight.is_none();
        if self.sources.len() > 1
            && let Some(index) = self.sources.iter().position(unweighted)
        {
            let problem = "standard input has no length to be mixed by; give each source a weight";
            return Err(Error::config(format!("source.{index}.weight"), problem));
        }
        let lanes = self.pipeline.lanes.or(NonZeroUsize::MIN).get();
        if lanes > 1 && self.sources.iter().any(SourceConfig::is_stdin) {
            let problem = format!("{lanes} lanes, and standard input is one; set it to 1");
            return Err(Error::config("pipeline.lanes", problem));
        }
        let again = |source: &SourceConfig| {
            source.is_stdin() && source.epochs.or(self.pipeline.epochs).is_some_and(|epochs| epochs > 1)
        };
        if let Some(index) = self.sources.iter().position(again) {
            let problem = "standard input comes only once, and pipeline.epochs is more; set it to 1";
            return Err(Error::config(format!("source.{index}.epochs"), problem));
        }
        self.mixture.validate(&self.sources)?;
        if self.pipeline.batch_tokens.is_some() && !self.mixture.changes.is_empty() {
            let problem = "weights cannot change at a batch where pipeline.batch_tokens makes batches of rows of many \
                           turns; leave one of them out";
            return Err(Error::config("mixture.changes", problem));
        }
        self.exclude.validate()?;
        self.store.validate()?;
        self.tokenizer.validate()?;
        self.pipeline.validate()?;
        self.model.validate()?;
        self.train.validate()
    }
}

/// An [`Error::Config`] unless `holds`.
fn require(holds: bool, key: &str, value: impl std::fmt::Display, bound: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::config(key, format!("{value} must be {bound}"))) }
}
