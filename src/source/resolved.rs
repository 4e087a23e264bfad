//! From the sources of a config to what is read: directories of datasets become their files, token shards what they
//! were made of.

use std::path::PathBuf;
use std::sync::Arc;

use super::dataset;
use super::patterns::{blocking, expanded};
use crate::config::{DocumentKind, SourceConfig, SourceKind};
use crate::error::Result;
use crate::shards::Shards;

/// A source, as it was given and as it is read.
#[derive(Debug)]
pub(super) struct Resolved {
    /// What the order depends on: of token shards, the source that they were made of.
    pub(super) settings: SourceConfig,
    /// The files and their format.
    pub(super) reads: SourceConfig,
    pub(super) shards: Option<Arc<Shards>>,
}

/// All sources. It looks at directories, on a blocking thread.
pub(super) async fn of(sources: &[SourceConfig]) -> Result<Vec<Resolved>> {
    let sources = sources.to_vec();
    blocking(move || {
        let sources = sources.iter().enumerate();
        sources.map(|(index, source)| resolved(&format!("source.{index}"), source)).collect()
    })
    .await
}

fn resolved(key: &str, config: &SourceConfig) -> Result<Resolved> {
    let (SourceKind::Shards, [directory]) = (config.kind, &config.paths[..]) else {
        let reads = dataset::of(key, config)?;
        return Ok(Resolved { settings: config.clone(), reads, shards: None });
    };
    let directory = PathBuf::from(expanded(&format!("{key}.paths"), directory)?);
    let shards = Shards::open(&directory)?.whole()?;
    let made_of = &shards.manifest().source;
    // How often and how much it is read is the run's affair.
    let settings = SourceConfig {
        name: config.name.clone(),
        weight: config.weight,
        epochs: config.epochs,
        on_error: config.on_error,
        cache: None,
        ..made_of.clone()
    };
    // No file is opened; all that counts is whether each is one document.
    let document = match settings.document {
        DocumentKind::File => DocumentKind::File,
        DocumentKind::Line | DocumentKind::Paragraph => DocumentKind::Line,
    };
    let (kind, on_error) = (SourceKind::Text, settings.on_error);
    let reads = SourceConfig { kind, document, on_error, ..SourceConfig::default() };
    Ok(Resolved { reads, settings, shards: Some(Arc::new(shards)) })
}
