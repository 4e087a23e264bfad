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
use crate::meter::Skipped;
use crate::segment::StoredIds;

mod arena;
mod columns;
mod group;
mod label;
mod marks;
mod mask;
mod part;
mod sequence;

pub(crate) use arena::{Arena, Around};
pub use columns::ColumnValue;
pub(crate) use columns::{CarriedColumns, Columns};
pub(crate) use group::{DocumentGroup, DocumentRead, DocumentReads, SplitEvent};
pub use label::{label, quoted};
pub use marks::Truncate;
pub(crate) use marks::{EncodedTexts, Marks, RenderedMarks};
pub use mask::Mask;
pub use part::Part;
pub use sequence::{IdPlace, Sequence};

/// Where the ids of a stored document are that has none, because the tokenizer failed on it.
pub(crate) const NO_IDS: Range<usize> = usize::MAX..usize::MAX;

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
    columns: CarriedColumns,
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
        Self { slab, range, text_bytes, position, columns: None }
    }

    /// Creates a document inside a slab.
    pub(crate) fn in_slab(
        slab: Arc<SharedSlab>,
        range: Range<usize>,
        text_bytes: usize,
        position: Position,
        columns: CarriedColumns,
    ) -> Self {
        Self { slab, range, text_bytes, position, columns }
    }

    /// Returns the same document with another text, as a normaliser makes it. It keeps its position.
    ///
    /// If the document was rendered from a record, or has a mask, nobody knows which bytes of the other text are learned
    /// from: say it with [`with_mask`](Self::with_mask). Otherwise the stage fails with an [`Error::Stage`].
    #[must_use]
    pub fn with_text(&self, text: impl Into<String>) -> Self {
        let marks = match self.slab.marks {
            Marks::None => Marks::None,
            Marks::Rendered(_) | Marks::Lost => Marks::Lost,
        };
        self.of_same_place(text.into(), marks)
    }

    /// Returns the same document, of whose text only the bytes that `mask` does not mask are learned from.
    ///
    /// Like a rendered text it then has all its special tokens in its text: none are put around it, and only
    /// [`with_special_tokens`](Self::with_special_tokens) makes special tokens of its bytes. Those of a rendered text
    /// stay, unless the text was replaced.
    ///
    /// ```
    /// use millstream::Document;
    /// use millstream::document::Mask;
    ///
    /// let text = "2 + 2 = 4";
    /// let document = Document::new(text).with_mask(Mask::learning([8..9], text.len()));
    /// assert_eq!(document.mask().masked(), [0..8]);
    /// ```
    ///
    /// # Panics
    /// If it masks bytes beyond the text. A document of token shards has no text, only ids: give
    /// [`Tokens`] a mask instead.
    #[must_use]
    pub fn with_mask(&self, mask: Mask) -> Self {
        let (end, len) = (mask.end(), self.text().len());
        assert!(end <= len, "a mask of {end} bytes for a text of {len}");
        self.with_marks(RenderedMarks { mask, ..self.rendered_marks() })
    }

    /// Returns the same document, of whose text these ranges, in bytes, are the spellings of special tokens. The same
    /// spellings elsewhere are plain text. Otherwise it is as after [`with_mask`](Self::with_mask).
    ///
    /// # Panics
    /// If the ranges are not sorted, overlap, or end beyond the text.
    #[must_use]
    pub fn with_special_tokens(&self, ranges: impl IntoIterator<Item = Range<usize>>) -> Self {
        let (special, len) = (ranges.into_iter().collect::<Vec<_>>(), self.text().len());
        let ends = std::iter::once(0).chain(special.iter().map(|range| range.end));
        let are_sorted =
            special.iter().zip(ends).all(|(range, end)| end <= range.start && range.start <= range.end);
        let fit = special.last().is_none_or(|last| last.end <= len);
        assert!(are_sorted && fit, "special tokens at {special:?} of {len} bytes");
        self.with_marks(RenderedMarks { special, ..self.rendered_marks() })
    }

    fn with_marks(&self, marks: RenderedMarks) -> Self {
        match &self.slab.content {
            SlabContent::Text(_) => {
                self.of_same_place(self.text().to_owned(), Marks::Rendered(Box::new(marks)))
            }
            SlabContent::Ids(_) => self.clone(),
        }
    }

    /// The document at the same place with this text, charged to the same budget.
    fn of_same_place(&self, text: String, marks: Marks) -> Self {
        let bytes = (1 + IDS_PER_BYTE) * text.len();
        let lease = self.lease().budget().map_or_else(Lease::none, |budget| budget.charge(bytes));
        let content = SlabContent::Text(String::new());
        let slab = Slab { content, marks, files: self.slab.files.clone(), lease };
        Self { columns: self.columns.clone(), ..Self::of_text(text, slab, self.position) }
    }

    /// Which bytes of its text are learned from; of a document of token shards, which of its ids.
    pub fn mask(&self) -> Mask {
        self.rendered_marks().mask
    }

    /// The ranges of its text, in bytes, that are special tokens. Only a rendered text has some.
    pub fn special_tokens(&self) -> Vec<Range<usize>> {
        self.rendered_marks().special
    }

    /// Its marks, with places in its own text; none of a plain text.
    fn rendered_marks(&self) -> RenderedMarks {
        match &self.slab.marks {
            Marks::Rendered(marks) => marks.within(&self.range),
            Marks::None | Marks::Lost => RenderedMarks::default(),
        }
    }

    /// The text; empty if the document comes from token shards, which store ids and no text.
    #[inline]
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

    /// The stored ids that contain its own, and their range there, if the document comes from token shards: [`NO_IDS`] if it
    /// has none.
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
    #[inline]
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

    /// The value of a column; `None` if the `columns` of its source do not name it.
    pub fn column(&self, name: &str) -> Option<&ColumnValue> {
        self.columns.as_ref()?.get(name)
    }

    /// All columns that come along.
    pub(crate) fn columns(&self) -> &CarriedColumns {
        &self.columns
    }

    /// Its marks. Their places are those of [`slab_range`](Self::slab_range).
    pub(crate) fn marks(&self) -> &Marks {
        &self.slab.marks
    }

    /// Whether its text is another than was rendered, and nobody has said which bytes are learned from.
    pub(crate) fn is_mask_lost(&self) -> bool {
        matches!(self.slab.marks, Marks::Lost)
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

    /// Returns the record of this document if it is skipped for a reason. This may read the file, as an error does.
    pub(crate) fn skipped(&self, reason: String) -> Skipped {
        self.files().skipped(self.position, reason)
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
    columns: CarriedColumns,
}

impl Tokens {
    /// Creates a document with these ids, made from `text_bytes` bytes of text from no file.
    pub fn new(ids: Vec<u32>, text_bytes: usize) -> Self {
        let range = 0..ids.len();
        let arena = Arena::custom(ids, Files::none(), Lease::none());
        Self { arena, range, text_bytes, position: Position::default(), columns: None }
    }

    /// Returns the same document with other ids, as many as you like. It keeps its position and its text length. The
    /// ids are charged to the memory budget of its lane.
    ///
    /// In a loader the ids must be less than the tokenizer's vocabulary size; otherwise the stage that gives them fails
    /// with an [`Error::Stage`]. So it does if only some of the old ids are learned from, and you do not say which of the
    /// new ones are: [`with_mask`](Self::with_mask).
    #[must_use]
    pub fn with_ids(&self, ids: Vec<u32>) -> Self {
        Self { range: 0..ids.len(), arena: self.arena.replaced(&self.range, ids), ..self.clone() }
    }

    /// Returns the same ids, of which those that `mask` does not mask are learned from. They are copied, and charged to the
    /// memory budget of their lane.
    ///
    /// ```
    /// use millstream::Tokens;
    /// use millstream::document::Mask;
    ///
    /// let tokens = Tokens::new(vec![5, 6, 7], 3).with_mask(Mask::learning([2..3], 3));
    /// let twice = [tokens.ids(), tokens.ids()].concat();
    /// let mask = Mask::learning([2..3, 5..6], twice.len());
    /// let tokens = tokens.with_ids(twice).with_mask(mask);
    /// assert_eq!(tokens.mask().masked(), [0..2, 3..5]);
    /// ```
    ///
    /// # Panics
    /// If it masks more ids than there are.
    #[must_use]
    pub fn with_mask(&self, mask: Mask) -> Self {
        let (end, len) = (mask.end(), self.len());
        assert!(end <= len, "a mask of {end} ids for {len}");
        Self { range: 0..len, arena: self.arena.with_mask(&self.range, mask), ..self.clone() }
    }

    /// Which of its ids are learned from. After [`with_ids`](Self::with_ids) all are, until you say otherwise.
    pub fn mask(&self) -> Mask {
        self.arena.mask_of(&self.range).unwrap_or_default()
    }

    /// Whether all ids of its group are learned from.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.arena.is_plain()
    }

    /// Whether some of its ids are not learned from.
    pub(crate) fn is_masked(&self) -> bool {
        self.arena.is_masked(&self.range)
    }

    /// Whether it has other ids than the tokenizer made, and nobody has said which of them are learned from.
    pub(crate) fn is_mask_lost(&self) -> bool {
        self.arena.is_mask_lost()
    }

    /// The same document without ids: packing passes over it.
    pub(crate) fn without_ids(self) -> Self {
        Self { range: self.range.start..self.range.start, ..self }
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
        columns: CarriedColumns,
    ) -> Self {
        Self { arena, range, text_bytes, position, columns }
    }

    /// The ids, with `bos` and `eos` if they are configured. Stored ids are copied out of their file.
    pub fn ids(&self) -> Cow<'_, [u32]> {
        self.arena.ids(&self.range, 0, self.len())
    }

    /// The number of ids.
    #[inline]
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

    /// The value of a column; `None` if the `columns` of its source do not name it.
    pub fn column(&self, name: &str) -> Option<&ColumnValue> {
        self.columns.as_ref()?.get(name)
    }

    /// The file that the document is in; empty if it came from no file.
    pub fn path(&self) -> &Path {
        self.files().path(self.position.file)
    }

    /// Returns an error at this document. This may read the file, to find the line number.
    pub fn error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        error_at(self.files(), self.position, problem.into(), remedy.into())
    }

    /// Returns the record of this document if it is skipped for a reason. This may read the file, as an error does.
    pub(crate) fn skipped(&self, reason: String) -> Skipped {
        self.files().skipped(self.position, reason)
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
