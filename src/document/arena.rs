//! Storage for ids: in memory, as a tokenizer made them, or in a file of token shards.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::Mask;
use crate::budget::Lease;
use crate::files::Files;
use crate::segment::StoredIds;

/// The ids of one group of documents.
#[derive(Debug)]
pub(crate) struct Arena {
    ids: Ids,
    /// Which ids are learned from; its places are those of the documents' ranges. `None` if the ids stand in for others
    /// that had a mask, and nobody has said which of these are learned from.
    mask: Option<Mask>,
    pub(super) files: Arc<Files>,
    lease: Lease,
}

#[derive(Debug)]
enum Ids {
    /// The documents one after another, each with the ids added around it. If `is_custom`, a custom stage or source
    /// made them, and they are unchecked.
    InMemory { ids: Vec<u32>, is_custom: bool },
    /// The stored ids of each document, and the ids added around them.
    Stored(StoredIds, Around),
}

/// The ids added before and after each document's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    pub(crate) before: Option<u32>,
    pub(crate) behind: Option<u32>,
}

impl Around {
    pub(crate) const NONE: Self = Self { before: None, behind: None };

    /// The range in the arena of a document whose own ids have the range `own` in a segment. The id before them takes
    /// the place just before, so the places of neighbours overlap. A document's range tells which its first and last
    /// ids are.
    pub(crate) fn around(self, own: &Range<usize>) -> Range<usize> {
        own.start - usize::from(self.before.is_some())..own.end + usize::from(self.behind.is_some())
    }

    /// The range of a document's own ids.
    pub(crate) fn within(self, document: &Range<usize>) -> Range<usize> {
        document.start + usize::from(self.before.is_some())..document.end - usize::from(self.behind.is_some())
    }
}

impl Arena {
    /// Ids in memory, charged to `lease`.
    pub(crate) fn encoded(ids: Vec<u32>, mask: Mask, files: Arc<Files>, lease: Lease) -> Arc<Self> {
        Arc::new(Self { ids: Ids::InMemory { ids, is_custom: false }, mask: Some(mask), files, lease })
    }

    /// Ids in memory that a custom stage or source made. All are learned from.
    pub(super) fn custom(ids: Vec<u32>, files: Arc<Files>, lease: Lease) -> Arc<Self> {
        Arc::new(Self {
            ids: Ids::InMemory { ids, is_custom: true },
            mask: Some(Mask::default()),
            files,
            lease,
        })
    }

    /// Ids that replace those of `range`, charged to the same budget. If some of the old ones are masked, it is not known
    /// which of the new ones are.
    pub(super) fn replaced(&self, range: &Range<usize>, ids: Vec<u32>) -> Arc<Self> {
        let mask = (!self.is_masked(range)).then(Mask::default);
        self.in_memory(ids, true, mask.filter(|_| !self.is_mask_lost()))
    }

    /// As many ids that replace those of `range` one by one, with the same mask.
    pub(super) fn mapped(&self, range: &Range<usize>, ids: Vec<u32>) -> Arc<Self> {
        self.in_memory(ids, true, self.mask_of(range))
    }

    /// A copy of the ids of `range`, a whole document, with another mask, whose places begin at 0.
    pub(super) fn with_mask(&self, range: &Range<usize>, mask: Mask) -> Arc<Self> {
        let ids = self.ids(range, 0, range.len()).into_owned();
        let is_custom = matches!(self.ids, Ids::InMemory { is_custom: true, .. });
        self.in_memory(ids, is_custom, Some(mask))
    }

    /// A copy of the ids of `range`, with their mask, that is not charged.
    pub(super) fn detached(&self, range: &Range<usize>, ids: Vec<u32>) -> Arc<Self> {
        let is_custom = matches!(self.ids, Ids::InMemory { is_custom: true, .. });
        let (mask, files, lease) = (self.mask_of(range), self.files.clone(), Lease::none());
        Arc::new(Self { ids: Ids::InMemory { ids, is_custom }, mask, files, lease })
    }

    /// Other ids, charged to the same budget.
    fn in_memory(&self, ids: Vec<u32>, is_custom: bool, mask: Option<Mask>) -> Arc<Self> {
        let bytes = size_of_val(&*ids) + mask.as_ref().map_or(0, Mask::bytes);
        let lease = self.lease.budget().map_or_else(Lease::none, |budget| budget.charge(bytes));
        Arc::new(Self { ids: Ids::InMemory { ids, is_custom }, mask, files: self.files.clone(), lease })
    }

    /// Whether all of its ids are learned from, as those of most texts are.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.mask.as_ref().is_some_and(Mask::is_empty)
    }

    /// The mask of `range`, with places from 0; `None` if it is lost.
    pub(crate) fn mask_of(&self, range: &Range<usize>) -> Option<Mask> {
        self.mask.as_ref().map(|all| {
            let mut mask = Mask::default();
            mask.append(all, range.clone(), 0);
            mask
        })
    }

    /// Whether the ids stand in for others that had a mask, and nobody has said which of these are learned from.
    pub(super) fn is_mask_lost(&self) -> bool {
        self.mask.is_none()
    }

    pub(crate) fn is_masked(&self, range: &Range<usize>) -> bool {
        !self.is_plain() && self.masked_in(range).next().is_some()
    }

    pub(crate) fn masked_in(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let mask = self.mask.as_ref().filter(|mask| !mask.is_empty());
        let range = range.clone();
        mask.into_iter().flat_map(move |mask| mask.masked_in(range.clone()))
    }

    /// The ids `range`, if a custom stage or source made them.
    pub(super) fn custom_ids(&self, range: &Range<usize>) -> Option<&[u32]> {
        match &self.ids {
            Ids::InMemory { ids, is_custom: true } => Some(&ids[range.clone()]),
            Ids::InMemory { .. } | Ids::Stored(..) => None,
        }
    }

    /// Stored ids, which stay where they are.
    pub(crate) fn stored(ids: StoredIds, around: Around, mask: Mask, files: Arc<Files>) -> Arc<Self> {
        Arc::new(Self { ids: Ids::Stored(ids, around), mask: Some(mask), files, lease: Lease::none() })
    }

    /// Whether the ids use the pipeline's memory.
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.ids, Ids::InMemory { .. })
    }

    /// Appends the ids `range`, which belong to a document of `document_len` ids and begin at its id `offset`.
    pub(crate) fn append(
        &self,
        range: &Range<usize>,
        offset: usize,
        document_len: usize,
        into: &mut Vec<u32>,
    ) {
        match &self.ids {
            Ids::InMemory { ids, .. } => into.extend_from_slice(&ids[range.clone()]),
            Ids::Stored(_, _) if range.is_empty() => {}
            Ids::Stored(stored, around) => {
                // Parts of stored documents are never detached, so the whole document is in place around them.
                let start = range.start - offset;
                let own = around.within(&(start..start + document_len));
                into.extend(around.before.filter(|_| range.start < own.start));
                stored.append(range.start.max(own.start)..range.end.min(own.end), into);
                into.extend(around.behind.filter(|_| range.end > own.end));
            }
        }
    }

    /// The same ids, copied only if they are not in memory.
    pub(super) fn ids(&self, range: &Range<usize>, offset: usize, document_len: usize) -> Cow<'_, [u32]> {
        match &self.ids {
            Ids::InMemory { ids, .. } => Cow::Borrowed(&ids[range.clone()]),
            Ids::Stored(..) => {
                let mut ids = Vec::with_capacity(range.len());
                self.append(range, offset, document_len, &mut ids);
                Cow::Owned(ids)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::budget::Budget;
    use crate::segment::{Boundary, IdsOrigin, Segment, SegmentWriter, StoredDocument, StoredText, Width};

    #[test]
    fn ids_that_stand_in_for_others_are_charged_to_the_same_budget() {
        let budget = Budget::new(1000);
        let arena = Arena::encoded(vec![1, 2, 3], Mask::default(), Files::none(), budget.charge(12));
        let other = arena.replaced(&(0..3), vec![7; 5]);
        assert_eq!(budget.used(), 32);
        drop(arena);
        assert_eq!(budget.used(), 20);
        assert_eq!(other.custom_ids(&(1..3)), Some(&[7, 7][..]));
    }

    /// A segment with one split of documents of these ids, and where its first id is.
    fn stored(width: Width, documents: &[Vec<u32>]) -> (Arc<Segment>, usize) {
        let (directory, identity) = (tempfile::tempdir().expect("a directory"), [7; 32]);
        let mut writer = SegmentWriter::new(directory.path(), width, &identity).expect("begun");
        for (number, ids) in (0..).zip(documents) {
            let document = StoredDocument::without_ids(Boundary::record(number), StoredText::Bytes(1));
            writer.document(StoredDocument { ids, ..document }).expect("written");
        }
        writer.split(0).expect("written");
        let path = writer.finish().expect("written").expect("a split");
        let origin = IdsOrigin { tokenizer: "t".into(), is_rendered: false, columns: [].into() };
        let segment = Arc::new(Segment::open(&path, &identity, origin).expect("it opens"));
        let first = segment.rows()[0].at as usize / width.bytes();
        (segment, first)
    }

    proptest! {
        #[test]
        fn parts_of_stored_documents_have_what_stands_around_them(
            documents in prop::collection::vec(prop::collection::vec(0_u32..1 << 16, 0..5), 1..6),
            is_wide: bool,
            around: [bool; 2],
        ) {
            let [before, behind] = [around[0].then_some(1 << 20), around[1].then_some(1 << 21)];
            let (width, add) = if is_wide { (Width::Four, 1 << 16) } else { (Width::Two, 0) };
            let documents: Vec<Vec<u32>> =
                documents.into_iter().map(|ids| ids.into_iter().map(|id| id + add).collect()).collect();
            let (segment, mut first) = stored(width, &documents);
            let around = Around { before, behind };
            let arena = Arena::stored(StoredIds::Mapped(segment), around, Mask::default(), Files::none());
            for ids in &documents {
                let own = first..first + ids.len();
                first = own.end;
                let expected: Vec<u32> = before.into_iter().chain(ids.iter().copied()).chain(behind).collect();
                let document = around.around(&own);
                prop_assert_eq!(document.len(), expected.len());
                prop_assert_eq!(around.within(&document), own);
                for from in 0..=expected.len() {
                    for to in from..=expected.len() {
                        let range = document.start + from..document.start + to;
                        prop_assert_eq!(arena.ids(&range, from, expected.len()), &expected[from..to]);
                    }
                }
            }
        }
    }
}
