//! `mixture.by`: each value of a column is mixed as a source of its own.

use std::collections::BTreeMap;

use super::{MixtureChange, MixtureConfig, check_weights};
use crate::config::{Config, SourceConfig};
use crate::error::{Error, Result};

impl Config {
    /// The same config with a source for each value of the column that `mixture.by` names: that of the config, reduced by
    /// `where` to the documents with this value. Without that key nothing changes. Configs that are read from files, and
    /// those that a loader is built from, go through it.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no source to take apart, or more than one, or if no value has a weight.
    pub fn with_sources_by_value(self) -> Result<Self> {
        let MixtureConfig { by, weights, changes, temperature, was_by } = self.mixture;
        let Some(by) = by else {
            if !weights.is_empty() {
                let problem = "they are the weights of a column's values, and no column is named; name it in \
                               mixture.by, or give each source a weight";
                return Err(Error::config("mixture.weights", problem));
            }
            return Ok(Self { mixture: MixtureConfig { by, weights, changes, temperature, was_by }, ..self });
        };
        let [source] = &self.sources[..] else {
            let problem = format!(
                "it takes one source apart by {by:?}, and there are {}; leave it out, or name all paths in one source",
                self.sources.len()
            );
            return Err(Error::config("mixture.by", problem));
        };
        if !source.kind.takes("where") {
            let problem = format!(
                "a source of kind {} has no columns; give each set of files a [[source]]",
                source.kind
            );
            return Err(Error::config("mixture.by", problem));
        }
        if source.name.is_some() || source.weight.is_some() {
            let problem = "a source that mixture.by takes apart has the values' names and weights; remove it";
            let key = if source.name.is_some() { "source.0.name" } else { "source.0.weight" };
            return Err(Error::config(key, problem));
        }
        if weights.is_empty() {
            let problem =
                format!("no value of {by:?} has a weight; give some, such as {{ en = 3.0, de = 1.0 }}");
            return Err(Error::config("mixture.weights", problem));
        }
        check_weights("mixture.weights", weights.values().copied())?;
        for value in weights.keys() {
            let problem = match weights.keys().find(|other| *other != value && are_one(value, other)) {
                _ if value.is_empty() => {
                    "a value is empty, and its source would have no name; choose such documents with \
                                          where, in a mixture of two sources"
                        .to_owned()
                }
                Some(other) => format!(
                    "the values {value:?} and {other:?} would be one source; mix them as two sources, each with its where"
                ),
                None => continue,
            };
            return Err(Error::config("mixture.weights", problem));
        }
        let of_value = |(value, weight): (&String, &f64)| {
            // Constant text is read as a number, or as true or false, if the column is that.
            let equal = format!("{} = {}", quoted(&by, '"'), quoted(value, '\''));
            // A comment may end the other filter.
            let both = |filter: &String| format!("({filter}\n) and {equal}");
            let filter = Some(source.filter.as_ref().map_or_else(|| equal.clone(), both));
            SourceConfig { name: Some(name_of(value)), weight: Some(*weight), filter, ..source.clone() }
        };
        let sources = weights.iter().map(of_value).collect();
        let renamed = |change: MixtureChange| MixtureChange {
            weights: change.weights.into_iter().map(|(value, weight)| (name_of(&value), weight)).collect(),
            ..change
        };
        let changes = changes.into_iter().map(renamed).collect();
        let mixture =
            MixtureConfig { by: None, weights: BTreeMap::new(), changes, temperature, was_by: Some(by) };
        Ok(Self { sources, mixture, ..self })
    }
}

/// Whether two values would have sources of one name, or with the same documents of a column of numbers.
fn are_one(value: &str, other: &str) -> bool {
    let number = |value: &str| value.parse::<f64>().ok();
    name_of(value) == name_of(other) || number(value).is_some_and(|one| number(other) == Some(one))
}

/// The name of a value's source: names have no dots, and directories of token shards are called by them.
fn name_of(value: &str) -> String {
    value.replace(['.', '/', '\\'], "_")
}

/// A name or a text of SQL.
fn quoted(text: &str, mark: char) -> String {
    format!("{mark}{}{mark}", text.replace(mark, &format!("{mark}{mark}")))
}
