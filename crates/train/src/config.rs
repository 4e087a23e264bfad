//! The config of a run: the loader's, with `[model]` and `[train]` beside its tables.

use std::path::Path;

use millstream::Config;
use millstream::config::reading::{self, AnyValue, Section, Tree};
use millstream::error::{ConfigPlace, Error, Result};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

mod lora;
mod model;
mod train;

pub use lora::{LoraConfig, LoraTargets, Projection};
pub use model::{Activation, ModelConfig, RopeKind, RopeScaling};
#[doc(hidden)]
pub use train::DEVICES;
pub(crate) use train::SOURCE;
pub use train::{OptimizerKind, Precision, Schedule, TrainConfig};

/// Everything that defines a run: the batches, the model, and how it is trained.
///
/// In a file the loader's tables stand at the top, beside `[model]` and `[train]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(default)]
pub struct RunConfig {
    /// The loader's config.
    #[serde(flatten)]
    pub data: Config,
    /// The model that is trained.
    pub model: ModelConfig,
    /// How the model is trained.
    pub train: TrainConfig,
}

impl RunConfig {
    /// Trains the default model on the batches of `data`.
    ///
    /// ```
    /// use millstream::Config;
    /// use millstream::config::SourceConfig;
    /// use millstream_train::RunConfig;
    ///
    /// let mut config = RunConfig::new(Config::default().with_source(SourceConfig::text("src/**/*.rs")));
    /// config.data.pipeline.seq_len = 256;
    /// config.train.steps = 100;
    /// ```
    pub fn new(data: Config) -> Self {
        Self { data, ..Self::default() }
    }

    /// Reads a config file, as [`Config::load`] does.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &[])
    }

    /// Reads a config file with `key=value` settings over it, such as `train.steps=100`, as [`Config::load_with`] does.
    ///
    /// # Errors
    /// As [`Config::load_with`].
    pub fn load_with(path: impl AsRef<Path>, settings: &[String]) -> Result<Self> {
        Self::from_tree(&Tree::from_file(path.as_ref())?.set(settings)?)
    }

    /// As [`load_with`](Self::load_with), but a key that is neither in the file nor in a setting is as in `base` instead of
    /// the default.
    ///
    /// # Errors
    /// As [`Config::load_with`].
    pub fn load_over(path: impl AsRef<Path>, settings: &[String], base: &Self) -> Result<Self> {
        Self::from_tree(&Tree::from_file(path.as_ref())?.set(settings)?.over(base)?)
    }

    /// Reads a config from TOML, as [`Config::from_toml`] does.
    ///
    /// # Errors
    /// As [`Config::from_toml`].
    pub fn from_toml(text: &str) -> Result<Self> {
        Self::from_tree(&Tree::from_toml(text)?)
    }

    /// This config with `key=value` settings, as [`load_with`](Self::load_with) applies them to a file.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting is wrong.
    pub fn with_settings(&self, settings: &[String]) -> Result<Self> {
        Self::from_tree(&Tree::from_toml("")?.set(settings)?.over(self)?)
    }

    /// Returns where a key is written, as [`Config::locate`] does: in the file, or in one of the settings.
    ///
    /// # Errors
    /// As [`Config::locate`].
    pub fn locate(file: Option<&Path>, settings: &[String], key: &str) -> Result<Option<ConfigPlace>> {
        let tree = file.map_or_else(|| Tree::from_toml(""), Tree::from_file)?.set(settings)?;
        Ok(tree.locate(key, &sections()))
    }

    /// The JSON Schema of config files: draft 7, which editors read for TOML, YAML and JSON.
    #[cfg(feature = "schema")]
    pub fn schema() -> Value {
        reading::schema::<Self>()
    }

    fn from_tree(tree: &Tree) -> Result<Self> {
        tree.read(|values| {
            let config = Self::fill(values)?;
            config.validate().map(|()| config)
        })
    }

    fn fill(values: &Value) -> Result<Self> {
        let data = reading::fill_loader(values, sections)?;
        let Trained { model, train } = reading::fill(values, sections)?;
        Ok(Self { data, model, train })
    }

    /// Sets the model that is trained.
    #[must_use]
    pub fn with_model(self, model: ModelConfig) -> Self {
        Self { model, ..self }
    }

    /// Checks every value against its bounds. The error names the key, the value and the bound. With `train.init`,
    /// `[model]` is checked against the directory that it names instead, when training starts.
    ///
    /// # Errors
    /// [`Error::Config`] with the first key that is wrong.
    pub fn validate(&self) -> Result<()> {
        self.data.validate()?;
        if self.train.init.is_none() {
            self.model.validate()?;
        }
        self.train.validate()?;
        self.check_loss_by()
    }

    /// Refuses a name in `train.loss_by` that no document has a value for, or that is there twice.
    fn check_loss_by(&self) -> Result<()> {
        let names = &self.train.loss_by;
        for (at, name) in names.iter().enumerate() {
            let problem = if names[..at].contains(name) {
                format!("{name:?} is named twice; name it once")
            } else if name == SOURCE || self.has_column(name) {
                continue;
            } else {
                let columns = self.data.sources.iter().flat_map(|source| &source.columns).map(String::as_str);
                let advice = reading::did_you_mean(name, columns.chain([SOURCE])).unwrap_or_else(|| {
                    format!(
                        "add it to the `columns` of the sources that have it, or name {SOURCE:?} for the loss of each \
                         [[source]]"
                    )
                });
                format!("no source has the column {name:?}; {advice}")
            };
            return Err(Error::config("train.loss_by", problem));
        }
        Ok(())
    }

    fn has_column(&self, name: &String) -> bool {
        self.data.sources.iter().any(|source| source.columns.contains(name))
    }
}

impl<'de> Deserialize<'de> for RunConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let AnyValue(values) = AnyValue::deserialize(deserializer)?;
        Self::fill(&values).map_err(de::Error::custom)
    }
}

/// The trainer's tables, among others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Trained {
    model: ModelConfig,
    train: TrainConfig,
}

/// Every section of the config with its keys.
fn sections() -> Vec<Section> {
    let mut sections = reading::sections();
    sections.extend([
        Section::bounded::<ModelConfig>("model"),
        Section::bounded::<RopeScaling>("model.rope_scaling"),
        Section::bounded::<TrainConfig>("train"),
        Section::bounded::<LoraConfig>("train.lora"),
    ]);
    sections
}
