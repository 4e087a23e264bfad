//! Keeps the settings that a run was resumed with, each with its first step.
//!
//! The run's `.config.toml` stays as the run began. A line of `settings.jsonl` has the changes of a resume, as `--set`
//! takes them: `{"step":1000,"batch":1003,"set":["train.steps=3000"]}`. Going back before a step drops its settings.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Value;

use super::lines;
use crate::config::RunConfig;
use millstream::atomic::write_atomically;
use millstream::error::{Error, Result};

/// The changes of one resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// The step of the checkpoint that was resumed.
    step: u64,
    /// The first batch behind it. Batches that no step used may come before it.
    batch: u64,
    /// Each `key=value`.
    set: Vec<String>,
}

/// All changes, in order.
#[derive(Debug)]
pub(super) struct ResumeSettings {
    path: PathBuf,
    changes: Vec<Change>,
}

impl ResumeSettings {
    /// Reads the file at `path`, if there is one.
    pub(super) fn load(path: PathBuf) -> Result<Self> {
        let text = lines::read(&path)?;
        let change = |(line, text)| serde_json::from_str(text).map_err(|e| damaged(&path, line, &e));
        let changes = (1..).zip(text.lines()).map(change).collect::<Result<_>>()?;
        Ok(Self { path, changes })
    }

    /// The settings in force at `step`, each with its first step; later ones override earlier ones.
    pub(super) fn in_force(&self, step: u64) -> Vec<(u64, String)> {
        settings(self.changes.iter().filter(|change| change.step <= step)).collect()
    }

    /// The sessions that changed something, in order: the step and the batch that each continued from, and the settings in
    /// force then.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (u64, u64, Vec<String>)> {
        (1..=self.changes.len()).map(|count| {
            let (before, Change { step, batch, .. }) = (&self.changes[..count], &self.changes[count - 1]);
            (*step, *batch, settings(before.iter()).map(|(_, setting)| setting).collect())
        })
    }

    /// Adds settings that hold from `step` and `batch` on, and drops those of later steps. Writes the file if it changes.
    pub(super) fn set_from(mut self, step: u64, batch: u64, set: Vec<String>) -> Result<()> {
        let before = self.changes.len();
        self.changes.retain(|change| change.step <= step);
        if set.is_empty() && self.changes.len() == before {
            return Ok(());
        }
        if !set.is_empty() {
            self.changes.push(Change { step, batch, set });
        }
        let mut text = Vec::new();
        for change in &self.changes {
            serde_json::to_writer(&mut text, change)
                .map_err(|e| Error::io(&self.path, "write the run's settings", e.into()))?;
            text.push(b'\n');
        }
        write_atomically(&self.path, &text)
    }
}

/// The settings of these changes, each with its step.
fn settings<'a>(changes: impl Iterator<Item = &'a Change>) -> impl Iterator<Item = (u64, String)> {
    changes.flat_map(|change| change.set.iter().map(|setting| (change.step, setting.clone())))
}

fn damaged(path: &Path, line: u64, error: &serde_json::Error) -> Error {
    let problem = format!(
        "line {line} is not one of a run's settings: {error}; correct it, or remove the file and give the settings again"
    );
    Error::config(path.display().to_string(), problem)
}

/// The settings that turn `before` into `after`.
///
/// # Errors
/// [`Error::Config`] for a value that TOML cannot hold.
pub(super) fn differences(before: &RunConfig, after: &RunConfig) -> Result<Vec<String>> {
    let value =
        |config: &RunConfig| Value::try_from(config).map_err(|e| Error::config("config", e.to_string()));
    let mut settings = Vec::new();
    compare("", &value(before)?, &value(after)?, &mut settings);
    Ok(settings)
}

/// Goes as deep as keys can be set and unset one by one.
fn compare(key: &str, before: &Value, after: &Value, settings: &mut Vec<String>) {
    let under = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match (before, after) {
        _ if before == after => {}
        (Value::Table(before), Value::Table(after))
            if (is_section(key) || before.keys().eq(after.keys()))
                && before.keys().chain(after.keys()).all(|key| is_plain(key)) =>
        {
            for (name, value) in after {
                match before.get(name) {
                    Some(before) => compare(&under(name), before, value, settings),
                    None => settings.push(format!("{}={value}", under(name))),
                }
            }
            let unset = before.keys().filter(|name| !after.contains_key(*name));
            settings.extend(unset.map(|name| format!("{}=", under(name))));
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            before.iter().zip(after).enumerate().for_each(|(at, (before, after))| {
                compare(&under(&at.to_string()), before, after, settings);
            });
        }
        _ => settings.push(format!("{key}={after}")),
    }
}

/// Whether a key is that of a table with keys of its own: the whole config, a section such as `train`, or a source.
fn is_section(key: &str) -> bool {
    let parts = key.split('.').count();
    parts == 1 || parts == 2 && key.starts_with("source.")
}

/// Whether a name can be a part of a dotted key.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> RunConfig {
        RunConfig::from_toml(text).expect("a config")
    }

    /// The settings between two configs: a file with the first config and these settings turns into the second.
    fn settings(before: &str, after: &str) -> Vec<String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("config.toml");
        let settings = differences(&config(before), &config(after)).expect("settings");
        std::fs::write(&path, toml::to_string(&config(before)).expect("TOML")).expect("written");
        assert_eq!(RunConfig::load_with(&path, &settings).expect("a config"), config(after), "{settings:?}");
        settings
    }

    #[test]
    fn differences_are_settings_that_make_one_config_of_another() {
        let base = "[[source]]\npaths = [\"a\"]\n[train]\nsteps = 10\n";
        assert_eq!(settings(base, base), [""; 0]);
        assert_eq!(settings(base, &format!("{base}lr = 0.5\n")), ["train.lr=0.5"]);
        assert_eq!(
            settings(base, &format!("{base}prompt = \"it's \\\"a\\\"\\n= b\"\n")).len(),
            1,
            "quotes and line ends"
        );
        assert_eq!(
            settings(base, "[[source]]\npaths = [\"b\"]\n[train]\nsteps = 10\n"),
            ["source.0.paths.0=\"b\""]
        );
        // A key that was not there, or is gone.
        let peak = format!("{base}peak_tflops = 0.5\n");
        assert_eq!(settings(base, &peak), ["train.peak_tflops=0.5"]);
        assert_eq!(settings(&peak, base), ["train.peak_tflops="]);
        let weighted = base.replace("[train]", "weight = 2\n[train]");
        assert_eq!(settings(base, &weighted), ["source.0.weight=2.0"]);
        assert_eq!(settings(&weighted, base), ["source.0.weight="]);
        let learned = format!("{base}[tokenizer]\nkind = \"subwords\"\ntrain = {{ vocab_size = 300 }}\n");
        settings(base, &learned);
        settings(&learned, base);
        // A key that is gone, a table instead of a word, and another number of sources.
        settings(&format!("seed = 1\n{base}\n[pipeline]\nepochs = 2\n"), base);
        let skip = base.replace("[train]", "on_error = { skip = 3 }\n[train]");
        settings(base, &skip);
        settings(&skip, base);
        settings(
            base,
            &base.replace("[train]", "name = \"a-b\"\n[[source]]\npaths = [\"c\"]\nname = \"c d\"\n[train]"),
        );
    }
}
