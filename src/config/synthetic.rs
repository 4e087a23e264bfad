//! `kind = "synthetic"`: the keys of a source whose documents are made from a seed.

use super::{ByteCount, SEED, SourceConfig, SourceKind, require};
use crate::error::{Error, Result};

/// The most documents that are made in an epoch.
const MOST_DOCUMENTS: u64 = 1_000_000_000_000;

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

    /// Returns a copy; a synthetic source that has no seed gets `seed`.
    pub(crate) fn with_run_seed(&self, seed: u64) -> Self {
        let seed = match self.kind {
            SourceKind::Synthetic => Some(self.seed.unwrap_or(seed)),
            _ => self.seed,
        };
        Self { seed, ..self.clone() }
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

    /// Checks the keys that only synthetic documents have, and refuses those that only files have.
    pub(super) fn validate_synthetic(&self, key: &str) -> Result<()> {
        if self.kind != SourceKind::Synthetic {
            let keys = [
                ("documents", self.documents.is_some()),
                ("document_bytes", self.document_bytes.is_some()),
                ("seed", self.seed.is_some()),
            ];
            let problem = format!(
                "a {} source has none; remove it, or set kind = \"synthetic\" for documents that are made",
                self.kind.name()
            );
            return refuse(key, &keys, &problem);
        }
        let problem =
            "a synthetic source makes its documents and reads no files; remove it, or set another kind";
        refuse(key, &[("paths", !self.paths.is_empty()), ("field", self.field.is_some())], problem)?;
        let Synthetic { documents, document_bytes, .. } = Synthetic::from_source(self);
        require(
            (1..=MOST_DOCUMENTS).contains(&documents),
            &format!("{key}.documents"),
            documents,
            "from 1 to 1000000000000",
        )?;
        require(
            (16..=1 << 20).contains(&document_bytes),
            &format!("{key}.document_bytes"),
            ByteCount(document_bytes),
            "from 16 bytes to 1MiB",
        )
    }
}

/// Refuses the first of `keys` that is set.
fn refuse(source: &str, keys: &[(&str, bool)], problem: &str) -> Result<()> {
    match keys.iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(Error::config(format!("{source}.{key}"), problem)),
        None => Ok(()),
    }
}
