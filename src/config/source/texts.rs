//! Texts in memory, which a source has in place of files.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::config::{SourceConfig, SourceKind};

/// Texts in memory. Equal ones are the same texts in the same order.
///
/// A clone shares them. A config that is written lacks them.
#[derive(Clone)]
pub struct Texts {
    /// All of them, one after another.
    all: Arc<str>,
    /// The byte range of each.
    ranges: Arc<[Range<usize>]>,
    /// A BLAKE3 digest of them.
    digest: Arc<str>,
}

impl Texts {
    /// Stores these texts.
    pub fn new(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let (mut all, mut ranges, mut hasher) = (String::new(), Vec::new(), blake3::Hasher::new());
        for text in texts {
            let text = text.as_ref();
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            ranges.push(all.len()..all.len() + text.len());
            all.push_str(text);
        }
        Self { all: all.into(), ranges: ranges.into(), digest: hasher.finalize().to_hex().as_str().into() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.ranges.len() as u64
    }

    /// Their length as lines, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.len() as u64 + self.count()
    }

    /// Whether none of them has any text.
    pub(crate) fn is_blank(&self) -> bool {
        self.all.trim_ascii().is_empty()
    }

    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Text `number`, from 0.
    pub(crate) fn get(&self, number: u64) -> Option<&str> {
        let range = self.ranges.get(usize::try_from(number).ok()?)?;
        Some(&self.all[range.clone()])
    }
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").field("count", &self.count()).field("digest", &self.digest).finish()
    }
}

impl SourceConfig {
    /// Reads these texts, each of which is a document; blank ones are left out. For tests and small data: the memory
    /// budget does not count them.
    ///
    /// ```
    /// use millstream::config::SourceConfig;
    ///
    /// let source = SourceConfig::texts(["one", "two", "three"]).with_name("numbers");
    /// # source.texts.expect("texts");
    /// ```
    pub fn texts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { texts: Some(Texts::new(texts)), ..Self::default() }
    }

    /// Reads these records, each of them one JSON value, as lines of a JSONL file.
    ///
    /// ```
    /// use millstream::config::{SourceConfig, Task};
    ///
    /// let chat = r#"{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}"#;
    /// let source = SourceConfig::records([chat]).with_task(Task::Chat);
    /// # source.texts.expect("texts");
    /// ```
    pub fn records(records: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { kind: SourceKind::Jsonl, ..Self::texts(records) }
    }
}
