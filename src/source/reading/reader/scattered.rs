//! Reads the documents of a source in one order of the whole source, wherever they are stored.
//!
//! A step looks up some documents together, first their entries and then their ids, so that a disk or a store gets many
//! requests at once. Held in memory: the ids of the documents of a step.

use super::super::document_order::DocumentOrder;
use super::super::group::{Group, GroupEnd, Item, SplitOrigin};
use super::super::stored::StepRoom;
use super::Reader;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::{Marks, Slab, SlabContent};
use crate::error::{Error, Result};
use crate::segment::{BLOCK, Entry, HeldIds, StoredIds, StoredText};
use crate::shards::{Piece, SegmentRange, ShardSet, StoredSplit};
use crate::source::framing::Boundary;
use crate::source::split::Split;

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
    /// Where its ids begin among those of its split.
    fn ids_begin(&self) -> u64 {
        self.before.map_or(0, |before| before.ids_end)
    }

    fn ids(&self) -> usize {
        self.entry.ids_end.saturating_sub(self.ids_begin()) as usize
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
            return Ok(Group::empty(GroupEnd::End));
        };
        let is_there = self.find_document(shards)?;
        let Some(Scattered { order, step }) = self.scattered.as_ref().filter(|_| is_there) else {
            return Ok(Group::empty(GroupEnd::End));
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
            is_full = is_full || !room.admits(document.ids());
            if !is_full {
                found.push(document);
            }
            Ok(())
        })?;

        let mut group = Group::with_room(found.len());
        let slab = group.next_slab();
        let (mut wanted, mut cursors) = (Vec::new(), Vec::new());
        let mut at = self.at;
        for document in &found {
            let Found { split, entry, place, .. } = document;
            if entry.text == StoredText::Skipped {
                at.skipped += 1;
                continue;
            }
            let is_delivered = self.grouper.holdout.delivers_digest(entry.digest)
                && self.grouper.draws(*split, at.epoch, entry.start.0, entry.share);
            if !is_delivered {
                continue;
            }
            // A document that the tokenizer failed on was delivered, but has no ids.
            if let StoredText::Bytes(text_bytes) = entry.text {
                let ids = document.ids_begin()..entry.ids_end;
                wanted.push(Piece {
                    tokens: document.tokens,
                    bytes: document.tokens.ids_at(ids, document.nth)?,
                });
                cursors.push((at, *place, text_bytes, document));
            }
            at.documents += 1;
        }
        // An arena expects a place before a document.
        let mut held = Vec::with_capacity(1 + found.iter().map(Found::ids).sum::<usize>());
        held.push(0);
        shards.sums().read(&wanted, fetch, |number, bytes| {
            let (cursor, place, text_bytes, Found { tokens, split, entry, .. }) = &cursors[number];
            let begin = held.len();
            tokens.append(bytes, &mut held);
            let (byte, line) = entry.start;
            let item = Item {
                range: begin..held.len(),
                text_bytes: *text_bytes as usize,
                start: Boundary { byte, line },
                share: entry.share,
                of: group.origin(slab, SplitOrigin { split: *split, ordinal: *place }),
            };
            group.append(cursor, item);
            Ok(())
        })?;
        if let Some((.., document)) = cursors.first() {
            let lease = lease.part(size_of_val(&*held));
            let ids = HeldIds::new(shards.path().to_owned(), document.tokens.tokenizer(), held, lease);
            group.add(Slab {
                marks: Marks::None,
                content: SlabContent::Ids(StoredIds::Held(ids.into())),
                files: corpus.files.clone(),
                lease: Lease::none(),
            });
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
