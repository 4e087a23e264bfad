//! A loader over documents of one's own: a source that has no files.

use crate::config::{Config, SourceConfig, Uneven};
use crate::error::{Error, Result};
use crate::source::Source;

/// The source that stands for documents of one's own, `name`; the config has it from here on.
pub(super) fn source(config: &mut Config, name: &str) -> Result<Source> {
    if !config.sources.is_empty() {
        let problem = "the loader was given documents of its own; leave [[source]] out, or give it none";
        return Err(Error::config("source", problem));
    }
    if config.pipeline.uneven == Uneven::Wrap {
        let problem = "documents of one's own have no beginning to wrap to; set uneven = \"pad\" or \"stop\"";
        return Err(Error::config("pipeline.uneven", problem));
    }
    config.pipeline.epochs = None;
    config.sources =
        vec![SourceConfig { name: Some(name.to_owned()), weight: Some(1.0), ..SourceConfig::default() }];
    Ok(Source::none())
}

/// Whether a source stands for documents of one's own.
pub(super) fn is_own(source: &SourceConfig) -> bool {
    source.paths.is_empty()
}
