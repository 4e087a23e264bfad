//! Splits that are tokenized already: their documents come with their ids, and no file is opened.
//!
//! They are those that reading the text would give: at the same places, in the same order, held out and drawn alike,
//! with the same cursors. Those that were skipped when their text was read are counted.

use std::ops::Range;

use super::framing::Place;
use super::group::{Group, Grouping, Item, Origin};
use super::split::Split;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::{Content, Slab};
use crate::error::Result;
use crate::segment::{Entry, StoredSplit};

/// What is known of a document takes as much memory as so many ids.
const PLACE_IDS: usize = 32;

/// No step is smaller: it takes nothing of the budget, by which slabs are measured.
const LEAST_STEP: usize = 16 << 10;

/// How much of a step is left, in ids, those of documents that are passed over among them.
#[derive(Debug)]
pub(super) struct Rest {
    ids: usize,
    is_begun: bool,
}

impl Rest {
    /// A step of so many ids, or of the least.
    pub(super) fn new(ids: usize) -> Self {
        Self { ids: ids.max(LEAST_STEP), is_begun: false }
    }

    /// How many ids are left.
    pub(super) fn ids(&self) -> usize {
        self.ids
    }

    /// Whether a document of so many ids is of this step. The first always is.
    pub(super) fn admits(&mut self, ids: usize) -> bool {
        let ids = ids.saturating_add(PLACE_IDS);
        let is_admitted = ids <= self.ids || !self.is_begun;
        if is_admitted {
            (self.ids, self.is_begun) = (self.ids.saturating_sub(ids), true);
        }
        is_admitted
    }
}

/// Appends the documents of a split from `from` on to the group, as many as the step still admits. Their ids stay where
/// they are and take nothing of the budget of `lease`; `cursor` counts them.
///
/// Where reading goes on in the split; none if it is read to its end.
pub(super) fn take(
    grouping: &Grouping,
    tokens: &StoredSplit,
    (ordinal, split): (u64, Split),
    from: Place,
    (rest, lease): (&mut Rest, &Lease),
    (cursor, group): (&mut LaneCursor, &mut Group),
) -> Result<Option<Place>> {
    let first = if from == Place::default() { 0 } else { tokens.find(from.byte)? };
    let before = first.checked_sub(1).map(|before| tokens.entry(before)).transpose()?;
    // Those that were skipped before the split.
    let base = cursor.skipped - before.map_or(0, |before| u64::from(before.skipped)).min(cursor.skipped);
    let mut ids = before.map_or(0, |before| before.ids_end);
    let mut goes_on = from;
    tokens.bring(ids, rest.ids);
    let behind = ordinal + u64::from(grouping.corpus.format(split.file).is_one_document());
    let of = group.origin(group.next_slab(), Origin { split, ordinal: behind, is_abreast: false });
    for number in first..tokens.documents() {
        let entry = tokens.entry(number)?;
        let range = std::mem::replace(&mut ids, entry.ids_end)..entry.ids_end;
        if !rest.admits(range.end.saturating_sub(range.start) as usize) {
            close(grouping, tokens, lease, group);
            return Ok(Some(goes_on));
        }
        cursor.skipped = base + u64::from(entry.skipped);
        let (byte, line) = entry.next;
        goes_on = Place { byte, line };
        let range = entry.text_bytes.map_or(Ok(0..0), |_| tokens.place(range))?;
        deliver(grouping, tokens, (&entry, range), (split, of), cursor, group);
    }
    cursor.skipped = base + tokens.skipped();
    close(grouping, tokens, lease, group);
    Ok(None)
}

/// Appends a document whose ids lie at `range` of its segment, or passes over it.
pub(super) fn deliver(
    grouping: &Grouping,
    tokens: &StoredSplit,
    (entry, range): (&Entry, Range<usize>),
    (split, of): (Split, u32),
    cursor: &mut LaneCursor,
    group: &mut Group,
) {
    let place = |(byte, line)| Place { byte, line };
    let (start, next) = (place(entry.start), place(entry.next));
    let is_drawn = || {
        grouping.holdout.delivers_digest(entry.digest)
            && grouping.draws(split, cursor.epoch, start.byte, entry.share)
    };
    if !tokens.is_delivered() && !is_drawn() {
        return;
    }
    // One that the tokenizer failed on was delivered and has no ids.
    if let Some(text_bytes) = entry.text_bytes {
        let is_one_document = grouping.corpus.format(split.file).is_one_document();
        let next = if is_one_document { Place::default() } else { next };
        let (text_bytes, share) = (text_bytes as usize, entry.share);
        group.append(cursor, Item { range, text_bytes, start, next, share, of });
    }
    cursor.documents += 1;
}

/// Adds the segment that the documents of a split lie in. What is made of them moves in the budget of `lease`.
pub(super) fn close(grouping: &Grouping, tokens: &StoredSplit, lease: &Lease, group: &mut Group) {
    let (content, files) = (Content::Ids(tokens.segment().clone()), grouping.corpus.files.clone());
    group.add(Slab { content, files, lease: lease.part(0) });
}

/// What is wrong with a place in a split, if anything.
pub(super) fn problem(tokens: &StoredSplit, (byte, line): (u64, u64)) -> Result<Option<String>> {
    if (byte, line) == (0, 0) {
        return Ok(None);
    }
    let before = tokens.find(byte)?.checked_sub(1);
    let is_between = match before {
        Some(before) => tokens.entry(before)?.next == (byte, line),
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
            let mut rest = Rest::new(1);
            let admitted = (0..LEAST_STEP).take_while(|_| rest.admits(ids)).count();
            assert_eq!(admitted, most, "of {ids} ids");
        }
    }
}
