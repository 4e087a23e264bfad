//! Reads the documents of a source in one order of the whole source, wherever they are stored.
//!
//! A step looks up some documents together, first their entries and then their ids, so that a disk or a store gets many
//! requests at once. Held in memory: the ids of the documents of a step, and their masks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::super::document_order::DocumentOrder;
use super::super::group::{Group, Item};
use super::super::stored::{self, StepRoom};
use super::Reader;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::{Mask, NO_IDS, Slab, SlabContent};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::segment::{BLOCK, Entry, EntryEnd, HeldIds, IdsOrigin, StoredIds, StoredText};
use crate::shards::{Piece, SegmentRange, ShardSet, StoredNotes, StoredSplit};
use crate::source::split::{DealtSplit, Split};

/// How many documents the first step of a stream looks up, so that the first batch comes soon, and any step at most.
const FIRST: u64 = 8;
const MOST: u64 = 1024;

/// How a lane reads its documents of an epoch.
#[derive(Debug)]
pub(super) struct Scattered {
    order: DocumentOrder,
    /// How many documents the next step looks up.
    step: u64,
}

/// A document that was looked up.
#[derive(Debug)]
struct Found<'a> {
    /// Its place among the lane's documents of the epoch.
    place: u64,
    tokens: &'a StoredSplit,
    split: Split,
    nth: usize,
    entry: Entry,
    /// The entry of the document before it in its split.
    before: Option<Entry>,
}

impl Found<'_> {
    /// Where what is stored of it begins and ends in its split.
    fn stored(&self) -> Range<EntryEnd> {
        self.before.map_or_else(EntryEnd::default, |before| before.end)..self.entry.end
    }

    /// How many ids and notes it has.
    fn size(&self) -> (usize, usize) {
        let Range { start, end } = self.stored();
        end.since(start)
    }

    /// Where the notes on it are.
    fn notes_at(&self) -> Result<Piece<'_>> {
        Ok(Piece { tokens: self.tokens, bytes: self.tokens.notes_at(&self.stored(), self.nth)? })
    }

    /// The notes on it that some bytes hold, with the wanted columns.
    fn notes_in(&self, bytes: &[u8], wanted: Option<&Arc<[String]>>) -> Result<StoredNotes> {
        self.tokens.notes_in(bytes, &self.stored(), self.nth, wanted)
    }

    /// Where its ids are, in bytes from its split's beginning.
    fn ids_at(&self) -> Result<Range<usize>> {
        let Range { start, end } = self.stored();
        self.tokens.ids_at(start.ids..end.ids, self.nth)
    }
}

/// The ids of documents that share a slab, all from texts or all from records, and their mask.
#[derive(Debug)]
struct HeldSlab {
    origin: IdsOrigin,
    ids: Vec<u32>,
    mask: Mask,
}

impl HeldSlab {
    /// Nothing yet, with room for so many ids.
    fn new(origin: &IdsOrigin, ids: usize) -> Self {
        let mut held =
            Self { origin: origin.clone(), ids: Vec::with_capacity(1 + ids), mask: Mask::default() };
        // An arena expects a place before a document.
        held.ids.push(0);
        held
    }

    /// The ids and their marks, charged to `lease`.
    fn finish(self, path: &Path, files: &Arc<Files>, lease: &Lease) -> Slab {
        let Self { origin, ids, mask } = self;
        let [of_ids, of_mask] =
            [size_of_val(&*ids), size_of_val(mask.masked())].map(|bytes| lease.part(bytes));
        let content =
            SlabContent::Ids(StoredIds::Held(HeldIds::new(path.to_owned(), origin, ids, of_ids).into()));
        Slab { content, marks: stored::marks(mask), files: files.clone(), lease: of_mask }
    }
}

impl Scattered {
    /// How many documents the lane has in an epoch.
    pub(super) fn len(&self) -> u64 {
        self.order.len()
    }
}

impl Reader {
    /// Moves to the next document. Returns false if the lane ends.
    fn find_document(&mut self, shards: &ShardSet) -> Result<bool> {
        loop {
            if self.lane.epochs.is_some_and(|epochs| self.at.epoch >= epochs) {
                return Ok(false);
            }
            let order = match &self.scattered {
                Some(Scattered { order, .. }) if order.epoch() == self.at.epoch => order,
                before => {
                    let step = before.as_ref().map_or(FIRST, |before| before.step);
                    let is_start = before.is_none();
                    let order = DocumentOrder::new(shards.document_ends().clone(), self.lane, self.at.epoch);
                    if is_start {
                        shards.scatter();
                        self.next = first(&self.at, &order)?;
                    } else if self.lane.lane == 0 {
                        self.tell_epoch();
                    }
                    &self.scattered.insert(Scattered { order, step }).order
                }
            };
            if order.len() == 0 {
                return Ok(false);
            }
            if self.next < order.len() {
                return Ok(true);
            }
            self.leave_epoch()?;
        }
    }

    /// Groups the next documents of the epoch's order.
    pub(super) fn read_scattered(&mut self, lease: &Lease) -> Result<Group> {
        let corpus = self.grouper.corpus.clone();
        let Some(shards) = corpus.shard_set(self.splits.start) else {
            return Ok(self.end());
        };
        let is_there = self.find_document(shards)?;
        let Some(Scattered { order, step }) = self.scattered.as_ref().filter(|_| is_there) else {
            return Ok(self.end());
        };
        // Each document takes a block at least.
        let most = (self.opener.room() / (2 * BLOCK as u64)).clamp(1, MOST);
        let places = self.next..order.len().min(self.next + step.min(&most));
        let mut sought = Vec::with_capacity((places.end - places.start) as usize);
        for place in places {
            let document = order.at(place);
            let number = self.splits.start + document.split;
            let tokens = corpus.tokens(number).ok_or_else(|| lost(number))?;
            sought.push((place, corpus.split(number), tokens, document.nth));
        }
        let pieces: Vec<Piece<'_>> = sought
            .iter()
            .map(|&(_, _, tokens, nth)| Piece { tokens, bytes: tokens.entries_at(nth) })
            .collect();
        let first = corpus.first_segment(self.splits.start);
        let fetch = |ranges: Vec<SegmentRange>| {
            self.opener.fetch(ranges.into_iter().map(|(segment, range)| (first + segment, range)))
        };
        let mut room = StepRoom::new(self.slab_bytes);
        let mut found = Vec::with_capacity(sought.len());
        let mut is_full = false;
        shards.sums().read(&pieces, fetch, |number, bytes| {
            let (place, split, tokens, nth) = sought[number];
            let entry = Entry::from_bytes(&bytes[bytes.len() - Entry::BYTES..]);
            let before = (bytes.len() > Entry::BYTES).then(|| Entry::from_bytes(bytes));
            let document = Found { place, tokens, split, nth, entry, before };
            is_full = is_full || !room.admits(document.size());
            if !is_full {
                found.push(document);
            }
            Ok(())
        })?;

        let carried = &corpus.format(corpus.split(self.splits.start).file).carried;
        let mut left_out = vec![false; found.len()];
        if carried.is_filtered() {
            let has_columns = |nth: &usize| match found[*nth].entry.text {
                StoredText::Bytes(_) => true,
                StoredText::LeftOut => found[*nth].size().1 > 0,
                StoredText::Failed | StoredText::Skipped => false,
            };
            let asked: Vec<usize> = (0..found.len()).filter(has_columns).collect();
            let notes = asked.iter().map(|nth| found[*nth].notes_at()).collect::<Result<Vec<_>>>()?;
            shards.sums().read(&notes, fetch, |number, bytes| {
                let document = &found[asked[number]];
                let columns = document.notes_in(bytes, carried.of_shards())?.columns;
                let passing =
                    stored::passing(&self.grouper, &document.split, document.entry.start.byte, columns)?;
                left_out[asked[number]] = passing.is_none();
                Ok(())
            })?;
        }

        let mut group = Group::with_room(found.len());
        let (mut wanted, mut cursors) = (Vec::new(), Vec::new());
        let mut at = self.at;
        for (document, is_left_out) in found.iter().zip(left_out) {
            let Found { split, entry, place, .. } = document;
            let is_counted = entry.counts_always()
                || !is_left_out
                    && self.grouper.holdout.delivers_digest(entry.digest)
                    && self.grouper.draws(*split, at.epoch, entry.start.byte, entry.share);
            if !is_counted {
                continue;
            }
            stored::note_without_ids(&self.grouper, split, entry);
            if matches!(entry.text, StoredText::Skipped | StoredText::LeftOut) {
                at.skipped += 1;
                continue;
            }
            wanted.push(Piece { tokens: document.tokens, bytes: document.ids_at()? });
            cursors.push((at, *place, document));
            at.documents += 1;
        }
        // The notes are requested with the ids, behind all of them.
        let mut noted = Vec::new();
        for (number, (.., document)) in
            cursors.iter().enumerate().filter(|(_, (.., found))| found.size().1 > 0)
        {
            wanted.push(document.notes_at()?);
            noted.push(number);
        }
        let first_slab = group.next_slab();
        let mut slabs: Vec<HeldSlab> = Vec::new();
        let mut places = Vec::with_capacity(cursors.len());
        shards.sums().read(&wanted, fetch, |number, bytes| {
            if let Some(&number) = number.checked_sub(cursors.len()).and_then(|nth| noted.get(nth)) {
                let (.., document) = &cursors[number];
                let notes = document.notes_in(bytes, carried.come_along())?;
                let (slab, at): (usize, usize) = places[number];
                slabs[slab].mask.append(&notes.mask, 0..document.size().0, at);
                group.carry(number, notes.columns);
                return Ok(());
            }
            let (cursor, place, Found { tokens, split, entry, .. }) = &cursors[number];
            // All are of the same tokenizer.
            let is_of = |held: &HeldSlab| held.origin.is_rendered == tokens.origin().is_rendered;
            let slab = slabs.iter().position(is_of).unwrap_or_else(|| {
                let alike = found.iter().filter(|found| found.tokens.origin() == tokens.origin());
                slabs.push(HeldSlab::new(tokens.origin(), alike.map(|found| found.size().0).sum()));
                slabs.len() - 1
            });
            let held = &mut slabs[slab].ids;
            let begin = held.len();
            tokens.append(bytes, held);
            places.push((slab, begin));
            let item = Item {
                range: if entry.text == StoredText::Failed { NO_IDS } else { begin..held.len() },
                text_bytes: entry.text.bytes(),
                start: entry.start,
                share: entry.share,
                sample: 0,
                of: group.origin(first_slab + slab, DealtSplit { split: *split, ordinal: *place }),
            };
            // Its columns come with the notes.
            group.append(cursor, item, None);
            Ok(())
        })?;
        for held in slabs {
            group.add(held.finish(shards.path(), &corpus.files, lease));
        }
        let taken = found.len() as u64;
        drop((pieces, cursors, wanted));
        self.at = at;
        self.next += taken;
        if let Some(scattered) = &mut self.scattered {
            scattered.step = if is_full { taken.max(1) } else { (2 * scattered.step).min(MOST) };
        }
        Ok(group)
    }
}

/// The place of the first document after a cursor.
fn first(at: &LaneCursor, order: &DocumentOrder) -> Result<u64> {
    match at.documents {
        0 => Ok(0),
        _ if at.split < order.len() => Ok(at.split + 1),
        _ => Err(Error::resume(format!(
            "document {} of a lane, which has {} in an epoch",
            at.split,
            order.len()
        ))),
    }
}

fn lost(split: u32) -> Error {
    Error::Corpus { problem: format!("the tokens of split {split} are not in the token shards") }
}
