//! `--set KEY=VALUE`: settings that override a config's keys.

use clap::Args;

/// The settings of a command.
#[derive(Clone, Debug, Args)]
pub(super) struct Settings {
    /// Override a key of the config, for example --set pipeline.workers=4 or --set source.docs.epochs=2 for the source
    /// called docs. KEY= unsets a key. Repeat it for more keys.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    settings: Vec<String>,
}

impl Settings {
    /// The settings as they were written.
    pub(super) fn all(&self) -> &[String] {
        &self.settings
    }
}

/// Checks that a setting has the form `KEY=VALUE`, and returns it unchanged.
fn key_value(text: &str) -> std::result::Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("a setting is key=value, such as train.steps=100".to_owned()),
    }
}
