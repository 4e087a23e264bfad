//! Splits that are tokenized already: their documents come with their ids, and no file is opened.
//!
//! They are those that reading the text would give: at the same places, in the same order, held out and drawn alike,
//! with the same cursors.

use std::sync::Arc;

use super::corpus::Split;
use super::framing::Place;
use super::group::{Group, Grouping, Item};
use crate::budget::{Budget, IDS_PER_BYTE, Lease};
use crate::cursor::LaneCursor;
use crate::document::{Content, Slab};
use crate::error::Result;
use crate::shards::{Entry, Tokens};

/// Appends the documents of a split from `from` on to the group, of some `most` ids at most. `cursor` counts them.
///
/// Where reading goes on in the split; none if it is read to its end.
pub(super) fn take(
    grouping: &Grouping,
    tokens: &Tokens,
    (ordinal, split): (u64, Split),
    from: Place,
    most: usize,
    budget: Option<&Arc<Budget>>,
    (cursor, group): (&mut LaneCursor, &mut Group),
) -> Result<Option<Place>> {
    let is_one_document = grouping.corpus.format(split.file).is_one_document();
    let first = if from == Place::default() { 0 } else { tokens.find(from.byte)? };
    let before = first.checked_sub(1).map(|before| tokens.entry(before)).transpose()?;
    // Those that were skipped before the split.
    let base = cursor.skipped - before.map_or(0, |before| u64::from(before.skipped)).min(cursor.skipped);
    let mut ids = before.map_or(0, |before| before.ids_end);
    let start = ids;
    let mut items = Vec::new();
    let mut room = 0;
    for number in first..tokens.documents() {
        let entry = tokens.entry(number)?;
        let range = std::mem::replace(&mut ids, entry.ids_end)..entry.ids_end;
        cursor.skipped = base + u64::from(entry.skipped);
        let Entry { digest, share, text_bytes, .. } = entry;
        let place = |(byte, line)| Place { byte, line };
        let (start_at, mut next) = (place(entry.start), place(entry.next));
        let is_drawn = || {
            grouping.holdout.delivers_digest(digest)
                && grouping.draws(split, cursor.epoch, start_at.byte, share)
        };
        let is_wanted = tokens.is_delivered() || is_drawn();
        if is_wanted {
            let mut at = *cursor;
            at.split = ordinal;
            if is_one_document {
                (at.split, next) = (ordinal + 1, Place::default());
            }
            cursor.documents += 1;
            // One that the tokenizer failed on was delivered and has no ids.
            if let Some(text_bytes) = text_bytes {
                let range = tokens.id_bytes(range)?;
                room += IDS_PER_BYTE * (range.len() + 1);
                let item = Item { range, text_bytes: text_bytes as usize, start: start_at, next, share };
                items.push((at, item));
            }
        }
        if (ids - start) as usize >= most && number + 1 < tokens.documents() {
            append((grouping, tokens, split), (budget, room), items, group);
            return Ok(Some(place(entry.next)));
        }
    }
    cursor.skipped = base + tokens.skipped();
    append((grouping, tokens, split), (budget, room), items, group);
    Ok(None)
}

fn append(
    (grouping, tokens, split): (&Grouping, &Tokens, Split),
    (budget, room): (Option<&Arc<Budget>>, usize),
    items: Vec<(LaneCursor, Item)>,
    group: &mut Group,
) {
    if items.is_empty() {
        return;
    }
    let lease = budget.map_or_else(Lease::none, |budget| budget.charge(room));
    let (content, files) = (Content::Ids(tokens.segment().clone()), grouping.corpus.files.clone());
    group.append(Slab { content, files, lease }, split, items);
}

/// What is wrong with a place in a split, if anything.
pub(super) fn problem(tokens: &Tokens, (byte, line): (u64, u64)) -> Result<Option<String>> {
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
