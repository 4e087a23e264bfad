//! The config: plain structs, one default each, and one [`validate`](Config::validate).
//!
//! Files are TOML, JSON or YAML by extension. Names are fixed: scripts rely on them.
//!
//! A file's text becomes a `tree` of values, settings change it, and the structs are `fill`ed from it. `keys` says what an
//! unknown key may have meant.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{ConfigPlace, Error, Result};

mod bounds;
mod bytes;
mod fill;
mod keys;
mod mixture;
mod or_auto;
mod packing;
mod pipeline;
#[cfg(feature = "schema")]
mod schema;
mod seconds;
mod source;
mod store;
mod synthetic;
mod tokenizer;
mod tree;

pub use crate::cursor::ExcludedDocument;
pub use crate::custom_format::CustomFormat;
pub use crate::document::Truncate;
pub use bytes::ByteCount;
#[doc(hidden)]
pub use mixture::names;
pub use mixture::{MixtureChange, MixtureConfig};
pub use or_auto::OrAuto;
pub use packing::{PackRule, Packing};
pub use pipeline::{Last, PinConfig, PipelineConfig, ShuffleRule, Uneven};
pub use seconds::Seconds;
pub use source::{
    Border, ChatConfig, CsvConfig, DocumentKind, FimConfig, Learn, OnError, Oversize, SampleConfig, Samples,
    SourceConfig, SourceKind, Task, Texts, TokenCacheConfig, TurnConfig,
};
pub(crate) use source::{Contents, ROLES, day};
pub use store::StoreConfig;
pub(crate) use synthetic::Synthetic;
pub use tokenizer::{LearnConfig, SpecialTokens, TokenizerConfig, TokenizerKind};

/// How a config is read, for a trainer that has tables of its own in the same file. It is no part of the public interface.
#[doc(hidden)]
pub mod reading {
    #[cfg(feature = "schema")]
    pub use super::bounds::describe;
    pub use super::bounds::{Bound, Bounded, COUNT, Limit, NOT_NEGATIVE, Number, POSITIVE, SHARE, require};
    pub use super::fill::{fill, fill_loader};
    pub use super::keys::{Section, did_you_mean, sections};
    #[cfg(feature = "schema")]
    pub use super::schema::schema;
    pub use super::tree::{AnyValue, Tree};
}

use fill::fill_loader;
use tree::Tree;

/// The seed of a config that sets none.
const SEED: u64 = 42;

/// Everything that defines a stream of batches.
///
/// A config in code reads like its TOML. Opening it reports what is wrong with it. A file may be that of a whole run:
/// the tables of a trainer, `[model]` and `[train]`, are its own, and are not read here.
///
/// ```
/// use millstream::prelude::*;
///
/// # #[tokio::main] async fn main() -> Result<()> {
/// let mut config = Config::default().with_source(SourceConfig::text("src/**/*.rs"));
/// config.tokenizer = TokenizerConfig::bytes().with_eos("<|endoftext|>");
/// config.pipeline.seq_len = 256;
/// config.pipeline.batch_size = 8;
/// config.pipeline.lanes = 4.into();
///
/// let mut loader = Loader::open(&config).await?;
/// if let Some(batch) = loader.next().await {
///     assert_eq!(batch?.shape(), [8, 257]);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The seed of every random order and of the model's initial weights.
    pub seed: u64,
    /// Where documents come from.
    #[serde(rename = "source")]
    pub sources: Vec<SourceConfig>,
    /// How much each source contributes.
    pub mixture: MixtureConfig,
    /// What is read but not delivered.
    pub exclude: ExcludeConfig,
    /// How files in object stores and on HTTP servers are read.
    pub store: StoreConfig,
    /// How text becomes ids.
    pub tokenizer: TokenizerConfig,
    /// How ids become batches.
    pub pipeline: PipelineConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: SEED,
            sources: Vec::new(),
            mixture: MixtureConfig::default(),
            exclude: ExcludeConfig::default(),
            store: StoreConfig::default(),
            tokenizer: TokenizerConfig::default(),
            pipeline: PipelineConfig::default(),
        }
    }
}

impl Config {
    /// Reads a config file, TOML, JSON or YAML by its extension, and validates it.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read. [`Error::Config`] if it is not a valid config: the message
    /// names the file, in TOML the line, and the key and, for an unknown key, the one that was probably meant.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &[])
    }

    /// Reads a config file, then applies each `key=value` setting, such as `pipeline.seq_len=100`, and validates
    /// the result.
    ///
    /// A value is read as TOML (`100`, `true`, `"text"`, `[1, 2]`), or as a string if it is not valid TOML.
    /// `source.0.paths` names a key of the first source, and `source.docs.paths` one of the source with the name
    /// `docs`. A setting without a value, `tokenizer.path=`, unsets the key: its default is used again.
    ///
    /// # Errors
    /// Those of [`Config::load`]; also [`Error::Config`] for a setting that is not `key=value`. An error in a
    /// setting names it as the program's option: `--set pipeline.seq_len=0`.
    pub fn load_with(path: impl AsRef<Path>, settings: &[String]) -> Result<Self> {
        Self::from_tree(&Tree::from_file(path.as_ref())?.set(settings)?)
    }

    /// Reads a config from TOML and validates it.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not a valid config.
    ///
    /// ```
    /// let config = millstream::Config::from_toml(
    ///     r#"
    ///     [[source]]
    ///     paths = ["corpus/**/*.txt"]
    ///
    ///     [pipeline]
    ///     batch_size = 8
    ///     "#,
    /// )?;
    /// assert_eq!(config.pipeline.batch_size, 8);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self> {
        Self::from_tree(&Tree::from_toml(text)?)
    }

    /// Reads a config from a JSON object, such as a host language's dict. Its keys are over those of the `file`, if there
    /// is one, and the settings over both. A null unsets a key of the file.
    ///
    /// # Errors
    /// As [`load_with`](Self::load_with). An error in the object names the key alone.
    ///
    /// ```
    /// use serde_json::json;
    ///
    /// let config = millstream::Config::from_value(&json!({ "pipeline": { "batch_size": 8 } }), None, &[])?;
    /// assert_eq!(config.pipeline.batch_size, 8);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn from_value(value: &serde_json::Value, file: Option<&Path>, settings: &[String]) -> Result<Self> {
        Self::from_tree(&tree(value, file, settings)?)
    }

    /// Returns where a key is written, of what [`from_value`](Self::from_value) reads: in the file, or in one of the
    /// settings. A key that is not written has the place of the table around it. `None` for a key of the value, and for one
    /// that configs do not have.
    ///
    /// Use it with [`Error::at`] for errors about a config that was loaded before.
    ///
    /// # Errors
    /// As [`from_value`](Self::from_value), but only for a file that cannot be read and for its syntax. Values are not
    /// checked.
    pub fn locate(
        value: &serde_json::Value,
        file: Option<&Path>,
        settings: &[String],
        key: &str,
    ) -> Result<Option<ConfigPlace>> {
        let tree = tree(value, file, settings)?;
        Ok(tree.locate(key, &keys::sections()))
    }

    fn from_tree(tree: &Tree) -> Result<Self> {
        tree.read(|values| {
            let config = fill_loader(values, keys::sections)?;
            config.validate().map(|()| config)
        })
    }

    /// Adds a source.
    #[must_use]
    pub fn with_source(mut self, source: SourceConfig) -> Self {
        self.sources.push(source);
        self
    }

    /// Sets the seed of every random order and of the model's initial weights.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets how text becomes ids.
    #[must_use]
    pub fn with_tokenizer(self, tokenizer: TokenizerConfig) -> Self {
        Self { tokenizer, ..self }
    }

    /// Sets how ids become batches.
    #[must_use]
    pub fn with_pipeline(self, pipeline: PipelineConfig) -> Self {
        Self { pipeline, ..self }
    }

    /// The sources; synthetic ones without a seed get this config's.
    pub(crate) fn seeded_sources(&self) -> Vec<SourceConfig> {
        self.sources.iter().map(|source| source.with_run_seed(self.seed)).collect()
    }

    /// How many times a source is read; endlessly if `None`.
    pub fn epochs(&self, source: usize) -> Option<u64> {
        match &self.sources[source] {
            // Standard input comes only once.
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
        let lanes = self.pipeline.lanes.or(1);
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
        self.check_ledger_by()?;
        self.exclude.validate()?;
        self.store.validate()?;
        self.tokenizer.validate()?;
        self.pipeline.validate()
    }

    /// Refuses to count by the values of a column that no document has.
    fn check_ledger_by(&self) -> Result<()> {
        let Some(column) = &self.pipeline.ledger_by else { return Ok(()) };
        if self.sources.iter().any(|source| source.columns.contains(column)) {
            return Ok(());
        }
        let columns = self.sources.iter().flat_map(|source| &source.columns).map(String::as_str);
        let advice = keys::did_you_mean(column, columns);
        let advice = advice.unwrap_or_else(|| "add it to the columns of a source".to_owned());
        let problem = format!("no source has the column {column:?}; {advice}");
        Err(Error::config("pipeline.ledger_by", problem))
    }
}

/// What is read but not delivered, for example after a loss spike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ExcludeConfig {
    /// Ranges of batches, `[from, to)`, by their numbers in the whole stream. Later batches keep their
    /// numbers.
    pub batches: Vec<(u64, u64)>,
    /// Documents that give no ids, from the place where the stream is opened.
    pub documents: Vec<ExcludedDocument>,
}

impl ExcludeConfig {
    pub(super) fn validate(&self) -> Result<()> {
        let mut end = 0;
        for (index, &(from, to)) in self.batches.iter().enumerate() {
            if from >= to || from < end {
                return Err(Error::config(
                    format!("exclude.batches.{index}"),
                    format!(
                        "must be a first batch and one after the last, behind the ranges before it, not [{from}, {to}]"
                    ),
                ));
            }
            end = to;
        }
        Ok(())
    }
}

/// The values of the file, with the caller's over them and the settings over both.
fn tree(value: &serde_json::Value, file: Option<&Path>, settings: &[String]) -> Result<Tree> {
    file.map_or_else(|| Tree::from_toml(""), Tree::from_file)?.with(value)?.set(settings)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;

    /// Checks that these values are written so, and that others are refused with this message.
    fn written<T: PartialEq + Debug + Serialize + DeserializeOwned>(
        cases: &[(&str, T)],
        wrong: &[&str],
        message: &str,
    ) {
        for (text, value) in cases {
            assert_eq!(serde_json::from_str::<T>(text).unwrap(), *value);
            assert_eq!(serde_json::to_string(value).unwrap(), *text);
        }
        for wrong in wrong {
            let error = serde_json::from_str::<T>(wrong).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn words_stand_beside_other_values() {
        let cases = [("3", OrAuto::from(3)), ("\"auto\"", OrAuto::Auto)];
        written(&cases, &["-1", "1.5", "\"many\"", "true"], "at least 1, or \"auto\"");
        assert_eq!(cases.map(|(_, value)| value.to_string()), ["3", "auto"]);
        let cases = [
            ("\"off\"", PinConfig::Off),
            ("\"auto\"", PinConfig::Auto),
            ("[0,3]", PinConfig::Cores(vec![0, 3])),
        ];
        written(&cases, &["3", "\"on\"", "true", "[-1]"], "\"off\", \"auto\", or a list of cores");
        let user = vec!["user".to_owned()];
        let cases = [("\"all\"", Learn::All), ("\"last\"", Learn::Last), ("[\"user\"]", Learn::Roles(user))];
        written(&cases, &["\"first\""], "must be \"all\", \"last\", or a list of roles");
    }
}
