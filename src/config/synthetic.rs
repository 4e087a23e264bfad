//! `kind = "synthetic"`: the keys of a source whose documents are made from a seed.

use super::{ByteCount, SEED, SourceConfig, SourceKind, Task};

/// Everything that determines the documents of a synthetic source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Synthetic {
    pub(crate) seed: u64,
    /// How many there are in an epoch.
    pub(crate) documents: u64,
    /// Their mean length, in bytes.
    pub(crate) document_bytes: u64,
}

impl Synthetic {
    /// Reads the keys of a source; absent ones have their defaults.
    pub(crate) fn from_source(source: &SourceConfig) -> Self {
        Self {
            seed: source.seed.unwrap_or(SEED),
            documents: source.documents.unwrap_or(10_000) as u64,
            document_bytes: source.document_bytes.unwrap_or(ByteCount(2 << 10)).0,
        }
    }
}

impl SourceConfig {
    /// Returns a source that makes `documents` documents in each epoch and reads no files.
    ///
    /// The documents follow from the config's seed unless [`seed`](SourceConfig::seed) is set. They are 2 KiB
    /// long on average unless [`document_bytes`](SourceConfig::document_bytes) is set.
    ///
    /// ```
    /// use millstream::config::SourceConfig;
    /// use millstream::{LaneCursor, Source};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    /// # runtime.block_on(async {
    /// use futures::TryStreamExt;
    ///
    /// let source = Source::open(&[SourceConfig::synthetic(100)]).await?;
    /// let documents: Vec<_> = source.documents(&LaneCursor::default()).try_collect().await?;
    /// assert_eq!(documents.len(), 100);
    /// # Ok(()) }) }
    /// ```
    pub fn synthetic(documents: usize) -> Self {
        Self { kind: SourceKind::Synthetic, documents: Some(documents), ..Self::default() }
    }

    /// Returns a copy; a source that draws and has no seed gets `seed`.
    pub(crate) fn with_run_seed(&self, seed: u64) -> Self {
        let draws = self.kind == SourceKind::Synthetic || self.task == Task::Fim;
        Self { seed: self.seed.or(draws.then_some(seed)), ..self.clone() }
    }

    /// Returns a copy; a synthetic source gets the defaults of all keys that determine its documents.
    pub(crate) fn with_synthetic(&self) -> Self {
        if self.kind != SourceKind::Synthetic {
            return self.clone();
        }
        let Synthetic { seed, documents, document_bytes } = Synthetic::from_source(self);
        Self {
            seed: Some(seed),
            documents: Some(documents as usize),
            document_bytes: Some(ByteCount(document_bytes)),
            ..self.clone()
        }
    }
}
