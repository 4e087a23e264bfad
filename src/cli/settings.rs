//! `--set KEY=VALUE`: settings that override a config's keys.

use clap::Args;
use millstream::{Config, Error, Result};

/// The settings of a command.
#[derive(Debug, Args)]
pub(super) struct Settings {
    /// Override a key of the config, for example --set pipeline.workers=4. Repeat it for more keys.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    settings: Vec<String>,
}

impl Settings {
    /// The config that `load` makes with the settings. If it is refused at a key that was set, the error names `--set`.
    pub(super) fn load(&self, load: impl FnOnce(&[String]) -> Result<Config>) -> Result<Config> {
        load(&self.settings).map_err(|error| blame(error, &self.settings))
    }
}

/// A setting as it was written, if it can be one.
fn key_value(text: &str) -> std::result::Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("a setting is key=value, such as train.steps=100".to_owned()),
    }
}

/// The error, with `--set` before its key if a setting set that key or something in it.
fn blame(error: Error, settings: &[String]) -> Error {
    let Error::Config { key, problem } = &error else { return error };
    let touches = |setting: &String| {
        let set = setting.split('=').next().unwrap_or_default().trim();
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        within(key, set) || within(set, key) || key == setting
    };
    match settings.iter().any(touches) {
        true => Error::config(format!("--set {key}"), problem),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_a_key_and_a_value() {
        assert!(key_value("a.b=").is_ok() && key_value("a=b=c").is_ok());
        for text in ["", "train.steps", "=3", " =3"] {
            assert!(key_value(text).is_err_and(|problem| problem.contains("train.steps=100")), "{text}");
        }
    }

    #[test]
    fn only_a_key_that_was_set_is_blamed_on_the_setting() {
        let blamed = |key: &str| {
            let settings = ["source.0.on_error.skip=3".to_owned(), "pipeline.window = 0".to_owned()];
            match blame(Error::config(key, "problem"), &settings) {
                Error::Config { key, .. } => key.starts_with("--set "),
                _ => false,
            }
        };
        for key in ["pipeline.window", "pipeline.window.x", "source.0.on_error", "source.0.on_error.skip"] {
            assert!(blamed(key), "{key}");
        }
        for key in ["pipeline.windows", "pipeline.lanes", "source.1.on_error", "seed", "a.toml"] {
            assert!(!blamed(key), "{key}");
        }
    }
}
