//! The documents of one read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::budget::Moving;
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{CarriedColumns, Document, DocumentGroup, SharedSlab, Slab, SlabContent, SplitEvent};
use crate::error::Error;
use crate::files::Position;
use crate::segment::Boundary;
use crate::source::split::{DealtSplit, Lines, Split};

/// How many bytes of a slab share one reference count: some documents are dropped while others are handed out.
const SHARED_BYTES: usize = 32 << 10;

/// Documents from a few slabs, in order, and the state after them.
#[derive(Debug)]
pub(crate) struct Group {
    slabs: Vec<Arc<Slab>>,
    /// The slab of the documents that are being handed out, its number, and how much more of it they may share.
    shared: Option<(usize, Arc<SharedSlab>)>,
    left: usize,
    items: Vec<Item>,
    /// The columns that come along with each document, up to the last one that has some.
    columns: Vec<CarriedColumns>,
    /// The digest of each document's record, if these were rendered for token shards.
    digests: Vec<u64>,
    origins: Vec<Sited>,
    runs: Vec<CursorRun>,
    next: usize,
    run: usize,
    pub(crate) after: GroupEnd,
    /// What happened between the documents, each with the number of documents before it.
    pub(crate) events: VecDeque<(usize, SplitEvent)>,
    /// Kept until the last document has been handed out or tokenized.
    pub(crate) moving: Option<Moving>,
}

/// The state after a group.
#[derive(Debug)]
pub(crate) enum GroupEnd {
    More,
    End,
    Failed(Error),
}

/// One document: where it is in the slab, and where it begins in its file.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) range: Range<usize>,
    pub(crate) text_bytes: usize,
    pub(crate) start: Boundary,
    /// The share of epochs that include it.
    pub(crate) share: f64,
    /// The number of its `DealtSplit`.
    pub(crate) of: u32,
    /// How many documents its record has up to it, if there are more; 0 for the last one.
    pub(crate) sample: u32,
}

/// An origin, and the number of the slab that holds its documents.
#[derive(Clone, Copy, Debug)]
struct Sited {
    slab: usize,
    origin: DealtSplit,
}

/// Documents from `first` on whose cursors differ only in their places, and in the count, which goes up by one.
#[derive(Debug)]
struct CursorRun {
    first: usize,
    cursor: LaneCursor,
}

impl Group {
    /// No documents.
    pub(crate) fn empty(after: GroupEnd) -> Self {
        Self {
            slabs: Vec::new(),
            shared: None,
            left: 0,
            items: Vec::new(),
            columns: Vec::new(),
            digests: Vec::new(),
            origins: Vec::new(),
            runs: Vec::new(),
            next: 0,
            run: 0,
            after,
            events: VecDeque::new(),
            moving: None,
        }
    }

    /// An empty group with room for `documents`.
    pub(crate) fn with_room(documents: usize) -> Self {
        Self { items: Vec::with_capacity(documents), ..Self::empty(GroupEnd::More) }
    }

    /// The number of documents, and the bytes of their texts.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.items.len(), self.items.iter().map(|item| item.text_bytes).sum())
    }

    /// The length of the texts that were added last, in bytes.
    pub(crate) fn text_len(&self) -> usize {
        match self.slabs.last().map(|slab| &slab.content) {
            Some(SlabContent::Text(text)) => text.len(),
            Some(SlabContent::Ids(_)) | None => 0,
        }
    }

    /// Whether documents are left.
    pub(crate) fn has_next(&self) -> bool {
        self.next < self.items.len()
    }

    /// Returns the next document. It is made where it is wanted: being moved would cost as much again.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Tracked<Document>> {
        let item = self.items.get(self.next)?;
        while self.runs.get(self.run + 1).is_some_and(|run| run.first <= self.next) {
            self.run += 1;
        }
        let (run, Sited { slab: number, origin }) = (&self.runs[self.run], self.origins[item.of as usize]);
        self.next += 1;
        let mut cursor = run.cursor;
        (cursor.split, cursor.byte, cursor.sample) =
            (origin.ordinal, item.start.byte, u64::from(item.sample));
        cursor.documents += (self.next - run.first) as u64;
        let position = origin.split.position(item.start);
        let slab = match &self.shared {
            Some((shared, slab)) if *shared == number && self.left >= item.range.len() => slab.clone(),
            _ => {
                self.left = SHARED_BYTES;
                let slab = SharedSlab::new(self.slabs[number].clone());
                self.shared = Some((number, slab.clone()));
                slab
            }
        };
        self.left = self.left.saturating_sub(item.range.len());
        let columns = self.columns.get(self.next - 1).cloned().flatten();
        let (range, text_bytes) = (item.range.clone(), item.text_bytes);
        Some(Tracked::new(Document::in_slab(slab, range, text_bytes, position, columns), cursor))
    }

    /// All of its documents, and the state after them.
    pub(crate) fn into_documents(mut self) -> DocumentGroup {
        let mut documents = Vec::with_capacity(self.items.len());
        while let Some(document) = self.pop() {
            documents.push(document);
        }
        let error = match self.after {
            GroupEnd::Failed(error) => Some(error),
            GroupEnd::More | GroupEnd::End => None,
        };
        DocumentGroup { documents, events: self.events, error, moving: self.moving }
    }

    /// The notes on the document that was handed out last, and the digest of its record if it was rendered.
    pub(crate) fn last(&self) -> Option<(&Item, Option<u64>)> {
        let last = self.next.checked_sub(1)?;
        Some((self.items.get(last)?, self.digests.get(last).copied()))
    }

    /// Adds an origin whose documents are in slab `slab`, and returns its number.
    pub(crate) fn origin(&mut self, slab: usize, origin: DealtSplit) -> u32 {
        self.origins.push(Sited { slab, origin });
        self.origins.len() as u32 - 1
    }

    /// The number of the slab that is added next.
    pub(crate) fn next_slab(&self) -> usize {
        self.slabs.len()
    }

    /// Appends a document, and the columns that come along with it. `cursor` is the one before it.
    #[inline]
    pub(crate) fn append(&mut self, cursor: &LaneCursor, item: Item, columns: CarriedColumns) {
        let first = self.items.len();
        let goes_on = self.runs.last().is_some_and(|run| {
            let counts = (run.cursor.skipped, run.cursor.documents + (first - run.first) as u64);
            counts == (cursor.skipped, cursor.documents)
        });
        if !goes_on {
            self.runs.push(CursorRun { first, cursor: *cursor });
        }
        self.items.push(item);
        if columns.is_some() {
            self.carry(first, columns);
        }
    }

    /// Has columns come along with document `nth`.
    #[inline(never)]
    pub(crate) fn carry(&mut self, nth: usize, columns: CarriedColumns) {
        if self.columns.len() <= nth {
            self.columns.resize(nth + 1, None);
        }
        self.columns[nth] = columns;
    }

    /// Counts a document of origin `of` that begins at `start` and is skipped.
    pub(crate) fn skip(&mut self, cursor: &mut LaneCursor, of: u32, start: Boundary) {
        cursor.skipped += 1;
        let split = self.origins[of as usize].origin.ordinal;
        self.note(SplitEvent::Skip { split, start });
    }

    /// Counts a document that is left out, and that `on_error` does not count.
    #[cold]
    pub(crate) fn leave_out(&mut self, cursor: &mut LaneCursor, of: u32, start: Boundary) {
        cursor.skipped_otherwise += 1;
        // Documents do not compare this number, so that it costs them nothing: a new run begins with it here.
        let (first, cursor) = (self.items.len(), *cursor);
        self.runs.pop_if(|run| run.first == first);
        self.runs.push(CursorRun { first, cursor });
        let split = self.origins[of as usize].origin.ordinal;
        self.note(SplitEvent::LeftOut { split, start });
    }

    /// Counts a document that its task leaves out. With the digest of its record, for token shards, it has a place without a
    /// text: whether it counts depends on who reads them.
    #[cold]
    pub(super) fn leave_out_record(
        &mut self,
        cursor: &mut LaneCursor,
        item: Item,
        columns: &CarriedColumns,
        digest: Option<u64>,
    ) {
        if digest.is_none() {
            return self.leave_out(cursor, item.of, item.start);
        }
        self.digests.extend(digest);
        self.append(cursor, item, columns.clone());
        cursor.documents += 1;
    }

    /// Notes an event after the documents so far.
    pub(crate) fn note(&mut self, event: SplitEvent) {
        self.events.push_back((self.items.len(), event));
    }

    /// Returns the next event, if it comes before the next document.
    pub(crate) fn pop_event(&mut self) -> Option<SplitEvent> {
        self.events.pop_front_if(|(before, _)| *before <= self.next).map(|(_, event)| event)
    }

    /// How many bytes the columns take that come along.
    pub(super) fn column_bytes(&self) -> usize {
        self.columns.iter().flatten().map(|columns| columns.bytes()).sum()
    }

    /// Adds the digest of the next document's record.
    pub(super) fn add_digest(&mut self, digest: Option<u64>) {
        self.digests.extend(digest);
    }

    /// Adds a slab, for documents that were appended.
    pub(crate) fn add(&mut self, slab: Slab) {
        self.slabs.push(Arc::new(slab));
    }
}

impl Split {
    pub(crate) fn position(&self, boundary: Boundary) -> Position {
        let (line, from) = match self.lines {
            Lines::Unknown => (0, 0),
            Lines::From(byte) => (boundary.line + 1, byte),
            Lines::FromFile => (boundary.line + 1, boundary.byte),
        };
        Position { file: self.file, line, byte: boundary.byte, from }
    }
}
