//! What flows through a lane: documents, then their ids, then sequences of them.
//!
//! Text and ids are shared, not copied: documents of one read lie in one slab, the ids of one group
//! of documents in one arena, and a sequence only points into arenas. The ids are copied for the
//! first and last time when a batch is made, those of token shards out of their file. A slab or arena is
//! freed when the last of its items is dropped.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use crate::budget::{IDS_PER_BYTE, Lease};
use crate::error::Error;
use crate::files::Files;
use crate::shards::Segment;

mod arena;

pub(crate) use arena::{Arena, Around};

/// Where a document begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The file, by its place in the corpus's [`Files`].
    pub file: u32,
    /// The line, from 1, counted from the one that `from` lies in; 0 where lines mean nothing.
    /// [`Files::line`] says which line of the file that is.
    pub line: u64,
    /// The offset in the file's text, in bytes, or the number of the row, from 0, where the file's unit is rows.
    pub byte: u64,
    /// The offset in the file that lines are counted from, in bytes: where the document's split begins.
    pub from: u64,
}

/// What one read gave, which many documents share.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) content: Content,
    pub(crate) files: Arc<Files>,
    pub(crate) lease: Lease,
}

/// A slab with a count that a few neighbouring documents share: some are handed out while others are dropped on another
/// thread, and all would else wait for each other at the slab's own count.
#[derive(Debug)]
pub(crate) struct Shared(Arc<Slab>);

impl Shared {
    pub(crate) fn new(slab: Arc<Slab>) -> Arc<Self> {
        Arc::new(Self(slab))
    }
}

impl Deref for Shared {
    type Target = Slab;

    fn deref(&self) -> &Slab {
        &self.0
    }
}

/// Texts, or ids that were made of texts before.
#[derive(Debug)]
pub(crate) enum Content {
    Text(String),
    Ids(Arc<Segment>),
}

/// One training text and where it begins.
#[derive(Clone, Debug)]
pub struct Document {
    slab: Arc<Shared>,
    /// The bytes of its text in the slab, or its ids in their segment.
    range: Range<usize>,
    text_bytes: usize,
    position: Position,
}

impl Document {
    /// A document of one's own, from no file.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let slab = Slab { files: Files::none(), lease: Lease::none(), content: Content::Text(String::new()) };
        Self::of_text(text, slab, Position::default())
    }

    fn of_text(text: String, slab: Slab, position: Position) -> Self {
        let (range, text_bytes) = (0..text.len(), text.len());
        let slab = Shared::new(Arc::new(Slab { content: Content::Text(text), ..slab }));
        Self { slab, range, text_bytes, position }
    }

    /// A document that lies in a slab.
    pub(crate) fn in_slab(
        slab: Arc<Shared>,
        range: Range<usize>,
        text_bytes: usize,
        position: Position,
    ) -> Self {
        Self { slab, range, text_bytes, position }
    }

    /// The same document with another text, as a normaliser makes it. It keeps its position.
    #[must_use]
    pub fn with_text(&self, text: impl Into<String>) -> Self {
        let text = text.into();
        let bytes = (1 + IDS_PER_BYTE) * text.len();
        let lease = self.lease().budget().map_or_else(Lease::none, |budget| budget.charge(bytes));
        let slab = Slab { content: Content::Text(String::new()), files: self.slab.files.clone(), lease };
        Self::of_text(text, slab, self.position)
    }

    /// The text; empty if the document comes from token shards, which have its ids and not its text.
    pub fn text(&self) -> &str {
        match &self.slab.content {
            Content::Text(text) => &text[self.range.clone()],
            Content::Ids(_) => "",
        }
    }

    /// The length of the text, in bytes.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// The segment that its ids are in, and where there, if it comes from token shards.
    pub(crate) fn stored_ids(&self) -> Option<(&Arc<Segment>, Range<usize>)> {
        match &self.slab.content {
            Content::Text(_) => None,
            Content::Ids(segment) => Some((segment, self.range.clone())),
        }
    }

    /// How many ids there is room for in its lease: one for each byte of its text and for what ends it in its file. Those
    /// that are stored need none.
    pub(crate) fn most_ids(&self) -> usize {
        match &self.slab.content {
            Content::Text(_) => self.range.len() + 1,
            Content::Ids(_) => 0,
        }
    }

    /// How many ids there will be in memory, with what is put around them, if a KiB of text has `per_kib`.
    pub(crate) fn likely_ids(&self, per_kib: usize) -> usize {
        match &self.slab.content {
            Content::Text(_) => (self.range.len() * per_kib).div_ceil(1024) + 2,
            Content::Ids(_) => 0,
        }
    }

    /// How much of a job it is, in bytes of text or in ids.
    pub(crate) fn size(&self) -> usize {
        self.range.len()
    }

    /// Where it begins.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The file that it lies in; empty if it came from none.
    pub fn path(&self) -> &Path {
        self.slab.files.path(self.position.file)
    }

    /// The files that its position numbers.
    pub fn files(&self) -> &Arc<Files> {
        &self.slab.files
    }

    /// The budget that its slab was charged to.
    pub(crate) fn lease(&self) -> &Lease {
        &self.slab.lease
    }

    /// An error at this document. It may read the file, to say on which line that is.
    pub fn error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Document {
            path: self.path().to_owned(),
            line: self.files().line_or_none(self.position),
            unit: self.files().unit(self.position.file),
            byte: self.position.byte,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// One document's ids, and where its text begins.
#[derive(Clone, Debug)]
pub struct Tokens {
    arena: Arc<Arena>,
    range: Range<usize>,
    text_bytes: usize,
    position: Position,
}

impl Tokens {
    /// Ids of one's own, made of `text_bytes` bytes of text from no file.
    pub fn new(ids: Vec<u32>, text_bytes: usize) -> Self {
        let range = 0..ids.len();
        let arena = Arena::made(ids, Files::none(), Lease::none());
        Self { arena, range, text_bytes, position: Position::default() }
    }

    /// Ids that lie in an arena.
    pub(crate) fn in_arena(
        arena: Arc<Arena>,
        range: Range<usize>,
        text_bytes: usize,
        position: Position,
    ) -> Self {
        Self { arena, range, text_bytes, position }
    }

    /// The ids, with `bos` and `eos` if they are configured. Those of token shards are copied out of their file.
    pub fn ids(&self) -> Cow<'_, [u32]> {
        self.arena.ids(&self.range, (0, self.len()))
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The length of the text that they were made of, in bytes.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Where the document begins.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The files that the position numbers.
    pub fn files(&self) -> &Arc<Files> {
        &self.arena.files
    }
}

/// A run of one document's ids.
#[derive(Clone, Debug)]
pub struct Part {
    arena: Arc<Arena>,
    range: Range<usize>,
    offset: usize,
    /// The whole document's ids, and the bytes of its text.
    document: (usize, usize),
    position: Position,
}

impl Part {
    /// The ids `range` of a document.
    ///
    /// # Panics
    /// If the document has not so many.
    pub fn new(tokens: &Tokens, range: Range<usize>) -> Self {
        assert!(range.end <= tokens.len(), "{range:?} is no part of {} ids", tokens.len());
        let start = tokens.range.start;
        Self {
            arena: tokens.arena.clone(),
            range: start + range.start..start + range.end,
            offset: range.start,
            document: (tokens.len(), tokens.text_bytes),
            position: tokens.position,
        }
    }

    /// The ids of a document from `first` on.
    pub(crate) fn rest(tokens: Tokens, first: usize) -> Self {
        let document = (tokens.len(), tokens.text_bytes);
        let range = tokens.range.start + first..tokens.range.end;
        Self { arena: tokens.arena, range, offset: first, document, position: tokens.position }
    }

    /// The ids. Those of token shards are copied out of their file.
    pub fn ids(&self) -> Cow<'_, [u32]> {
        self.arena.ids(&self.range, (self.offset, self.document.0))
    }

    /// Appends the ids.
    pub(crate) fn append_to(&self, ids: &mut Vec<u32>) {
        self.arena.append(&self.range, (self.offset, self.document.0), ids);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Which of the document's ids is the first; 0 where the document starts.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Where the document begins.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The files that the position numbers.
    pub fn files(&self) -> &Arc<Files> {
        &self.arena.files
    }

    /// Its last `ids` ids, or all that it has if they are fewer.
    pub(crate) fn tail(&self, ids: usize) -> Self {
        let skip = self.len().saturating_sub(ids);
        Self { range: self.range.start + skip..self.range.end, offset: self.offset + skip, ..self.clone() }
    }

    /// The bytes of text that the ids `range` of this part stand for: the document's, shared out evenly.
    pub(crate) fn text_bytes(&self, range: Range<usize>) -> u64 {
        let (ids, bytes) = self.document;
        // Most parts are whole documents, and a division takes as long as copying some hundred ids.
        let before = |id: usize| match id {
            0 => 0,
            id if id == ids => bytes as u64,
            id => (id * bytes / ids) as u64,
        };
        before(self.offset + range.end) - before(self.offset + range.start)
    }

    /// The same ids, copied out of their arena if their document is far longer than `ids`: what has to
    /// wait must not keep megabytes alive.
    pub(crate) fn detached(self, ids: usize) -> Self {
        if self.document.0 <= ids || !self.arena.is_in_memory() {
            return self;
        }
        let arena = Arena::made(self.ids().into_owned(), self.files().clone(), Lease::none());
        Self { range: 0..self.len(), arena, ..self }
    }
}

/// One row to be: at most `seq_len + 1` ids, as parts of documents.
///
/// Inputs are all ids but the last, targets all but the first. Consecutive rows of concatenated
/// documents overlap by one id, so that every id but the stream's first is a target exactly once.
#[derive(Clone, Debug)]
pub struct Sequence {
    parts: Vec<Part>,
    len: usize,
    width: usize,
}

impl Sequence {
    /// A row of `width` ids, `seq_len + 1`, that holds `parts`; what they do not fill is padding.
    ///
    /// # Panics
    /// If the parts are longer than `width`.
    pub fn new(parts: Vec<Part>, width: usize) -> Self {
        let len = parts.iter().map(Part::len).sum();
        assert!(len <= width, "the parts of a sequence are {len} ids long, and it holds {width}");
        Self { parts, len, width }
    }

    /// The same row without the parts of documents that `is_excluded`: what follows them moves up, and padding
    /// behind it takes their room.
    pub(crate) fn without(mut self, is_excluded: impl Fn(&Position) -> bool) -> Self {
        self.parts.retain(|part| !is_excluded(&part.position));
        self.len = self.parts.iter().map(Part::len).sum();
        self
    }

    /// The same row, `width` ids wide.
    ///
    /// # Panics
    /// If it is longer.
    pub(crate) fn with_width(self, width: usize) -> Self {
        Self::new(self.parts, width)
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// How many ids it holds, padding aside.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `seq_len + 1`: the ids and the padding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The ids, without padding.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().flat_map(|part| {
            let ids = part.ids();
            (0..ids.len()).map(move |at| ids[at])
        })
    }
}
