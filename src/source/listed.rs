//! The sources of a config with their files, before any file is opened: what a receipt of a run names, and what opens
//! without being listed once more.

use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::Source;
use super::catalog::origin::Origin;
use super::catalog::paths::{self, SourceFiles};
use super::catalog::resolved::{self, Resolved};
use super::catalog::samples;
use crate::config::{Config, SourceConfig, StoreConfig, TokenizerConfig};
use crate::error::{Error, Result};
use crate::files::File;
use crate::store::{Stores, ask_hub_with};
use crate::tasks::{self, blocking};
use crate::threads;

/// How many sources are listed at once: a server that does not answer keeps one of them waiting.
const AT_ONCE: usize = 16;

/// The sources of a config, each with its files or why they cannot be listed.
#[derive(Debug)]
pub(crate) struct SourceList {
    sources: Vec<Result<ListedSource>>,
    tokenizer: TokenizerConfig,
    stores: Arc<Stores>,
}

/// A source, as it is configured and read, with its files.
#[derive(Debug)]
pub(crate) struct ListedSource {
    pub(super) resolved: Resolved,
    pub(super) files: SourceFiles,
}

impl SourceList {
    /// Lists the files of each source of a config.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) async fn new(config: &Config) -> Result<Self> {
        Self::of(&config.seeded_sources(), &config.tokenizer, &config.store).await
    }

    /// Lists the files of each source.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting out of bounds, [`Error::Threads`] if the system refuses threads.
    pub(super) async fn of(
        sources: &[SourceConfig],
        tokenizer: &TokenizerConfig,
        store: &StoreConfig,
    ) -> Result<Self> {
        for (index, source) in sources.iter().enumerate() {
            source.validate(&format!("source.{index}"))?;
        }
        store.validate()?;
        ask_hub_with(store);
        tasks::can_block(threads::LEAST).await?;
        let (stores, skipped) = (Arc::new(Stores::new(store)), paths::Skipped::default());
        let lists: Vec<_> = sources
            .iter()
            .enumerate()
            .map(|(index, source)| list(index, source, &stores, &skipped))
            .collect();
        let sources = stream::iter(lists).buffered(AT_ONCE).collect().await;
        Ok(Self { sources, tokenizer: tokenizer.clone(), stores })
    }

    /// The sources in order, each with its files or why they cannot be listed.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Result<&ListedSource, &Error>> {
        self.sources.iter().map(Result::as_ref)
    }

    /// Opens the files.
    ///
    /// # Errors
    /// Those of the first source that cannot be listed, and those of [`Source::open`].
    pub(crate) async fn open(self) -> Result<Source> {
        let listed = self.sources.into_iter().collect::<Result<Vec<ListedSource>>>()?;
        let (resolved, files): (Vec<_>, Vec<_>) =
            listed.into_iter().map(|source| (source.resolved, source.files)).unzip();
        Source::of_files(resolved, paths::joined(files)?, &self.tokenizer, self.stores).await
    }
}

/// Lists the files of the source with the number `index`.
pub(super) async fn list(
    index: usize,
    source: &SourceConfig,
    stores: &Arc<Stores>,
    skipped: &paths::Skipped,
) -> Result<ListedSource> {
    let resolved = resolved::resolve(index, source, stores).await?;
    let files = paths::of_source(index, &resolved, stores, skipped).await?;
    Ok(ListedSource { resolved, files })
}

impl ListedSource {
    /// Its files; of token shards, those that they were made from.
    pub(crate) fn files(&self) -> &[File] {
        &self.files.files
    }

    /// The files of token shards; `None` if the source is something else.
    pub(crate) fn shards(&self) -> Option<Vec<File>> {
        let shards = self.resolved.origin.shards()?;
        let source = self.files().first().map_or(0, |file| file.source);
        Some(shards.all().iter().flat_map(|shards| shards.files(source)).collect())
    }

    /// The digests of samples of its local files, by their numbers among its files.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read.
    pub(crate) async fn samples(&self) -> Result<Vec<(usize, String)>> {
        if !matches!(self.resolved.origin, Origin::Files) {
            return Ok(Vec::new());
        }
        let files = self.files().to_vec();
        blocking("source", move || Ok(samples::take(&files)?.of_files)).await
    }
}
