//! Where ids lie: in memory, as a tokenizer made them, or in a file of token shards, as they are stored.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::budget::Lease;
use crate::files::Files;
use crate::shards::Segment;

/// The ids of one group of documents.
#[derive(Debug)]
pub(crate) struct Arena {
    ids: Ids,
    pub(super) files: Arc<Files>,
    _lease: Lease,
}

#[derive(Debug)]
enum Ids {
    /// One document behind the other, with what stands around each.
    Made(Vec<u32>),
    /// Each document's own, and what is put around them.
    Stored(Arc<Segment>, Around),
}

/// The ids that stand before and behind each document's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    pub(crate) before: Option<u32>,
    pub(crate) behind: Option<u32>,
}

impl Around {
    /// The range of a document in the arena whose own ids are those of a segment: what stands before them has the place
    /// before, so that the places of neighbours overlap, and a document's range says what its first and last one are.
    pub(crate) fn around(self, own: &Range<usize>) -> Range<usize> {
        own.start - usize::from(self.before.is_some())..own.end + usize::from(self.behind.is_some())
    }

    /// Where a document's own ids lie.
    pub(crate) fn within(self, document: &Range<usize>) -> Range<usize> {
        document.start + usize::from(self.before.is_some())..document.end - usize::from(self.behind.is_some())
    }
}

impl Arena {
    /// Ids in memory, which `lease` pays for.
    pub(crate) fn made(ids: Vec<u32>, files: Arc<Files>, lease: Lease) -> Arc<Self> {
        Arc::new(Self { ids: Ids::Made(ids), files, _lease: lease })
    }

    /// Ids of a segment, which stay there.
    pub(crate) fn stored(segment: Arc<Segment>, around: Around, files: Arc<Files>) -> Arc<Self> {
        Arc::new(Self { ids: Ids::Stored(segment, around), files, _lease: Lease::none() })
    }

    /// Whether the ids take memory of the pipeline's.
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.ids, Ids::Made(_))
    }

    /// Appends the ids `range`, which are those of a document of so many ids from its id `offset` on.
    pub(crate) fn append(&self, range: &Range<usize>, (offset, len): (usize, usize), into: &mut Vec<u32>) {
        match &self.ids {
            Ids::Made(ids) => into.extend_from_slice(&ids[range.clone()]),
            Ids::Stored(_, _) if range.is_empty() => {}
            Ids::Stored(segment, around) => {
                let start = range.start - offset;
                let own = around.within(&(start..start + len));
                into.extend(around.before.filter(|_| range.start < own.start));
                segment.append_ids(range.start.max(own.start)..range.end.min(own.end), into);
                into.extend(around.behind.filter(|_| range.end > own.end));
            }
        }
    }

    /// The same ids, copied only if they are not in memory.
    pub(super) fn ids(&self, range: &Range<usize>, document: (usize, usize)) -> Cow<'_, [u32]> {
        match &self.ids {
            Ids::Made(ids) => Cow::Borrowed(&ids[range.clone()]),
            Ids::Stored(..) => {
                let mut ids = Vec::with_capacity(range.len());
                self.append(range, document, &mut ids);
                Cow::Owned(ids)
            }
        }
    }
}
