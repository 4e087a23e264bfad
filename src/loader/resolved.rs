//! The config that a loader goes by. It is resolved once, when the files are listed, and never changed.

use super::lanes;
use super::stored_tokenizer::stored_tokenizer;
use crate::config::{Config, OrAuto, PipelineConfig};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::source::Source;

/// Returns the config that a [`Loader`](super::Loader) goes by: `auto` lanes and windows are the numbers that it
/// chooses for the files, and the tokenizer is that of bytes if the config names none and bytes made its token shards.
/// Other settings stay as they are.
///
/// # Errors
/// The errors of opening the sources.
pub async fn resolved(config: &Config) -> Result<Config> {
    let source = match config.sources.is_empty() {
        true => Source::custom(),
        false => Source::from_config(config).await?,
    };
    Ok(resolved_with(config.clone(), &source, None))
}

/// As [`resolved`], for a source that is already open. `auto` lanes are as many as a cursor has, if there is one.
/// Otherwise, if they are fewer than they should be, logs it, unless the source is quiet.
pub(crate) fn resolved_with(config: Config, source: &Source, cursor: Option<&Cursor>) -> Config {
    let tokenizer = stored_tokenizer(&config.tokenizer, source);
    let lanes = lanes::lanes(&config, source, cursor).into();
    let pipeline = PipelineConfig { lanes, ..config.pipeline };
    let window = pipeline.window().map_or(pipeline.window, OrAuto::Fixed);
    Config { tokenizer, pipeline: PipelineConfig { window, ..pipeline }, ..config }
}
