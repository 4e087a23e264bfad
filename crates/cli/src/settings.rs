//! `--set KEY=VALUE`: settings that override a config's keys.

use clap::Args;

use millstream::config::ByteCount;

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

/// Checks that a setting says where files of a run are now, and returns it unchanged.
#[cfg(feature = "train")]
pub(super) fn moved_paths(text: &str) -> std::result::Result<String, String> {
    let setting = key_value(text)?;
    match setting.split_once('=').map(|(key, _)| key.trim()) {
        Some(key) if key.starts_with("source.") && (key.ends_with(".paths") || key.ends_with(".repo")) => {
            Ok(setting)
        }
        _ => Err("only the places of a run's files may be set, such as source.0.paths=moved/*.txt; all else is the \
                  run's"
            .to_owned()),
    }
}

/// Parses a number of bytes that is not zero.
pub(super) fn byte_count(text: &str) -> std::result::Result<ByteCount, String> {
    let count = text.parse().ok().filter(|count: &ByteCount| count.0 > 0);
    count.ok_or_else(|| "give a number of bytes that is at least 1, such as 1048576 or 64MiB".to_owned())
}
