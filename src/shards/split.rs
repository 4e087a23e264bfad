//! The tokens of one split: its documents, where they begin in their file, their ids, which of these are masked, and the
//! columns that come along.
//!
//! A split of a local segment is mapped into memory. A split of a segment in a store is read block by block, through a
//! lane's opener, as far as requested.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::remote::RemoteSplit;
use crate::budget::Lease;
use crate::document::{CarriedColumns, Columns, Mask};
use crate::error::{Error, Result};
use crate::segment::{
    BLOCK, Entry, EntryEnd, HeldIds, IdsOrigin, NOTE, Notes, Segment, SplitRow, StoredIds, Width, notes,
};
use crate::store::Stored;
use crate::threads::lock;

#[cfg(test)]
mod tests;

/// A split of at most this many bytes is requested as one range.
const TOGETHER: u64 = 128 << 10;

/// The tokens of one split. Clones share what is read.
#[derive(Clone, Debug)]
pub(crate) struct StoredSplit {
    bytes: Bytes,
    row: SplitRow,
    width: Width,
    is_delivered: bool,
    /// Which of its columns are wanted; `None` for none.
    columns: Option<Arc<[String]>>,
}

/// What is stored of a document beside its ids.
#[derive(Debug, Default)]
pub(crate) struct StoredNotes {
    /// Which of its ids are not learned from, counted from its first.
    pub(crate) mask: Mask,
    pub(crate) columns: CarriedColumns,
}

#[derive(Clone, Debug)]
enum Bytes {
    Mapped(Arc<Segment>, usize),
    /// A segment in a store, not opened yet.
    Unopened(Arc<RemoteSegment>),
    Opened(Arc<RemoteSegment>, Arc<Mutex<RemoteSplit>>),
}

#[derive(Debug)]
pub(crate) struct RemoteSegment {
    /// Its number among those of its source.
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) origin: IdsOrigin,
}

/// A split of a segment in a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemotePiece<'a> {
    pub(super) segment: &'a RemoteSegment,
    pub(super) row: SplitRow,
    pub(super) width: Width,
}

impl StoredSplit {
    /// At how many places it is read at once: its ids, its index, and its notes or the rest of either.
    pub(crate) const PLACES: u64 = 3;

    /// All documents of a split of a local segment.
    pub(crate) fn mapped(segment: Arc<Segment>, number: usize) -> Self {
        let (row, width) = (segment.rows()[number], segment.width());
        Self { bytes: Bytes::Mapped(segment, number), row, width, is_delivered: false, columns: None }
    }

    /// The documents of a split that was stored after the hold-out was drawn: every reader takes all of them.
    pub(crate) fn delivered(segment: Arc<Segment>, number: usize) -> Self {
        Self { is_delivered: true, ..Self::mapped(segment, number) }
    }

    /// All documents of a split of a segment in a store. It has to be [opened](Self::opened) before they are read.
    pub(super) fn remote(segment: Arc<RemoteSegment>, row: SplitRow, width: Width) -> Self {
        Self { bytes: Bytes::Unopened(segment), row, width, is_delivered: false, columns: None }
    }

    /// The same split, of whose columns these come along.
    pub(crate) fn with_columns(self, columns: Option<Arc<[String]>>) -> Self {
        Self { columns, ..self }
    }

    /// The same split, ready to be read. `open` opens a segment in a store by its number in the source.
    pub(crate) fn opened(&self, open: impl FnOnce(u32) -> Result<Arc<dyn Stored>>) -> Result<Self> {
        let bytes = match &self.bytes {
            Bytes::Mapped(segment, number) => Bytes::Mapped(segment.clone(), *number),
            Bytes::Unopened(segment) | Bytes::Opened(segment, _) => {
                let split = RemoteSplit::new(open(segment.number)?, self.row, self.width);
                Bytes::Opened(segment.clone(), Arc::new(Mutex::new(split)))
            }
        };
        Ok(Self { bytes, ..self.clone() })
    }

    /// If it is in a store, the number of its segment in the source, and the bytes there that are read side by side:
    /// its index, its notes, and its ids. The checksums are behind the last of the first two.
    pub(crate) fn remote_ranges(&self) -> Option<(u32, Vec<Range<u64>>)> {
        let (Bytes::Unopened(segment) | Bytes::Opened(segment, _)) = &self.bytes else { return None };
        let (row, width, block) = (&self.row, self.width, BLOCK as u64);
        let [index, notes, sums, end] =
            [row.index_at(width), row.notes_at(width), row.sums_at(width), row.end(width)]
                .map(|at| at - row.at);
        // Whole blocks are read, and the block where one part ends is the first one of the next: it is in both ranges.
        let (begin, behind) =
            (|part: u64| part / block * block, |part: u64| part.next_multiple_of(block).min(sums));
        let ranges = match end {
            ..=TOGETHER => [0..end, 0..0, 0..0],
            _ if row.notes == 0 => [begin(index)..end, 0..0, 0..behind(index)],
            _ => [begin(index)..behind(notes), begin(notes)..end, 0..behind(index)],
        };
        let ranges = ranges.into_iter().filter(|range| !range.is_empty());
        Some((segment.number, ranges.map(|range| row.at + range.start..row.at + range.end).collect()))
    }

    /// Whether the hold-out was drawn before the split was stored.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_delivered
    }

    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.bytes {
            Bytes::Mapped(segment, _) => Some(segment),
            Bytes::Unopened(_) | Bytes::Opened(..) => None,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match &self.bytes {
            Bytes::Mapped(segment, _) => segment.path(),
            Bytes::Unopened(segment) | Bytes::Opened(segment, _) => &segment.path,
        }
    }

    /// The number of the split in its source.
    pub(crate) fn split(&self) -> u32 {
        self.row.split as u32
    }

    pub(crate) fn documents(&self) -> usize {
        self.row.documents as usize
    }

    pub(crate) fn ids(&self) -> usize {
        self.row.ids as usize
    }

    pub(crate) fn notes(&self) -> usize {
        self.row.notes as usize
    }

    /// Whether some of its ids are not learned from.
    pub(super) fn is_masked(&self) -> Result<bool> {
        let (mut begin, documents) =
            (EntryEnd::default(), if self.notes() > 0 { self.documents() } else { 0 });
        for nth in 0..documents {
            let end = self.entry(nth)?.end;
            if !self.notes_on(&(std::mem::replace(&mut begin, end)..end), nth)?.mask.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many documents were skipped in all.
    pub(crate) fn skipped(&self) -> u64 {
        self.row.skipped
    }

    /// Returns the index's entry for document `nth`.
    pub(crate) fn entry(&self, nth: usize) -> Result<Entry> {
        let at = (self.row.index_at(self.width) - self.row.at) as usize + Entry::BYTES * nth;
        let range = at..at + Entry::BYTES;
        let entry = match &self.bytes {
            Bytes::Mapped(segment, number) => Entry::from_bytes(segment.bytes(*number, range)?),
            Bytes::Opened(_, split) => Entry::from_bytes(lock(split).index(range)?),
            Bytes::Unopened(segment) => return Err(unopened(segment)),
        };
        if entry.end.ids > self.row.ids {
            return Err(self.wrong(nth));
        }
        Ok(entry)
    }

    /// The same; `None` behind the last document.
    pub(crate) fn nth(&self, nth: usize) -> Result<Option<Entry>> {
        (nth < self.documents()).then(|| self.entry(nth)).transpose()
    }

    /// Where the index's entries are for document `nth` and, if there is one, for the document before it, in bytes from the
    /// split's beginning.
    pub(crate) fn entries_at(&self, nth: usize) -> Range<usize> {
        let index = (self.row.index_at(self.width) - self.row.at) as usize;
        index + Entry::BYTES * nth.saturating_sub(1)..index + Entry::BYTES * (nth + 1)
    }

    /// Where some of the ids are, in bytes from the split's beginning.
    pub(crate) fn ids_at(&self, ids: Range<u64>, document: usize) -> Result<Range<usize>> {
        match ids.start <= ids.end && ids.end <= self.row.ids {
            true => Ok(self.bytes_of(ids)),
            false => Err(self.wrong(document)),
        }
    }

    /// Appends the ids that some bytes hold.
    pub(crate) fn append(&self, bytes: &[u8], into: &mut Vec<u32>) {
        self.width.append(bytes, into);
    }

    /// Some bytes of a split of a local segment, after checking their blocks.
    pub(super) fn mapped_bytes(&self, bytes: Range<usize>) -> Result<&[u8]> {
        match &self.bytes {
            Bytes::Mapped(segment, number) => segment.bytes(*number, bytes),
            Bytes::Unopened(segment) | Bytes::Opened(segment, _) => Err(unopened(segment)),
        }
    }

    /// Says that some bytes will be read soon, if the segment is local.
    pub(super) fn will_need(&self, bytes: Range<usize>) {
        if let Bytes::Mapped(segment, number) = &self.bytes {
            segment.will_need(*number, bytes);
        }
    }

    /// Where it is, if its segment is in a store.
    pub(super) fn remote_piece(&self) -> Option<RemotePiece<'_>> {
        match &self.bytes {
            Bytes::Mapped(..) => None,
            Bytes::Unopened(segment) | Bytes::Opened(segment, _) => {
                Some(RemotePiece { segment, row: self.row, width: self.width })
            }
        }
    }

    pub(crate) fn origin(&self) -> &IdsOrigin {
        match &self.bytes {
            Bytes::Mapped(segment, _) => segment.origin(),
            Bytes::Unopened(segment) | Bytes::Opened(segment, _) => &segment.origin,
        }
    }

    /// Asks for the ids from `first` on to be loaded into memory, up to `most` of them.
    pub(crate) fn bring(&self, first: u64, most: usize) {
        if let Bytes::Mapped(segment, number) = &self.bytes {
            let ids = first.min(self.row.ids)..first.saturating_add(most as u64).min(self.row.ids);
            segment.bring(*number, self.bytes_of(ids));
        }
    }

    /// The bytes of some ids, counted from the split's beginning.
    fn bytes_of(&self, ids: Range<u64>) -> Range<usize> {
        ids.start as usize * self.width.bytes()..ids.end as usize * self.width.bytes()
    }

    /// Returns the notes on a document. What is stored of it lies within `stored`.
    #[inline]
    pub(crate) fn notes_on(&self, stored: &Range<EntryEnd>, document: usize) -> Result<StoredNotes> {
        match stored.start.notes == stored.end.notes && self.columns.is_none() {
            true => Ok(StoredNotes::default()),
            false => self.read_notes(stored, document),
        }
    }

    fn read_notes(&self, stored: &Range<EntryEnd>, document: usize) -> Result<StoredNotes> {
        let at = self.notes_at(stored, document)?;
        let columns = self.columns.as_ref();
        match &self.bytes {
            Bytes::Mapped(segment, number) => {
                self.notes_in(segment.bytes(*number, at)?, stored, document, columns)
            }
            Bytes::Opened(_, split) => self.notes_in(lock(split).notes(at)?, stored, document, columns),
            Bytes::Unopened(segment) => Err(unopened(segment)),
        }
    }

    /// Where the notes on a document are, in bytes from the split's beginning.
    pub(crate) fn notes_at(&self, stored: &Range<EntryEnd>, document: usize) -> Result<Range<usize>> {
        let Range { start: EntryEnd { notes: start, .. }, end: EntryEnd { notes: end, .. } } = *stored;
        if start > end || u64::from(end) > self.row.notes {
            return Err(self.wrong_notes(document));
        }
        let notes = (self.row.notes_at(self.width) - self.row.at) as usize;
        Ok(notes + start as usize * NOTE..notes + end as usize * NOTE)
    }

    /// The notes on a document that some bytes hold, with the wanted columns.
    pub(crate) fn notes_in(
        &self,
        bytes: &[u8],
        stored: &Range<EntryEnd>,
        document: usize,
        wanted: Option<&Arc<[String]>>,
    ) -> Result<StoredNotes> {
        let wrong = || self.wrong_notes(document);
        let Notes { masked, columns } = notes(bytes, stored.start.ids..stored.end.ids).ok_or_else(wrong)?;
        let mut mask = Mask::default();
        masked.into_iter().for_each(|range| mask.mask(range));
        let columns = wanted.map(|wanted| {
            let columns = columns.and_then(|bytes| Columns::stored(bytes, &self.origin().columns, wanted));
            columns.ok_or_else(wrong)
        });
        Ok(StoredNotes { mask, columns: columns.transpose()? })
    }

    /// Returns where the ids `range` of the split are among its [`stored_ids`](Self::stored_ids), after checking their
    /// blocks. Reads them if the split is in a store.
    pub(crate) fn place(&self, range: Range<u64>) -> Result<Range<usize>> {
        if range.start > range.end || range.end > self.row.ids {
            return Err(self.wrong(0));
        }
        let bytes = self.bytes_of(range.clone());
        match &self.bytes {
            Bytes::Mapped(segment, number) => {
                segment.bytes(*number, bytes)?;
                let at = self.row.at as usize / self.width.bytes();
                Ok(at + range.start as usize..at + range.end as usize)
            }
            Bytes::Opened(_, split) => lock(split).hold(bytes),
            Bytes::Unopened(segment) => Err(unopened(segment)),
        }
    }

    /// The ids of the requested places. For a split in a store they are in memory, charged to `lease`, and handed out
    /// once.
    pub(crate) fn stored_ids(&self, lease: &Lease) -> StoredIds {
        match &self.bytes {
            Bytes::Mapped(segment, _) => StoredIds::Mapped(segment.clone()),
            Bytes::Unopened(segment) => held(segment, Vec::new(), lease),
            Bytes::Opened(segment, split) => held(segment, lock(split).take_held(), lease),
        }
    }

    /// Returns the number of the first document that begins at byte (or row) `at` of the file or after it.
    pub(crate) fn find(&self, at: u64) -> Result<usize> {
        self.partition_point(|begin| begin < at)
    }

    /// Returns the number of the first document for which `is_before` is false, given the byte (or row) where
    /// the document begins. `is_before` must be true for all documents before that one.
    pub(crate) fn partition_point(&self, is_before: impl Fn(u64) -> bool) -> Result<usize> {
        let (mut low, mut high) = (0, self.documents());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.entry(middle)?.start.byte) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    pub(crate) fn verify(&self) -> Result<()> {
        match &self.bytes {
            Bytes::Mapped(segment, number) => segment.verify_split(*number),
            Bytes::Opened(_, split) => lock(split).verify(),
            Bytes::Unopened(segment) => Err(unopened(segment)),
        }
    }

    fn wrong(&self, document: usize) -> Error {
        let problem = format!("the ids of document {document} of a split are wrong");
        Error::remove_and_prepare_again(self.path().display(), problem)
    }

    fn wrong_notes(&self, document: usize) -> Error {
        let problem = format!(
            "what is stored of document {document} of a split beside its ids is wrong, or a newer version wrote it"
        );
        Error::remove_and_prepare_again(self.path().display(), problem)
    }
}

fn held(RemoteSegment { path, origin, .. }: &RemoteSegment, ids: Vec<u32>, lease: &Lease) -> StoredIds {
    let lease = lease.part(size_of_val(&*ids));
    StoredIds::Held(Arc::new(HeldIds::new(path.clone(), origin.clone(), ids, lease)))
}

fn unopened(segment: &RemoteSegment) -> Error {
    Error::Corpus { problem: format!("{}: it was not opened before it was read", segment.path.display()) }
}
