//! Configs.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde_json::Value;

use super::errors::{raise, refused};

/// A config that has been checked, and where its keys are written.
#[pyclass(frozen, module = "millstream._millstream")]
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) config: millstream::Config,
    file: Option<PathBuf>,
    over: Value,
    settings: Vec<String>,
}

impl Config {
    /// The error, with the place of its key.
    pub(crate) fn place(&self, error: millstream::Error) -> millstream::Error {
        let millstream::Error::Config { key, .. } = &error else { return error };
        match millstream::Config::locate(&self.over, self.file.as_deref(), &self.settings, key) {
            Ok(Some(place)) => error.at(place),
            // It has been read before. If that fails now, the error says enough without it.
            _ => error,
        }
    }
}

#[pymethods]
impl Config {
    /// Reads the file, if there is one, with the keys of a JSON object over it, and the settings over both.
    #[new]
    #[pyo3(signature = (file, over, settings))]
    fn new(py: Python<'_>, file: Option<PathBuf>, over: &str, settings: Vec<String>) -> PyResult<Self> {
        let over: Value = serde_json::from_str(over).map_err(|e| refused("config", e.to_string()))?;
        let config = millstream::Config::from_value(&over, file.as_deref(), &settings);
        let config = config.map_err(|e| raise(py, &e))?;
        Ok(Self { config, file, over, settings })
    }

    /// All keys, as JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.config).map_err(|e| refused("config", e.to_string()))
    }
}
