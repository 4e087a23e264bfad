//! Reads splits that are tokenized already: their documents come with their ids, and no file is opened.
//!
//! They are the same documents as in the text: at the same places, in the same order, with the same hold-out, samples
//! and cursors. Documents that were skipped when the text was read are counted.

use std::ops::Range;

use super::group::{Group, Grouper, Item, SplitOrigin};
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::{Slab, SlabContent};
use crate::error::Result;
use crate::segment::Entry;
use crate::shards::StoredSplit;
use crate::source::framing::Boundary;
use crate::source::split::{DealtSplit, Split};

/// The notes on one document take as much memory as this many ids.
const PLACE_IDS: usize = 32;

/// The smallest step, in ids. Stored ids take nothing from the budget, which sets the size of slabs.
const LEAST_STEP: usize = 16 << 10;

/// How much room a step has left, in ids. Documents that are left out count too.
#[derive(Debug)]
pub(crate) struct StepRoom {
    ids: usize,
    is_begun: bool,
}

impl StepRoom {
    /// A step of `ids` ids, or of the minimum.
    pub(crate) fn new(ids: usize) -> Self {
        Self { ids: ids.max(LEAST_STEP), is_begun: false }
    }

    /// How many ids are left.
    pub(crate) fn ids(&self) -> usize {
        self.ids
    }

    /// Whether a document of `ids` ids fits into this step. The first always does.
    pub(crate) fn admits(&mut self, ids: usize) -> bool {
        let ids = ids.saturating_add(PLACE_IDS);
        let is_admitted = ids <= self.ids || !self.is_begun;
        if is_admitted {
            (self.ids, self.is_begun) = (self.ids.saturating_sub(ids), true);
        }
        is_admitted
    }
}

/// How much of the room of steps all documents of a split take, in bytes.
pub(crate) fn step_bytes(tokens: &StoredSplit) -> usize {
    let ids = tokens.documents().saturating_mul(PLACE_IDS).saturating_add(tokens.ids());
    ids.saturating_mul(size_of::<u32>())
}

/// One step through splits whose tokens are stored.
#[derive(Debug)]
pub(crate) struct StoredStep<'a> {
    /// The documents count against its budget. Ids that stay in their file take nothing from it.
    pub(crate) lease: &'a Lease,
    pub(crate) room: StepRoom,
    /// The documents of the step.
    pub(crate) group: Group,
}

/// A document whose tokens are stored.
#[derive(Debug)]
pub(crate) struct StoredDocument<'a> {
    pub(crate) entry: &'a Entry,
    /// Where its ids are among the stored ids.
    pub(crate) range: Range<usize>,
    pub(crate) split: Split,
    /// The number of its `SplitOrigin` in the group.
    pub(crate) of: u32,
}

impl StoredStep<'_> {
    /// Appends the documents of a split from `from` on, as many as the step has room for. Their ids stay where they
    /// are. `cursor` counts the documents.
    ///
    /// Returns where reading goes on in the split; `None` if it has been read to its end.
    pub(crate) fn take(
        &mut self,
        grouper: &Grouper,
        tokens: &StoredSplit,
        dealt: DealtSplit,
        from: Boundary,
        cursor: &mut LaneCursor,
    ) -> Result<Option<Boundary>> {
        let DealtSplit { ordinal, split } = dealt;
        let first = if from == Boundary::default() { 0 } else { tokens.find(from.byte)? };
        let before = first.checked_sub(1).map(|before| tokens.entry(before)).transpose()?;
        // How many were skipped before the split.
        let base = cursor.skipped - before.map_or(0, |before| u64::from(before.skipped)).min(cursor.skipped);
        let mut ids = before.map_or(0, |before| before.ids_end);
        let mut goes_on = from;
        tokens.bring(ids, self.room.ids);
        let behind = ordinal + u64::from(grouper.corpus.is_one_document(split.file));
        let slab = self.group.next_slab();
        let of = self.group.origin(slab, SplitOrigin { split, ordinal: behind, is_interleaved: false });
        for number in first..tokens.documents() {
            let entry = tokens.entry(number)?;
            let range = std::mem::replace(&mut ids, entry.ids_end)..entry.ids_end;
            if !self.room.admits(range.end.saturating_sub(range.start) as usize) {
                close(grouper, tokens, self.lease, &mut self.group);
                return Ok(Some(goes_on));
            }
            cursor.skipped = base + u64::from(entry.skipped);
            let (byte, line) = entry.next;
            goes_on = Boundary { byte, line };
            let range = entry.text_bytes.map_or(Ok(0..0), |_| tokens.place(range))?;
            let document = StoredDocument { entry: &entry, range, split, of };
            deliver(grouper, tokens, document, cursor, &mut self.group);
        }
        cursor.skipped = base + tokens.skipped();
        close(grouper, tokens, self.lease, &mut self.group);
        Ok(None)
    }
}

/// Appends a document, or leaves it out.
#[inline]
pub(crate) fn deliver(
    grouper: &Grouper,
    tokens: &StoredSplit,
    document: StoredDocument<'_>,
    cursor: &mut LaneCursor,
    group: &mut Group,
) {
    let StoredDocument { entry, range, split, of } = document;
    let boundary = |(byte, line)| Boundary { byte, line };
    let (start, next) = (boundary(entry.start), boundary(entry.next));
    let is_drawn = || {
        grouper.holdout.delivers_digest(entry.digest)
            && grouper.draws(split, cursor.epoch, start.byte, entry.share)
    };
    if !tokens.is_delivered() && !is_drawn() {
        return;
    }
    // A document that the tokenizer failed on was delivered, but has no ids.
    if let Some(text_bytes) = entry.text_bytes {
        let is_one_document = grouper.corpus.is_one_document(split.file);
        let next = if is_one_document { Boundary::default() } else { next };
        let (text_bytes, share) = (text_bytes as usize, entry.share);
        group.append(cursor, Item { range, text_bytes, start, next, share, of });
    }
    cursor.documents += 1;
}

/// Adds the ids of the documents of a split. Ids in memory, and the documents, count against the budget of `lease`.
pub(crate) fn close(grouper: &Grouper, tokens: &StoredSplit, lease: &Lease, group: &mut Group) {
    let (content, files) = (SlabContent::Ids(tokens.stored_ids(lease)), grouper.corpus.files.clone());
    group.add(Slab { content, files, lease: lease.part(0) });
}

/// Returns the problem of a boundary in a split, if any.
pub(crate) fn problem(tokens: &StoredSplit, boundary: Boundary) -> Result<Option<String>> {
    if boundary == Boundary::default() {
        return Ok(None);
    }
    let before = tokens.find(boundary.byte)?.checked_sub(1);
    let is_between = match before {
        Some(before) => tokens.entry(before)?.next == (boundary.byte, boundary.line),
        None => false,
    };
    Ok((!is_between).then(|| "no document ends there".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_tiny_documents_ends() {
        for (ids, most) in [(0, LEAST_STEP / PLACE_IDS), (1, LEAST_STEP / (PLACE_IDS + 1)), (LEAST_STEP, 1)] {
            let mut rest = StepRoom::new(1);
            let admitted = (0..LEAST_STEP).take_while(|_| rest.admits(ids)).count();
            assert_eq!(admitted, most, "of {ids} ids");
        }
    }
}
