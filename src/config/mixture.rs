//! `[mixture]`: how much each source contributes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SourceConfig;
use super::bounds::{Bounded, Limit, Number, POSITIVE, WEIGHT, require};
use crate::error::{Error, Result};

mod by;

/// How the sources' weights become shares, and when they change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = super::bounds::describe::<MixtureConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct MixtureConfig {
    /// Weights are raised to the power of 1/temperature: above 1, small sources come more often.
    pub temperature: f64,
    /// A column or field, such as `lang`: documents with one value of it are mixed as a source of their own, with that
    /// value's weight. They are chosen as by `where`, so each value reads the files for itself. There is one `[[source]]`
    /// then, without a weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The weights of that column's values; documents with other values are left out. If the column has numbers, or true
    /// and false, they are read as that.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, f64>,
    /// Changes of the weights, each from a batch on.
    pub changes: Vec<MixtureChange>,
    /// The column of `by`, once each of its values has a source.
    #[serde(skip)]
    pub(crate) was_by: Option<String>,
}

/// New weights from a batch on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MixtureChange {
    /// The first batch with these weights.
    pub batch: u64,
    /// The weights of all sources, by name; with `by` those of all values.
    pub weights: BTreeMap<String, f64>,
}

impl Default for MixtureConfig {
    fn default() -> Self {
        Self { temperature: 1.0, by: None, weights: BTreeMap::new(), changes: Vec::new(), was_by: None }
    }
}

impl Bounded for MixtureConfig {
    const BOUNDS: &'static [Limit<Self>] =
        &[("temperature", POSITIVE, |mixture| mixture.temperature.number())];
}

impl MixtureConfig {
    pub(super) fn validate(&self, sources: &[SourceConfig]) -> Result<()> {
        self.check_bounds("mixture")?;
        let names = names(sources);
        for (index, name) in names.iter().enumerate() {
            let key = format!("source.{index}.name");
            require(
                !name.is_empty() && !name.contains('.'),
                &key,
                format!("{name:?}"),
                "a word without a dot",
            )?;
            if names[..index].contains(name) {
                let problem = format!("two sources are called {name:?}; each source needs a different name");
                return Err(Error::config(key, problem));
            }
        }
        let weighted = sources.iter().filter(|source| source.weight.is_some()).count();
        if weighted != 0 && weighted != sources.len() {
            let without = sources.iter().position(|source| source.weight.is_none()).unwrap_or_default();
            let problem = "other sources have a weight, and this one has none; give all of them one, or none";
            return Err(Error::config(format!("source.{without}.weight"), problem));
        }
        if weighted > 0 {
            let weights = sources.iter().map(|source| source.weight.unwrap_or_default());
            check_weights("source.0.weight", weights)?;
        }
        let mut last = None;
        for (index, change) in self.changes.iter().enumerate() {
            let key = format!("mixture.changes.{index}");
            if last >= Some(change.batch) {
                let problem = format!("must be later than the change before it, not {}", change.batch);
                return Err(Error::config(format!("{key}.batch"), problem));
            }
            last = Some(change.batch);
            if let Some(unknown) = change.weights.keys().find(|name| !names.contains(name)) {
                let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                let problem =
                    format!("no source is called {unknown:?}; they are called {}", names.join(", "));
                return Err(Error::config(format!("{key}.weights"), problem));
            }
            if let Some(name) = names.iter().find(|name| !change.weights.contains_key(*name)) {
                let problem = format!("there is no weight for source {name:?}; give it one, 0 for no rows");
                return Err(Error::config(format!("{key}.weights"), problem));
            }
            check_weights(&format!("{key}.weights"), change.weights.values().copied())?;
        }
        Ok(())
    }
}

fn check_weights(key: &str, weights: impl Iterator<Item = f64>) -> Result<()> {
    let mut sum = 0.0;
    for weight in weights {
        WEIGHT.check(key, weight)?;
        sum += weight;
    }
    if sum > 0.0 { Ok(()) } else { Err(Error::config(key, "all weights are 0; one must be above it")) }
}

/// The sources' names; a source without one is called by its number.
pub fn names(sources: &[SourceConfig]) -> Vec<String> {
    let sources = sources.iter().enumerate();
    sources.map(|(index, source)| source.name.clone().unwrap_or_else(|| index.to_string())).collect()
}
