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
use crate::files::{Files, Position};
use crate::segment::Segment;

mod arena;
mod part;
mod sequence;

pub(crate) use arena::{Arena, Around};
pub use part::Part;
pub use sequence::Sequence;

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
