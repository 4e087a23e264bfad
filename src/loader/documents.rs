//! Documents that the program makes, in place of a source.

use std::sync::Arc;

use super::custom::DocumentStream;
use crate::config::{Config, SourceConfig, Uneven};
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};

/// Opens a lane of custom documents: takes the lane's number and the cursor to open it at, returns its documents.
pub(super) type OpenDocuments = Arc<dyn Fn(usize, &LaneCursor) -> DocumentStream + Send + Sync>;

/// The config with a source of this name, which stands for them.
pub(super) fn with_documents(mut config: Config, name: String) -> Result<Config> {
    let (key, problem) = if !config.sources.is_empty() {
        ("source", "the loader was given documents; leave [[source]] out")
    } else if config.pipeline.holdout > 0.0 {
        let problem = "custom documents have no hold-out; set it to 0, and give the documents to hold out to a loader of \
                       their own";
        ("pipeline.holdout", problem)
    } else if config.pipeline.uneven == Uneven::Wrap {
        ("pipeline.uneven", "custom documents have no beginning to wrap to; set uneven = \"pad\" or \"stop\"")
    } else {
        // The streams end by themselves.
        config.pipeline.epochs = None;
        return Ok(config.with_source(SourceConfig::default().with_name(name).with_weight(1.0)));
    };
    Err(Error::config(key, problem))
}
