//! Puts the documents that one step found in splits that are read side by side into one order.

use std::ops::Range;

use super::group::{self, Group, GroupEnd, Grouper, SplitOrigin};
use super::open_split::{Next, OpenSplit};
use super::split_recorder::{GroupCount, SplitCount};
use super::stored::{self, StoredDocument};
use super::texts::Texts;
use crate::budget::Lease;
use crate::config::OnError;
use crate::cursor::LaneCursor;
use crate::segment::Entry;
use crate::shards::StoredSplit;
use crate::source::interleave::{DocumentKey, Scale};
use crate::source::split::Split;
use crate::source::window::{Window, WindowPiece};

/// The documents found so far in a few groups of splits.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The documents that are text.
    pub(crate) window: Window,
    /// The documents whose tokens are stored.
    entries: Vec<StoredEntry>,
    /// The documents that are not in order yet: these, and the window's pieces from `ordered` on.
    stored: Vec<SplitRun>,
    ordered: usize,
    /// The documents in the order of delivery, as far as it is known.
    order: Vec<Ready>,
    splits: Vec<GatheredSplit>,
}

/// A document whose tokens are stored, and where its ids are.
#[derive(Debug)]
struct StoredEntry {
    entry: Entry,
    ids_begin: u64,
    range: Range<usize>,
}

/// A split that has some of the documents.
#[derive(Debug)]
struct GatheredSplit {
    ordinal: u64,
    split: Split,
    /// Where its group of splits begins.
    group: u64,
    scale: Scale,
    tokens: Option<StoredSplit>,
    /// Documents of its text up to this key have been delivered already.
    passed: Option<DocumentKey>,
}

/// Consecutive documents of one split, by their numbers in the window or among the entries.
#[derive(Clone, Debug)]
struct SplitRun {
    ordinal: u64,
    documents: Range<usize>,
    is_stored: bool,
}

/// A document: the index of its split in `splits`, and its number in the window or among the entries.
#[derive(Clone, Copy, Debug)]
struct Ready {
    split: u32,
    index: u32,
    is_stored: bool,
}

/// The documents that a step delivers.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) group: Group,
    /// For each split, how many documents of its text were delivered.
    pub(crate) counts: Vec<SplitCount>,
    /// The split of each skipped document, and how many documents the lane had delivered before it.
    pub(crate) skips: Vec<SplitCount>,
    /// For each group of splits, where it begins, and how many documents the lane has delivered after this step's
    /// documents of it.
    pub(crate) ends: Vec<GroupCount>,
    /// How many documents of the last group of splits have been skipped so far.
    pub(crate) skipped: u64,
}

impl Gathered {
    /// Adds a split whose documents will follow. Its group of splits begins at `group`.
    pub(crate) fn begin(&mut self, split: &OpenSplit, group: u64) {
        let tokens = split.tokens().cloned();
        let &OpenSplit { ordinal, split, scale, passed, .. } = split;
        self.splits.push(GatheredSplit { ordinal, split, group, scale, tokens, passed });
    }

    /// Switches a split from tokens to text: drops its documents that were found since the last
    /// [`order_found`](Self::order_found).
    pub(crate) fn turn_to_text(&mut self, split: &OpenSplit) {
        self.stored.retain(|run| run.ordinal != split.ordinal);
        for of in self.splits.iter_mut().filter(|of| of.ordinal == split.ordinal) {
            of.passed = split.passed;
        }
    }

    /// Adds the next document of split `ordinal`, whose ids are at `range` of its segment.
    pub(crate) fn add_stored(&mut self, ordinal: u64, entry: Entry, ids_begin: u64, range: Range<usize>) {
        let nth = self.entries.len();
        self.entries.push(StoredEntry { entry, ids_begin, range });
        match self.stored.last_mut() {
            Some(run) if run.ordinal == ordinal => run.documents.end = nth + 1,
            _ => self.stored.push(SplitRun { ordinal, documents: nth..nth + 1, is_stored: true }),
        }
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.stored.is_empty() && self.window.framed.is_empty()
    }

    /// How many documents are ready.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Puts the documents found since the last call in order, as far as all splits have been read. Drops the later
    /// ones, and moves their splits back to them.
    pub(crate) fn order_found(&mut self, splits: &mut [OpenSplit]) {
        let limit = splits.iter().filter_map(OpenSplit::key).min();
        let (Some(first), Some(begin)) = (splits.first(), self.splits.first().map(|of| of.ordinal)) else {
            return;
        };
        let first = first.ordinal;
        let pieces = self.window.pieces[self.ordered..].iter().filter(|piece| !piece.frames.is_empty());
        let of_piece = |piece: &WindowPiece| SplitRun {
            ordinal: piece.ordinal,
            documents: piece.frames.clone(),
            is_stored: false,
        };
        let mut runs: Vec<SplitRun> = self.stored.drain(..).chain(pieces.map(of_piece)).collect();
        // Runs of one split stay in order. Of equal shares, the first split comes first.
        runs.sort_by_key(|run| run.ordinal);
        let Self { window, entries, .. } = self;
        let key = |run: &SplitRun| {
            let nth = run.documents.start;
            let byte = match run.is_stored {
                true => entries[nth].entry.start.0,
                false => window.framed[nth].frame.start.byte,
            };
            splits[(run.ordinal - first) as usize].key_of(byte)
        };
        self.order.reserve(runs.iter().map(|run| run.documents.len()).sum());
        let mut heads: Vec<DocumentKey> = runs.iter().map(key).collect();
        let mut last = None;
        // There are only a few runs, about one for each split: a linear search is the fastest.
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
        for SplitRun { ordinal, documents, is_stored } in runs.into_iter().rev() {
            let split = &mut splits[(ordinal - first) as usize];
            match is_stored {
                true => {
                    let StoredEntry { entry, ids_begin, .. } = &self.entries[documents.start];
                    split.go_back_stored(entry, *ids_begin, documents.len());
                }
                false => split.next = Next::At(self.window.framed[documents.start].frame.start),
            }
        }
        if last.is_some() {
            splits.iter_mut().for_each(|split| split.passed = split.passed.max(last));
        }
        self.ordered = self.window.pieces.len();
    }

    /// Whether it has splits of the group that begins at `group`.
    pub(crate) fn has(&self, group: u64) -> bool {
        self.splits.iter().any(|of| of.group == group)
    }

    /// Delivers the documents in order. `cursor` counts them. `skipped` documents of its group of splits were skipped
    /// before.
    pub(crate) fn deliver(
        self,
        grouper: &Grouper,
        lease: Lease,
        cursor: &mut LaneCursor,
        skipped: u64,
    ) -> Delivered {
        let Self { window: Window { bytes, framed, pieces }, entries, order, splits, .. } = self;
        let mut group = Group::with_room(order.len());
        let none = |of: &GatheredSplit| SplitCount { ordinal: of.ordinal, documents: 0 };
        let mut counts: Vec<SplitCount> = splits.iter().map(none).collect();
        let mut skips = Vec::new();
        let Some(&GatheredSplit { split, group: begin, .. }) = splits.first() else {
            return Delivered { group, counts, skips, ends: Vec::new(), skipped };
        };
        let mut groups = SplitGroups { splits: &splits, begin, skipped, ends: Vec::new() };
        let format = grouper.corpus.format(split.file);
        let mut texts = Texts::new(bytes, &pieces, format);
        let text_slab = splits.iter().filter(|of| of.tokens.is_some()).count();
        let mut origins = Vec::with_capacity(splits.len());
        for GatheredSplit { ordinal, split, tokens, .. } in &splits {
            let origin = SplitOrigin { split: *split, ordinal: *ordinal, is_interleaved: true };
            let stored = tokens.as_ref().map(|tokens| {
                let of = group.origin(group.next_slab(), origin);
                stored::close(grouper, tokens, &lease, &mut group);
                of
            });
            origins.push((stored, group.origin(text_slab, origin)));
        }
        let counts_replayed = matches!(format.on_error, OnError::Skip(_));
        for Ready { split, index, is_stored } in order {
            let nth = split as usize;
            let of = &splits[nth];
            groups.end_before(of.group, cursor);
            let documents = cursor.documents;
            if let (true, Some(tokens), (Some(origin), _)) = (is_stored, &of.tokens, origins[nth]) {
                let StoredEntry { entry, range, .. } = &entries[index as usize];
                let found = StoredDocument { entry, range: range.clone(), split: of.split, of: origin };
                stored::deliver(grouper, tokens, found, cursor, &mut group);
                continue;
            }
            let found = group::SitedFrame {
                split: of.split,
                framed: &framed[index as usize],
                format,
                epoch: cursor.epoch,
            };
            if of
                .passed
                .is_some_and(|passed| of.scale.key(of.ordinal, found.framed.frame.start.byte) <= passed)
            {
                // A resumed run counts the documents that were skipped before, like one that was not interrupted.
                groups.skipped += u64::from(counts_replayed && grouper.is_bad(&mut texts, &found));
                continue;
            }
            let mut all = cursor.skipped + groups.skipped;
            let before = all;
            let delivered = grouper.deliver(&mut texts, &found, origins[nth].1, cursor, &mut all, &mut group);
            if all > before {
                groups.skipped += 1;
                skips.push(SplitCount { ordinal: of.ordinal, documents });
            }
            counts[nth].documents += cursor.documents - documents;
            if let Err(error) = delivered {
                group.after = GroupEnd::Failed(error);
                break;
            }
        }
        grouper.add_text(texts, lease, &mut group);
        let last = splits.last().map_or(begin, |of| of.group);
        groups.end_before(last, cursor);
        let SplitGroups { skipped, mut ends, .. } = groups;
        ends.push(GroupCount { group: last, documents: cursor.documents });
        Delivered { group, counts, skips, ends, skipped }
    }
}

/// The groups of splits whose documents are being delivered.
#[derive(Debug)]
struct SplitGroups<'a> {
    splits: &'a [GatheredSplit],
    /// Where the current group begins, and how many of its documents have been skipped.
    begin: u64,
    skipped: u64,
    /// For each group that has ended, where it begins, and how many documents the lane had delivered at its end.
    ends: Vec<GroupCount>,
}

impl SplitGroups<'_> {
    /// Ends the groups before the one that begins at `next`. Cursors count skipped documents at the end of their group.
    fn end_before(&mut self, next: u64, cursor: &mut LaneCursor) {
        if self.begin == next {
            return;
        }
        let ended = self.splits.iter().filter(|of| (self.begin..next).contains(&of.group));
        for of in ended {
            cursor.skipped += of.tokens.as_ref().map_or(0, StoredSplit::skipped);
            if self.ends.last().is_none_or(|end| end.group != of.group) {
                self.ends.push(GroupCount { group: of.group, documents: cursor.documents });
            }
        }
        cursor.skipped += std::mem::take(&mut self.skipped);
        self.begin = next;
    }
}
