//! What one step found in splits that are read side by side, and its way into one order.

use std::ops::Range;

use super::abreast::{Key, Scale};
use super::group::{self, After, Group, Grouping, Origin};
use super::split::Split;
use super::stored;
use super::strand::{Next, Strand};
use super::texts::Texts;
use super::window::{Piece, Window};
use crate::budget::Lease;
use crate::config::OnError;
use crate::cursor::LaneCursor;
use crate::segment::{Entry, StoredSplit};

/// Documents of a few groups of splits, as far as they were found.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Those that are text.
    pub(super) window: Window,
    /// Those whose tokens are stored.
    entries: Vec<Found>,
    /// What is not in its place yet, beside the pieces of the window from `settled` on.
    stored: Vec<Run>,
    settled: usize,
    /// The documents in the order in which they are delivered, as far as that is known.
    order: Vec<Ready>,
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
    scale: Scale,
    tokens: Option<StoredSplit>,
    /// Documents of its text up to this key were delivered before.
    passed: Option<Key>,
}

/// Documents of one split that follow each other, by their numbers in the window or among the entries.
#[derive(Clone, Debug)]
struct Run {
    ordinal: u64,
    documents: Range<usize>,
    is_stored: bool,
}

/// A document: its split, by its place among the splits, and its number in the window or among the entries.
#[derive(Clone, Copy, Debug)]
struct Ready {
    split: u32,
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
        let &Strand { ordinal, split, scale, passed, .. } = strand;
        self.splits.push(Of { ordinal, split, group, scale, tokens, passed });
    }

    /// Takes text instead of a split's tokens from here on: what was found of these since they were settled is dropped.
    pub(super) fn turn_to_text(&mut self, strand: &Strand) {
        self.stored.retain(|run| run.ordinal != strand.ordinal);
        for of in self.splits.iter_mut().filter(|of| of.ordinal == strand.ordinal) {
            of.passed = strand.passed;
        }
    }

    /// Adds the next document of split `ordinal`, whose ids lie at `range` of its segment.
    pub(super) fn add_stored(&mut self, ordinal: u64, entry: Entry, ids_begin: u64, range: Range<usize>) {
        let nth = self.entries.len();
        self.entries.push(Found { entry, ids_begin, range });
        match self.stored.last_mut() {
            Some(run) if run.ordinal == ordinal => run.documents.end = nth + 1,
            _ => self.stored.push(Run { ordinal, documents: nth..nth + 1, is_stored: true }),
        }
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.stored.is_empty() && self.window.framed.is_empty()
    }

    /// How many documents are ready.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Puts what was found since the last call in order, as far as every split was read. What stands behind is dropped,
    /// and its splits go back to it.
    pub(super) fn settle(&mut self, strands: &mut [Strand]) {
        let limit = strands.iter().filter_map(Strand::key).min();
        let (Some(first), Some(begin)) = (strands.first(), self.splits.first().map(|of| of.ordinal)) else {
            return;
        };
        let first = first.ordinal;
        let pieces = self.window.pieces[self.settled..].iter().filter(|piece| !piece.frames.is_empty());
        let of_piece =
            |piece: &Piece| Run { ordinal: piece.ordinal, documents: piece.frames.clone(), is_stored: false };
        let mut runs: Vec<Run> = self.stored.drain(..).chain(pieces.map(of_piece)).collect();
        // Of one split's the earlier come first, of one share those of the first split.
        runs.sort_by_key(|run| run.ordinal);
        let Self { window, entries, .. } = self;
        let key = |run: &Run| {
            let nth = run.documents.start;
            let byte = match run.is_stored {
                true => entries[nth].entry.start.0,
                false => window.framed[nth].frame.start.byte,
            };
            strands[(run.ordinal - first) as usize].key_of(byte)
        };
        self.order.reserve(runs.iter().map(|run| run.documents.len()).sum());
        let mut heads: Vec<Key> = runs.iter().map(key).collect();
        let mut last = None;
        // There are about as many runs as splits, a few: looking at each takes less than any order among them.
        while let Some((nth, &head)) = heads.iter().enumerate().min_by_key(|(_, head)| head.share)
            && limit.is_none_or(|limit| head < limit)
        {
            let run = &mut runs[nth];
            let (split, index) = ((run.ordinal - begin) as u32, run.documents.start as u32);
            self.order.push(Ready { split, index, is_stored: run.is_stored });
            last = Some(head);
            run.documents.start += 1;
            if run.documents.is_empty() {
                runs.remove(nth);
                heads.remove(nth);
            } else {
                heads[nth] = key(run);
            }
        }
        for Run { ordinal, documents, is_stored } in runs.into_iter().rev() {
            let strand = &mut strands[(ordinal - first) as usize];
            match is_stored {
                true => {
                    let Found { entry, ids_begin, .. } = &self.entries[documents.start];
                    strand.go_back_stored(entry, *ids_begin, documents.len());
                }
                false => strand.next = Next::At(self.window.framed[documents.start].frame.start),
            }
        }
        if last.is_some() {
            strands.iter_mut().for_each(|strand| strand.passed = strand.passed.max(last));
        }
        self.settled = self.window.pieces.len();
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
        let mut group = Group::with_room(order.len());
        let mut counts: Vec<(u64, u64)> = splits.iter().map(|of| (of.ordinal, 0)).collect();
        let mut skips = Vec::new();
        let mut ends = Vec::new();
        let Some(&Of { split, group: mut begin, .. }) = splits.first() else {
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
        for Ready { split, index, is_stored } in order {
            let nth = split as usize;
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
            if of
                .passed
                .is_some_and(|passed| of.scale.key(of.ordinal, found.framed.frame.start.byte) <= passed)
            {
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
                skips.push((of.ordinal, documents));
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
        cursor.skipped += of.tokens.as_ref().map_or(0, StoredSplit::skipped);
        if ends.last().is_none_or(|(group, _)| *group != of.group) {
            ends.push((of.group, cursor.documents));
        }
    }
    cursor.skipped += std::mem::take(skipped);
    *begin = next;
}
