//! The config of a program without the trainer: the loader's part.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use millstream::error::ConfigPlace;
use millstream::{Config, Result};

/// Stands in for the trainer's type of this name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RunConfig {
    pub(crate) data: Config,
}

impl RunConfig {
    pub(crate) fn load_with(path: &Path, settings: &[String]) -> Result<Self> {
        Ok(Self { data: Config::load_with(path, settings)? })
    }

    pub(crate) fn from_toml(text: &str) -> Result<Self> {
        Ok(Self { data: Config::from_toml(text)? })
    }

    pub(crate) fn locate(file: Option<&Path>, settings: &[String], key: &str) -> Result<Option<ConfigPlace>> {
        Config::locate(&json!({}), file, settings, key)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        self.data.validate()
    }

    pub(crate) fn schema() -> Value {
        Config::schema()
    }
}
