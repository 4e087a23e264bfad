//! A run of one document's ids.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::{Arena, CarriedColumns, ColumnValue, Mask, Position, Tokens};
use crate::files::Files;

/// A run of one document's ids.
#[derive(Clone, Debug)]
pub struct Part {
    arena: Arc<Arena>,
    range: Range<usize>,
    offset: usize,
    /// The number of ids of the whole document, and the bytes of its text.
    document: (usize, usize),
    position: Position,
    columns: CarriedColumns,
}

impl Part {
    /// Creates a run of the ids `range` of a document.
    ///
    /// # Panics
    /// If the document has fewer ids.
    pub fn new(tokens: &Tokens, range: Range<usize>) -> Self {
        assert!(range.end <= tokens.len(), "{range:?} is not within {} ids", tokens.len());
        let start = tokens.range.start;
        Self {
            arena: tokens.arena.clone(),
            range: start + range.start..start + range.end,
            offset: range.start,
            document: (tokens.len(), tokens.text_bytes),
            position: tokens.position,
            columns: tokens.columns.clone(),
        }
    }

    /// Creates a run of a document's ids from `first` on.
    pub(crate) fn rest(tokens: Tokens, first: usize) -> Self {
        let document = (tokens.len(), tokens.text_bytes);
        let range = tokens.range.start + first..tokens.range.end;
        let Tokens { arena, position, columns, .. } = tokens;
        Self { arena, range, offset: first, document, position, columns }
    }

    /// The ids. Stored ids are copied out of their file.
    pub fn ids(&self) -> Cow<'_, [u32]> {
        self.arena.ids(&self.range, self.offset, self.document.0)
    }

    /// Whether all ids of its group are learned from.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.arena.is_plain()
    }

    /// Which of its ids are learned from, as places in it.
    pub fn mask(&self) -> Mask {
        self.arena.mask_of(&self.range).unwrap_or_default()
    }

    /// Whether it has other ids than the tokenizer made, and nobody has said which of them are learned from.
    pub(crate) fn is_mask_lost(&self) -> bool {
        self.arena.is_mask_lost()
    }

    /// Returns the same run of the same document with as many other ids, charged to the memory budget of its lane.
    pub(super) fn replaced(&self, ids: Vec<u32>) -> Self {
        Self { range: 0..ids.len(), arena: self.arena.mapped(&self.range, ids), ..self.clone() }
    }

    /// The ids, if a custom stage or source made them.
    pub(crate) fn custom_ids(&self) -> Option<&[u32]> {
        self.arena.custom_ids(&self.range)
    }

    pub(crate) fn append_to(&self, ids: &mut Vec<u32>) {
        self.arena.append(&self.range, self.offset, self.document.0, ids);
    }

    /// The number of ids of the whole document, and the bytes of its text.
    pub(crate) fn document(&self) -> (usize, usize) {
        self.document
    }

    /// The number of ids.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The index of the first id in its document; 0 at the document's start.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Where the document begins.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The value of a column of the document; `None` if the `columns` of its source do not name it.
    pub fn column(&self, name: &str) -> Option<&ColumnValue> {
        self.columns.as_ref()?.get(name)
    }

    /// All columns that come along.
    pub(crate) fn columns(&self) -> &CarriedColumns {
        &self.columns
    }

    /// The files that the position refers to.
    pub fn files(&self) -> &Arc<Files> {
        &self.arena.files
    }

    /// The last `ids` ids, or all of them if there are fewer.
    pub(crate) fn tail(&self, ids: usize) -> Self {
        let skip = self.len().saturating_sub(ids);
        Self { range: self.range.start + skip..self.range.end, offset: self.offset + skip, ..self.clone() }
    }

    /// Returns the same ids, copied out of their arena if their document is far longer than `ids`, so that a part that
    /// has to wait does not keep megabytes in memory.
    pub(crate) fn detached(self, ids: usize) -> Self {
        if self.document.0 <= ids || !self.arena.is_in_memory() {
            return self;
        }
        let arena = self.arena.detached(&self.range, self.ids().into_owned());
        Self { range: 0..self.len(), arena, ..self }
    }
}
