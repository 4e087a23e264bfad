//! From the sources of a config to what is read: dataset directories become their files, token shards the source they
//! were made from.

use std::path::PathBuf;
use std::sync::Arc;

use super::dataset;
use super::origin::Origin;
use super::patterns::expanded;
use crate::config::{DocumentKind, SourceConfig, SourceKind};
use crate::error::Result;
use crate::shards::Shards;
use crate::tasks::blocking;

/// A source, as given and as read.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// What the order depends on: for token shards, the settings of the source they were made from.
    pub(crate) settings: SourceConfig,
    /// The files and their format.
    pub(crate) reads: SourceConfig,
    pub(crate) origin: Origin,
}

/// Resolves all sources. It looks at directories, on a blocking thread.
pub(crate) async fn resolve(sources: &[SourceConfig]) -> Result<Vec<Resolved>> {
    let sources = sources.to_vec();
    blocking("source", move || {
        let sources = sources.iter().enumerate();
        sources.map(|(index, source)| resolved(&format!("source.{index}"), source)).collect()
    })
    .await
}

fn resolved(key: &str, config: &SourceConfig) -> Result<Resolved> {
    let (SourceKind::Shards, [directory]) = (config.kind, &config.paths[..]) else {
        // Leaving a default out or writing it down makes the same documents.
        let settings = config.with_synthetic();
        let reads = dataset::with_files(key, &settings)?;
        let origin = Origin::named(&reads);
        return Ok(Resolved { settings, reads, origin });
    };
    let directory = PathBuf::from(expanded(&format!("{key}.paths"), directory)?);
    let shards = Shards::open(&directory)?.whole()?;
    let made_of = &shards.manifest().source;
    // How often and how much of it is read is up to the run.
    let settings = SourceConfig {
        name: config.name.clone(),
        weight: config.weight,
        epochs: config.epochs,
        on_error: config.on_error,
        cache: None,
        ..made_of.clone()
    };
    // No file is opened; it only matters whether each file is one document.
    let document = match settings.document {
        DocumentKind::File => DocumentKind::File,
        DocumentKind::Line | DocumentKind::Paragraph => DocumentKind::Line,
    };
    let (kind, on_error) = (SourceKind::Text, settings.on_error);
    let reads = SourceConfig { kind, document, on_error, ..SourceConfig::default() };
    Ok(Resolved { reads, settings, origin: Origin::Shards(Arc::new(shards)) })
}
