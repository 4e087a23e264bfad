//! The place of stored ids: a segment that is mapped into memory, or memory that they were read into.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Segment;
use crate::budget::Lease;

/// How stored ids were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdsOrigin {
    pub(crate) tokenizer: Arc<str>,
    /// Whether the texts were rendered from records. Such texts have all their special tokens, so that nothing stands
    /// around their ids.
    pub(crate) is_rendered: bool,
    /// The columns that come along with the documents.
    pub(crate) columns: Arc<[String]>,
}

/// The ids of some documents. Clones share them.
#[derive(Clone, Debug)]
pub(crate) enum StoredIds {
    /// They stay in their file.
    Mapped(Arc<Segment>),
    Held(Arc<HeldIds>),
}

/// Ids that were read from a store.
#[derive(Debug)]
pub(crate) struct HeldIds {
    path: PathBuf,
    origin: IdsOrigin,
    ids: Vec<u32>,
    _lease: Lease,
}

impl HeldIds {
    /// Ids of the file at `path`, charged to `lease`.
    pub(crate) fn new(path: PathBuf, origin: IdsOrigin, ids: Vec<u32>, lease: Lease) -> Self {
        Self { path, origin, ids, _lease: lease }
    }
}

impl StoredIds {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Mapped(segment) => segment.path(),
            Self::Held(held) => &held.path,
        }
    }

    fn origin(&self) -> &IdsOrigin {
        match self {
            Self::Mapped(segment) => segment.origin(),
            Self::Held(held) => &held.origin,
        }
    }

    pub(crate) fn tokenizer(&self) -> &str {
        &self.origin().tokenizer
    }

    /// Whether their texts were rendered from records, so that nothing stands around the ids of a document.
    pub(crate) fn is_rendered(&self) -> bool {
        self.origin().is_rendered
    }

    pub(crate) fn append(&self, range: Range<usize>, into: &mut Vec<u32>) {
        match self {
            Self::Mapped(segment) => segment.append_ids(range, into),
            Self::Held(held) => into.extend_from_slice(&held.ids[range]),
        }
    }

    /// Whether both are the same ids, and not only equal ones.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mapped(a), Self::Mapped(b)) => Arc::ptr_eq(a, b),
            (Self::Held(a), Self::Held(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}
