//! The items of a lane: documents, then their ids, then sequences of them.
//!
//! Text and ids are shared, not copied. Documents of one read share a slab, the ids of one group of documents share an
//! arena, and a sequence only points into arenas. Ids are copied out of an arena, or out of the file of stored ids, when
//! their row is done. A slab or arena is freed when the last of its items is dropped.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use crate::budget::{IDS_PER_BYTE, Lease};
use crate::error::Error;
use crate::files::{Files, Position};
use crate::segment::StoredIds;

mod arena;
mod group;
mod marks;
mod mask;
mod part;
mod sequence;

pub(crate) use arena::{Arena, Around};
pub(crate) use group::{DocumentGroup, DocumentRead, DocumentReads, SplitEvent};
pub(crate) use marks::{Marks, RenderedMarks};
pub use mask::Mask;
pub use part::Part;
pub use sequence::{IdPlace, Sequence};

/// The result of one read, shared by many documents.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) content: SlabContent,
    pub(crate) marks: Marks,
    pub(crate) files: Arc<Files>,
    pub(crate) lease: Lease,
}

/// A slab with a reference count that a few neighbouring documents share. Some are handed out while others are dropped
/// on another thread; without it, all would contend for the slab's own count.
#[derive(Debug)]
pub(crate) struct SharedSlab(Arc<Slab>);

impl SharedSlab {
    pub(crate) fn new(slab: Arc<Slab>) -> Arc<Self> {
        Arc::new(Self(slab))
    }
}

impl Deref for SharedSlab {
    type Target = Slab;

    fn deref(&self) -> &Slab {
        &self.0
    }
}

/// Texts, or ids that were made from texts earlier.
#[derive(Debug)]
pub(crate) enum SlabContent {
    Text(String),
    Ids(StoredIds),
}

/// One training text and where it begins.
#[derive(Clone, Debug)]
pub struct Document {
    slab: Arc<SharedSlab>,
    /// The byte range of its text in the slab, or the range of its ids in their segment.
    range: Range<usize>,
    text_bytes: usize,
    position: Position,
}

impl Document {
    /// Creates a document with this text, from no file.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let slab = Slab {
            content: SlabContent::Text(String::new()),
            marks: Marks::None,
            files: Files::none(),
            lease: Lease::none(),
        };
        Self::of_text(text, slab, Position::default())
    }

    fn of_text(text: String, slab: Slab, position: Position) -> Self {
        let (range, text_bytes) = (0..text.len(), text.len());
        let slab = SharedSlab::new(Arc::new(Slab { content: SlabContent::Text(text), ..slab }));
        Self { slab, range, text_bytes, position }
    }

    /// Creates a document inside a slab.
    pub(crate) fn in_slab(
        slab: Arc<SharedSlab>,
        range: Range<usize>,
        text_bytes: usize,
        position: Position,
    ) -> Self {
        Self { slab, range, text_bytes, position }
    }

    /// Returns the same document with another text, as a normaliser makes it. It keeps its position.
    #[must_use]
    pub fn with_text(&self, text: impl Into<String>) -> Self {
        let text = text.into();
        let bytes = (1 + IDS_PER_BYTE) * text.len();
        let lease = self.lease().budget().map_or_else(Lease::none, |budget| budget.charge(bytes));
        let marks = match self.slab.marks {
            Marks::None => Marks::None,
            Marks::Rendered(_) | Marks::Lost => Marks::Lost,
        };
        let content = SlabContent::Text(String::new());
        let slab = Slab { content, marks, files: self.slab.files.clone(), lease };
        Self::of_text(text, slab, self.position)
    }

    /// The text; empty if the document comes from token shards, which store ids and no text.
    pub fn text(&self) -> &str {
        match &self.slab.content {
            SlabContent::Text(text) => &text[self.range.clone()],
            SlabContent::Ids(_) => "",
        }
    }

    /// The length of the text, in bytes.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// The stored ids that contain its own, and their range there, if the document comes from token shards.
    pub(crate) fn stored_ids(&self) -> Option<(&StoredIds, Range<usize>)> {
        match &self.slab.content {
            SlabContent::Text(_) => None,
            SlabContent::Ids(ids) => Some((ids, self.range.clone())),
        }
    }

    /// How many ids its lease has room for: one for each byte of its text, and one for its end in the file. Stored ids
    /// need none.
    pub(crate) fn most_ids(&self) -> usize {
        match &self.slab.content {
            SlabContent::Text(_) => self.range.len() + 1,
            SlabContent::Ids(_) => 0,
        }
    }

    /// How many ids will be in memory, including those added around the document, if a KiB of text gives `per_kib`.
    pub(crate) fn likely_ids(&self, per_kib: usize) -> usize {
        match &self.slab.content {
            SlabContent::Text(_) => (self.range.len() * per_kib).div_ceil(1024) + 2,
            SlabContent::Ids(_) => 0,
        }
    }

    /// How much work the document is, in bytes of text or in ids.
    pub(crate) fn size(&self) -> usize {
        self.range.len()
    }

    /// Where the document begins.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The file that the document is in; empty if it came from no file.
    pub fn path(&self) -> &Path {
        self.slab.files.path(self.position.file)
    }

    /// The files that its position refers to.
    pub fn files(&self) -> &Arc<Files> {
        &self.slab.files
    }

    /// Its marks. Their places are those of [`slab_range`](Self::slab_range).
    pub(crate) fn marks(&self) -> &Marks {
        &self.slab.marks
    }

    /// The range of its text in the slab, or of its ids in their segment.
    pub(crate) fn slab_range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The budget that its slab was charged to.
    pub(crate) fn lease(&self) -> &Lease {
        &self.slab.lease
    }

    /// Returns an error at this document. This may read the file, to find the line number.
    pub fn error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        error_at(self.files(), self.position, problem.into(), remedy.into())
    }
}

/// The ids of one document, and where its text begins.
///
/// A [token stage](crate::loader::LoaderBuilder::token_stage) can look at the ids, drop the document, or give it other
/// ids:
///
/// ```
/// use millstream::Tokens;
///
/// let tokens = Tokens::new(vec![5, 6, 6, 7], 4);
/// let mut ids = tokens.ids().into_owned();
/// ids.dedup();
/// let tokens = tokens.with_ids(ids);
/// assert_eq!(*tokens.ids(), [5, 6, 7]);
/// assert_eq!(tokens.text_bytes(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    arena: Arc<Arena>,
    range: Range<usize>,
    text_bytes: usize,
    position: Position,
}

impl Tokens {
    /// Creates a document with these ids, made from `text_bytes` bytes of text from no file.
    pub fn new(ids: Vec<u32>, text_bytes: usize) -> Self {
        let range = 0..ids.len();
        let arena = Arena::custom(ids, Files::none(), Lease::none());
        Self { arena, range, text_bytes, position: Position::default() }
    }

    /// Returns the same document with other ids, as many as you like. It keeps its position and its text length. The
    /// ids are charged to the memory budget of its lane.
    ///
    /// In a loader the ids must be less than the tokenizer's vocabulary size; otherwise the stage that gives them fails
    /// with an [`Error::Stage`].
    #[must_use]
    pub fn with_ids(&self, ids: Vec<u32>) -> Self {
        Self { range: 0..ids.len(), arena: self.arena.replaced(ids), ..self.clone() }
    }

    /// The ids, if a custom stage or source made them.
    pub(crate) fn custom_ids(&self) -> Option<&[u32]> {
        self.arena.custom_ids(&self.range)
    }

    /// Creates a document whose ids are in an arena.
    pub(crate) fn in_arena(
        arena: Arc<Arena>,
        range: Range<usize>,
        text_bytes: usize,
        position: Position,
    ) -> Self {
        Self { arena, range, text_bytes, position }
    }

    /// The ids, with `bos` and `eos` if they are configured. Stored ids are copied out of their file.
    pub fn ids(&self) -> Cow<'_, [u32]> {
        self.arena.ids(&self.range, 0, self.len())
    }

    /// The number of ids.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The length of the text that the ids were made from, in bytes.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Where the document begins.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The files that the position refers to.
    pub fn files(&self) -> &Arc<Files> {
        &self.arena.files
    }

    /// The file that the document is in; empty if it came from no file.
    pub fn path(&self) -> &Path {
        self.files().path(self.position.file)
    }

    /// Returns an error at this document. This may read the file, to find the line number.
    pub fn error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        error_at(self.files(), self.position, problem.into(), remedy.into())
    }
}

fn error_at(files: &Files, position: Position, problem: String, remedy: String) -> Error {
    Error::Document {
        path: files.path(position.file).to_owned(),
        line: files.line_or_none(position),
        unit: files.unit(position.file),
        byte: position.byte,
        problem,
        remedy,
    }
}
