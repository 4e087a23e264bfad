//! Reads splits that are tokenized already: their documents come with their ids, and no file is opened.
//!
//! They are the same documents as in the text: at the same places, in the same order, with the same hold-out, samples
//! and cursors. Documents that were skipped when the text was read are skipped here too.

use std::ops::Range;

use super::group::{Group, Item};
use super::grouper::Grouper;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::{CarriedColumns, Marks, Mask, RenderedMarks, Slab, SlabContent};
use crate::error::{Error, Result};
use crate::segment::{Entry, StoredText};
use crate::shards::StoredSplit;
use crate::source::problem::Problem;
use crate::source::split::Split;

/// The notes on one document take as much memory as this many ids.
const PLACE_IDS: usize = 32;

/// A note takes as much memory as this many ids, while it is put in order and then in its slab.
const NOTE_IDS: usize = 8;

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

    /// Whether a document of so many ids and notes fits into this step. The first always does.
    pub(crate) fn admits(&mut self, (ids, notes): (usize, usize)) -> bool {
        let ids = ids.saturating_add(PLACE_IDS).saturating_add(notes.saturating_mul(NOTE_IDS));
        let is_admitted = ids <= self.ids || !self.is_begun;
        if is_admitted {
            (self.ids, self.is_begun) = (self.ids.saturating_sub(ids), true);
        }
        is_admitted
    }
}

/// How much of the room of steps all documents of a split take, in bytes.
pub(crate) fn step_bytes(tokens: &StoredSplit) -> usize {
    let notes = tokens.documents().saturating_mul(PLACE_IDS);
    let ids = tokens.ids().saturating_add(notes).saturating_add(tokens.notes().saturating_mul(NOTE_IDS));
    ids.saturating_mul(size_of::<u32>())
}

/// A document whose tokens are stored.
#[derive(Debug)]
pub(crate) struct StoredDocument<'a> {
    pub(crate) entry: &'a Entry,
    /// Where its ids are among the stored ids.
    pub(crate) range: Range<usize>,
    pub(crate) split: Split,
    /// The number of its `DealtSplit` in the group.
    pub(crate) of: u32,
    /// As in [`Item`].
    pub(crate) sample: u32,
    pub(crate) columns: CarriedColumns,
    /// Whether `where` may leave it out.
    pub(crate) is_filtered: bool,
}

/// Appends a document, or leaves it out.
#[inline]
pub(crate) fn deliver(
    grouper: &Grouper,
    tokens: &StoredSplit,
    document: StoredDocument<'_>,
    cursor: &mut LaneCursor,
    group: &mut Group,
) -> Result<()> {
    let StoredDocument { entry, range, split, of, sample, columns, is_filtered } = document;
    let start = entry.start;
    let counts_always = entry.counts_always();
    if !counts_always && !tokens.is_delivered() && !is_drawn(grouper, split, entry, cursor) {
        return Ok(());
    }
    let columns = match is_filtered && !counts_always {
        false => columns,
        true => match passing(grouper, &split, start.byte, columns)? {
            Some(columns) => columns,
            None => return Ok(()),
        },
    };
    note_without_ids(grouper, &split, entry);
    match entry.text {
        StoredText::Skipped => group.skip(cursor, of, start),
        StoredText::LeftOut => group.leave_out(cursor, of, start),
        StoredText::Bytes(_) | StoredText::Failed => {
            let (text_bytes, share) = (entry.text.bytes(), entry.share);
            group.append(cursor, Item { range, text_bytes, start, share, of, sample }, columns);
            cursor.documents += 1;
        }
    }
    Ok(())
}

#[inline]
fn is_drawn(grouper: &Grouper, split: Split, entry: &Entry, cursor: &LaneCursor) -> bool {
    grouper.holdout.delivers_digest(entry.digest)
        && grouper.draws(split, cursor.epoch, entry.start.byte, entry.share)
}

/// Reports a document of token shards that has no ids. Of cached tokens, reading the text has reported it.
#[inline]
pub(crate) fn note_without_ids(grouper: &Grouper, split: &Split, entry: &Entry) {
    let reason = match entry.text {
        StoredText::Bytes(_) => return,
        StoredText::Failed => "it could not be tokenized when its token shards were made",
        StoredText::Skipped => "it could not be read when its token shards were made",
        StoredText::LeftOut => "it was left out when its token shards were made",
    };
    let corpus = &grouper.corpus;
    if corpus.shards_of(split.file).is_some() {
        let position = split.position(entry.start);
        grouper.meter.skip(grouper.logs, reason, |reason| corpus.files.skipped(position, reason));
    }
}

/// The columns of a document of token shards that come along; `None` if `where` leaves it out.
#[inline(never)]
pub(crate) fn passing(
    grouper: &Grouper,
    split: &Split,
    byte: u64,
    columns: CarriedColumns,
) -> Result<Option<CarriedColumns>> {
    let (corpus, file) = (&grouper.corpus, split.file);
    corpus.format(file).carried.of_stored(columns).map_err(|Problem { what, remedy, .. }| {
        let (path, unit) = (corpus.files.path(file).to_owned(), corpus.files[file as usize].unit);
        Error::Document { path, line: 0, unit, byte, problem: what, remedy: remedy.into_owned() }
    })
}

/// Adds the ids of the documents of a split, and their mask, in the same places. What of this is in memory, and the
/// documents, count against the budget of `lease`.
pub(crate) fn close(grouper: &Grouper, tokens: &StoredSplit, mask: Mask, lease: &Lease, group: &mut Group) {
    let (content, files) = (SlabContent::Ids(tokens.stored_ids(lease)), grouper.corpus.files.clone());
    let lease = lease.part(size_of_val(mask.masked()));
    group.add(Slab { content, marks: marks(mask), files, lease });
}

/// The marks of stored ids.
pub(crate) fn marks(mask: Mask) -> Marks {
    match mask.is_empty() {
        true => Marks::None,
        false => Marks::Rendered(Box::new(RenderedMarks { mask, ..RenderedMarks::default() })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_tiny_documents_ends() {
        let each = |ids: usize, notes: usize| LEAST_STEP / (PLACE_IDS + ids + NOTE_IDS * notes);
        for (ids, notes, most) in [
            (0, 0, each(0, 0)),
            (1, 0, each(1, 0)),
            (9, 4, each(9, 4)),
            (LEAST_STEP, 0, 1),
            (1, LEAST_STEP, 1),
        ] {
            let mut rest = StepRoom::new(1);
            let admitted = (0..LEAST_STEP).take_while(|_| rest.admits((ids, notes))).count();
            assert_eq!(admitted, most, "of {ids} ids and {notes} notes");
        }
    }
}
