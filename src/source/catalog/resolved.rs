//! From the sources of a config to what is read: dataset directories become their files, token shards the source they
//! were made from.

use std::path::PathBuf;
use std::sync::Arc;

use super::dataset;
use super::origin::Origin;
use super::patterns::{self, expanded};
use crate::config::{DocumentKind, SourceConfig, SourceKind};
use crate::error::{Error, Result};
use crate::shards::{ShardSet, Shards};
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
    if config.kind != SourceKind::Shards {
        // Leaving a default out or writing it down makes the same documents.
        let settings = config.with_synthetic();
        let reads = dataset::with_files(key, &settings)?;
        let origin = Origin::named(&reads);
        return Ok(Resolved { settings, reads, origin });
    }
    let directories = config.paths.iter().map(|path| directories(&format!("{key}.paths"), path));
    let shards = ShardSet::open(&directories.collect::<Result<Vec<_>>>()?.concat())?;
    let made_of = |shards: &Shards| shards.manifest().source.clone();
    // How often and how much of it is read is up to the run.
    let settings = SourceConfig {
        name: config.name.clone(),
        weight: config.weight,
        epochs: config.epochs,
        on_error: config.on_error,
        cache: None,
        ..made_of(&shards.all()[0])
    };
    // No file is opened; it only matters whether some files are one document each.
    let document = match shards.all().iter().any(|shards| made_of(shards).document == DocumentKind::File) {
        true => DocumentKind::File,
        false => DocumentKind::Line,
    };
    let (kind, on_error) = (SourceKind::Text, settings.on_error);
    let reads = SourceConfig { kind, document, on_error, ..SourceConfig::default() };
    Ok(Resolved { reads, settings, origin: Origin::Shards(Arc::new(shards)) })
}

/// The directories that a path of token shards names: one, or those that match it as a pattern.
fn directories(key: &str, path: &str) -> Result<Vec<PathBuf>> {
    let path = expanded(key, path)?;
    if !path.contains(['*', '?', '[']) || PathBuf::from(&path).exists() {
        return Ok(vec![PathBuf::from(path)]);
    }
    let found = patterns::directories(key, &path)?;
    if found.is_empty() {
        let problem = format!(
            "no directory matches {path:?}; set {key} to a directory that `millstream prepare` has made"
        );
        return Err(Error::Corpus { problem });
    }
    Ok(found)
}
