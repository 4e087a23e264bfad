//! What one step found in splits that are read side by side, and its way into one order.

use std::ops::Range;

use super::abreast::Key;
use super::corpus::Split;
use super::group::{self, After, Group, Grouping, Origin};
use super::stored;
use super::strand::{Next, Strand};
use super::texts::Texts;
use super::window::Window;
use crate::budget::Lease;
use crate::config::OnError;
use crate::cursor::LaneCursor;
use crate::shards::{Entry, Tokens};

/// Documents of a few groups of splits, as far as they were found.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Those that are text.
    pub(super) window: Window,
    /// Those whose tokens are stored.
    entries: Vec<Found>,
    /// All of them, in the order in which they are delivered, as far as that is known.
    order: Vec<Ready>,
    /// How many of them are in their place, and how many pieces of the window and entries that takes in.
    settled: (usize, usize, usize),
    splits: Vec<Of>,
}

/// A document whose tokens are stored, and where its ids lie.
#[derive(Debug)]
struct Found {
    entry: Entry,
    ids_begin: u64,
    range: Range<usize>,
}

/// A split that documents are of.
#[derive(Debug)]
struct Of {
    ordinal: u64,
    split: Split,
    /// Where its group of splits begins.
    group: u64,
    tokens: Option<Tokens>,
    /// Documents of its text up to this key were delivered before.
    passed: Option<Key>,
}

/// A document: where it stands, and its number in the window or among the entries.
#[derive(Clone, Copy, Debug)]
struct Ready {
    key: Key,
    index: u32,
    is_stored: bool,
}

/// What a step delivers.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) group: Group,
    /// For each split, how many documents of its text were delivered.
    pub(super) counts: Vec<(u64, u64)>,
    /// The split of each document that was skipped, and how many the lane had delivered before.
    pub(super) skips: Vec<(u64, u64)>,
    /// For each group of splits where it begins, and how many documents the lane has delivered behind those of this
    /// step.
    pub(super) ends: Vec<(u64, u64)>,
    /// How many documents of the last group of splits were skipped so far.
    pub(super) skipped: u64,
}

impl Gathered {
    /// Notes a split whose documents will be added, of the group of splits that begins at `group`.
    pub(super) fn begin(&mut self, strand: &Strand, group: u64) {
        let tokens = strand.tokens().cloned();
        let &Strand { ordinal, split, passed, .. } = strand;
        self.splits.push(Of { ordinal, split, group, tokens, passed });
    }

    /// Takes text instead of a split's tokens from here on: what was found of these since they were settled is dropped.
    pub(super) fn turn_to_text(&mut self, strand: &Strand) {
        let (settled, _, _) = self.settled;
        let mut nth = 0;
        self.order.retain(|ready| {
            nth += 1;
            nth <= settled || ready.key.ordinal != strand.ordinal
        });
        for of in self.splits.iter_mut().filter(|of| of.ordinal == strand.ordinal) {
            of.passed = strand.passed;
        }
    }

    pub(super) fn add_stored(&mut self, key: Key, entry: Entry, ids_begin: u64, range: Range<usize>) {
        self.order.push(Ready { key, index: self.entries.len() as u32, is_stored: true });
        self.entries.push(Found { entry, ids_begin, range });
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.window.framed.is_empty()
    }

    /// How many documents are ready.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Puts what was found since the last call in order, as far as every split was read. What stands behind is dropped,
    /// and its splits go back to it.
    pub(super) fn settle(&mut self, strands: &mut [Strand]) {
        let limit = strands.iter().filter_map(Strand::key).min();
        let Some(first) = strands.first().map(|strand| strand.ordinal) else { return };
        let (settled, pieces, _) = self.settled;
        for piece in &self.window.pieces[pieces..] {
            let strand = &strands[(piece.ordinal - first) as usize];
            let ready = piece.frames.clone().map(|index| {
                let key = strand.key_of(self.window.framed[index].frame.start.byte);
                Ready { key, index: index as u32, is_stored: false }
            });
            self.order.extend(ready);
        }
        // Each split's are in order already, which the sort makes use of.
        self.order[settled..].sort_by_key(|ready| ready.key);
        let is_kept = |ready: &Ready| limit.is_none_or(|limit| ready.key < limit);
        let kept = settled + self.order[settled..].partition_point(is_kept);
        for ready in self.order.drain(kept..).rev() {
            let strand = &mut strands[(ready.key.ordinal - first) as usize];
            match ready.is_stored {
                true => {
                    let Found { entry, ids_begin, .. } = &self.entries[ready.index as usize];
                    strand.go_back_stored(entry, *ids_begin);
                }
                false => strand.next = Next::At(self.window.framed[ready.index as usize].frame.start),
            }
        }
        if let Some(last) = self.order[settled..].last() {
            strands.iter_mut().for_each(|strand| strand.passed = strand.passed.max(Some(last.key)));
        }
        self.settled = (self.order.len(), self.window.pieces.len(), self.entries.len());
    }

    /// Whether documents of the group of splits that begins at `group` are added.
    pub(super) fn has(&self, group: u64) -> bool {
        self.splits.iter().any(|of| of.group == group)
    }

    /// The documents, in order. `cursor` counts them; of its group of splits `skipped` were skipped before.
    pub(super) fn deliver(
        self,
        grouping: &Grouping,
        lease: Lease,
        cursor: &mut LaneCursor,
        mut skipped: u64,
    ) -> Delivered {
        let Self { window: Window { bytes, framed, pieces }, entries, order, splits, .. } = self;
        let mut group = Group::empty(After::More);
        let mut counts: Vec<(u64, u64)> = splits.iter().map(|of| (of.ordinal, 0)).collect();
        let mut skips = Vec::new();
        let mut ends = Vec::new();
        let Some(&Of { ordinal: first, split, group: mut begin, .. }) = splits.first() else {
            return Delivered { group, counts, skips, ends, skipped };
        };
        let format = grouping.corpus.format(split.file);
        let mut texts = Texts::new(bytes, &pieces, format);
        let text_slab = splits.iter().filter(|of| of.tokens.is_some()).count();
        let mut origins = Vec::with_capacity(splits.len());
        for Of { ordinal, split, tokens, .. } in &splits {
            let origin = Origin { split: *split, ordinal: *ordinal, is_abreast: true };
            let stored = tokens.as_ref().map(|tokens| {
                let of = group.origin(group.next_slab(), origin);
                stored::close(grouping, tokens, &lease, &mut group);
                of
            });
            origins.push((stored, group.origin(text_slab, origin)));
        }
        let counts_replayed = matches!(format.on_error, OnError::Skip(_));
        for Ready { key, index, is_stored } in order {
            let nth = (key.ordinal - first) as usize;
            let of = &splits[nth];
            end_groups(&splits, (&mut begin, of.group), (&mut skipped, cursor), &mut ends);
            let documents = cursor.documents;
            if let (true, Some(tokens), (Some(origin), _)) = (is_stored, &of.tokens, origins[nth]) {
                let Found { entry, range, .. } = &entries[index as usize];
                let found = (entry, range.clone());
                stored::deliver(grouping, tokens, found, (of.split, origin), cursor, &mut group);
                continue;
            }
            let found = group::Found {
                split: of.split,
                framed: &framed[index as usize],
                format,
                epoch: cursor.epoch,
            };
            if of.passed.is_some_and(|passed| key <= passed) {
                // A run that is resumed counts what was skipped before, as the one that was not.
                skipped += u64::from(counts_replayed && grouping.is_bad(&mut texts, &found));
                continue;
            }
            let mut all = cursor.skipped + skipped;
            let before = all;
            let delivered =
                grouping.deliver(&mut texts, &found, origins[nth].1, cursor, &mut all, &mut group);
            if all > before {
                skipped += 1;
                skips.push((key.ordinal, documents));
            }
            counts[nth].1 += cursor.documents - documents;
            if let Err(error) = delivered {
                group.after = After::Failed(error);
                break;
            }
        }
        grouping.add_text(texts, lease, &mut group);
        let last = splits.last().map_or(begin, |of| of.group);
        end_groups(&splits, (&mut begin, last), (&mut skipped, cursor), &mut ends);
        ends.push((last, cursor.documents));
        Delivered { group, counts, skips, ends, skipped }
    }
}

/// Ends the groups of splits from the one that begins at `begin` up to `next`: cursors count what was skipped where a
/// group ends.
fn end_groups(
    splits: &[Of],
    (begin, next): (&mut u64, u64),
    (skipped, cursor): (&mut u64, &mut LaneCursor),
    ends: &mut Vec<(u64, u64)>,
) {
    if *begin == next {
        return;
    }
    let ended = splits.iter().filter(|of| (*begin..next).contains(&of.group));
    for of in ended {
        cursor.skipped += of.tokens.as_ref().map_or(0, Tokens::skipped);
        if ends.last().is_none_or(|(group, _)| *group != of.group) {
            ends.push((of.group, cursor.documents));
        }
    }
    cursor.skipped += std::mem::take(skipped);
    *begin = next;
}
