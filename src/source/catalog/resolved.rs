//! Resolves the sources of a config: dataset directories become their files, and token shards the source that they were
//! made from.

use std::path::Path;
use std::sync::Arc;

use super::dataset;
use super::origin::Origin;
use super::patterns::{self, expanded};
use super::walk::has_wildcards;
use crate::config::{DocumentKind, SourceConfig, SourceKind, TokenizerConfig};
use crate::error::{Error, Result};
use crate::excerpt::listed;
use crate::render::Renderer;
use crate::shards::{ShardPlace, ShardSet, Shards};
use crate::source::carried::parse_filter;
use crate::source::filter::Filter;
use crate::store::{Stores, pinned};
use crate::tasks::blocking;

/// A source, as configured and as read.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// The settings that the order depends on: for token shards, those of the source that they were made from.
    pub(crate) settings: SourceConfig,
    /// The files and their format.
    pub(crate) reads: SourceConfig,
    pub(crate) origin: Origin,
}

/// What renders the records of each source, if something does. It reads the templates, on a blocking thread.
pub(crate) async fn renderings(
    sources: &[Resolved],
    tokenizer: &TokenizerConfig,
) -> Result<Vec<Option<Arc<Renderer>>>> {
    let reads: Vec<SourceConfig> = sources.iter().map(|source| source.reads.clone()).collect();
    let tokenizer = tokenizer.clone();
    blocking("source", move || {
        let renderer = |(index, source)| Ok(Renderer::new(index, source, &tokenizer)?.map(Arc::new));
        reads.iter().enumerate().map(renderer).collect()
    })
    .await
}

/// Resolves the source with the number `index`. It looks at directories, on a blocking thread.
pub(crate) async fn resolve(index: usize, source: &SourceConfig, stores: &Arc<Stores>) -> Result<Resolved> {
    let (source, stores) = (source.clone(), stores.clone());
    blocking("source", move || resolved(&format!("source.{index}"), &source, &stores)).await
}

fn resolved(key: &str, config: &SourceConfig, stores: &Arc<Stores>) -> Result<Resolved> {
    if config.kind != SourceKind::Shards {
        // A default that is left out makes the same documents as one that is written down.
        let settings = config.with_synthetic();
        let reads = dataset::with_files(key, &settings)?;
        let origin = Origin::named(&reads);
        return Ok(Resolved { settings, reads, origin });
    }
    let places = config.paths.iter().map(|path| places(&format!("{key}.paths"), path, stores));
    let places = places.collect::<Result<Vec<_>>>()?.concat();
    let shards = ShardSet::open(&places)?;
    let made_of = |shards: &Shards| shards.manifest().source.clone();
    let filter = parse_filter(key, config)?;
    let used = filter.iter().flat_map(Filter::names);
    for shards in shards.all() {
        let stored = made_of(shards).columns;
        if let Some(missing) = config.columns.iter().chain(used.clone()).find(|name| !stored.contains(name)) {
            let place = shards.place().path().display();
            let there = match stored.is_empty() {
                true => format!("{place} was prepared without columns"),
                false => format!("{place} has the columns {}, and not {missing}", listed(&stored)),
            };
            let problem = format!("{there}; prepare it again, with source.columns");
            let of = if config.columns.contains(missing) { "columns" } else { "where" };
            return Err(Error::config(format!("{key}.{of}"), problem));
        }
    }
    // The run decides how often and how much of it is read.
    let first = made_of(&shards.all()[0]);
    let filter = match (&first.filter, &config.filter) {
        (Some(made), Some(filter)) => Some(format!("({made}) and ({filter})")),
        (made, filter) => made.clone().or_else(|| filter.clone()),
    };
    let settings = SourceConfig {
        filter,
        name: config.name.clone(),
        weight: config.weight,
        epochs: config.epochs,
        on_error: config.on_error,
        cache: None,
        ..first
    };
    let document = match shards.all().iter().any(|shards| made_of(shards).document == DocumentKind::File) {
        true => DocumentKind::File,
        false => DocumentKind::Line,
    };
    // No file is opened; it only matters whether some files are one document each.
    let (on_error, columns, filter) = (config.on_error, config.columns.clone(), config.filter.clone());
    let reads = SourceConfig { document, on_error, columns, filter, ..SourceConfig::default() };
    Ok(Resolved { reads, settings, origin: Origin::Shards(Arc::new(shards)) })
}

/// The places that a path of token shards names: one, or all that it matches as a pattern.
fn places(key: &str, path: &str, stores: &Arc<Stores>) -> Result<Vec<ShardPlace>> {
    let whole = pinned(key, expanded(key, path)?)?;
    if Path::new(&whole).exists() {
        return Ok(vec![ShardPlace::named(&whole, stores)]);
    }
    let all = patterns::all(key, path)?.into_iter().map(|path| pinned(key, path));
    Ok(all.map(|path| matched(key, &path?, stores)).collect::<Result<Vec<_>>>()?.concat())
}

/// The places that a path without braces names.
fn matched(key: &str, path: &str, stores: &Arc<Stores>) -> Result<Vec<ShardPlace>> {
    let place = ShardPlace::named(path, stores);
    if place.directory().is_none() && has_wildcards(path) {
        let problem = format!(
            "{path:?}: directories in a store are named without a pattern; name the prefix around them"
        );
        return Err(Error::config(key, problem));
    }
    if place.directory().is_none_or(|directory| directory.exists()) || !has_wildcards(path) {
        return Ok(vec![place]);
    }
    let found = patterns::directories(key, path)?;
    if found.is_empty() {
        let problem = format!("no directory matches {path:?}; set {key} to a directory of prepared tokens");
        return Err(Error::Corpus { problem });
    }
    Ok(found.into_iter().map(ShardPlace::Directory).collect())
}
