//! Puts the documents that one step found in splits that are read side by side into one order.

use std::collections::VecDeque;
use std::ops::Range;

use super::group::{Group, GroupEnd};
use super::grouper::{FoundFrame, Grouper};
use super::open_split::{FoundTokens, OpenSplit};
use super::stored::{self, StoredDocument};
use super::texts::Texts;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::{CarriedColumns, Mask, SplitEvent};
use crate::segment::{Entry, EntryEnd, StoredText};
use crate::shards::{StoredNotes, StoredSplit};
use crate::source::interleave::{DocumentKey, Scale};
use crate::source::split::{DealtSplit, Split};
use crate::source::window::{Window, WindowPiece};

/// The documents found so far in a few groups of splits.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The documents that are text.
    pub(crate) window: Window,
    /// The documents whose tokens are stored, and the masks of some of them, by their numbers among these.
    entries: Vec<StoredEntry>,
    masks: Vec<(usize, Mask)>,
    /// The columns that come along with each of them, up to the last one that has some.
    columns: Vec<CarriedColumns>,
    /// The documents that are not in order yet: these, and the window's pieces from `ordered` on.
    stored: Vec<SplitRun>,
    ordered: usize,
    /// The documents in the order of delivery, as far as it is known.
    order: Vec<Ready>,
    splits: Vec<GatheredSplit>,
    /// What happened between them, each with the number of ready documents before it.
    events: VecDeque<(usize, SplitEvent)>,
}

/// A document whose tokens are stored, and where its ids are.
#[derive(Debug)]
struct StoredEntry {
    entry: Entry,
    begin: EntryEnd,
    range: Range<usize>,
}

/// A split that has some of the documents.
#[derive(Debug)]
struct GatheredSplit {
    ordinal: u64,
    split: Split,
    scale: Scale,
    tokens: Option<StoredSplit>,
    /// The documents of its text up to this key have been delivered already.
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

impl GatheredSplit {
    /// How many documents of the record at `byte` were delivered before, and not all of them.
    fn before(&self, byte: u64) -> u64 {
        let partly = self.passed.filter(|passed| passed.sample < u64::MAX);
        partly.map_or(0, |passed| passed.samples_of(self.scale.key(self.ordinal, byte)))
    }
}

impl Gathered {
    /// Adds a split whose documents will follow.
    pub(crate) fn begin(&mut self, split: &OpenSplit) {
        let tokens = split.tokens().cloned();
        let &OpenSplit { ordinal, split, scale, passed, .. } = split;
        self.splits.push(GatheredSplit { ordinal, split, scale, tokens, passed });
    }

    /// The file of its first split.
    pub(crate) fn file(&self) -> Option<u32> {
        self.splits.first().map(|of| of.split.file)
    }

    /// How many splits it has.
    pub(crate) fn splits(&self) -> usize {
        self.splits.len()
    }

    /// Switches a split from tokens to text: drops its documents that were found since the last
    /// [`order_found`](Self::order_found).
    pub(crate) fn turn_to_text(&mut self, split: &OpenSplit) {
        self.stored.retain(|run| run.ordinal != split.ordinal);
        for of in self.splits.iter_mut().filter(|of| of.ordinal == split.ordinal) {
            of.passed = split.passed;
        }
    }

    /// Adds the next document of split `ordinal`.
    pub(crate) fn add_stored(&mut self, ordinal: u64, found: FoundTokens) {
        let FoundTokens { entry, begin, range, notes: StoredNotes { mask, columns } } = found;
        let nth = self.entries.len();
        self.entries.push(StoredEntry { entry, begin, range });
        if !mask.is_empty() {
            self.masks.push((nth, mask));
        }
        if columns.is_some() {
            self.columns.resize(nth, None);
            self.columns.push(columns);
        }
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
        // Where lines are counted from is known once a split's first document is found.
        for (of, open) in self.splits[(first - begin) as usize..].iter_mut().zip(&*splits) {
            of.split = open.split;
        }
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
                true => entries[nth].entry.start.byte,
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
                    let StoredEntry { entry, begin, .. } = &self.entries[documents.start];
                    split.go_back_stored(entry, *begin, documents.len());
                }
                false => split.go_back(self.window.framed[documents.start].frame.start),
            }
        }
        if last.is_some() {
            splits.iter_mut().for_each(|split| split.passed = split.passed.max(last));
        }
        self.ordered = self.window.pieces.len();
    }

    /// Notes an event after the documents that are ready.
    pub(crate) fn note(&mut self, event: SplitEvent) {
        self.events.push_back((self.order.len(), event));
    }

    /// The mask of each split's documents that are ready, in the places of its stored ids. Nothing if there are no masks.
    fn masks_of_splits(&self) -> Vec<Mask> {
        if self.masks.is_empty() {
            return Vec::new();
        }
        let mut masks = vec![Mask::default(); self.splits.len()];
        for &Ready { split, index, .. } in self.order.iter().filter(|ready| ready.is_stored) {
            let index = index as usize;
            if let Ok(nth) = self.masks.binary_search_by_key(&index, |(of, _)| *of) {
                let range = &self.entries[index].range;
                // The documents of a split are ready in the order of their ids.
                masks[split as usize].append(&self.masks[nth].1, 0..range.len(), range.start);
            }
        }
        masks
    }

    /// Delivers the documents in order. `cursor` counts them.
    pub(crate) fn deliver(self, grouper: &Grouper, lease: Lease, cursor: &mut LaneCursor) -> Group {
        let mut masks = self.masks_of_splits();
        let Self {
            window: Window { bytes, framed, pieces },
            entries,
            columns,
            order,
            splits,
            mut events,
            ..
        } = self;
        let mut group = Group::with_room(order.len());
        let mut note_before = |ready: usize, group: &mut Group| {
            while let Some((_, event)) = events.pop_front_if(|(before, _)| *before <= ready) {
                group.note(event);
            }
        };
        let Some(&GatheredSplit { split, .. }) = splits.first() else {
            note_before(0, &mut group);
            return group;
        };
        let format = grouper.corpus.format(split.file);
        let mut texts = Texts::new(bytes, &pieces, format);
        let text_slab = splits.iter().filter(|of| of.tokens.is_some()).count();
        let mut origins = Vec::with_capacity(splits.len());
        for (nth, GatheredSplit { ordinal, split, tokens, .. }) in splits.iter().enumerate() {
            let origin = DealtSplit { split: *split, ordinal: *ordinal };
            let stored = tokens.as_ref().map(|tokens| {
                let of = group.origin(group.next_slab(), origin);
                let mask = masks.get_mut(nth).map(std::mem::take).unwrap_or_default();
                stored::close(grouper, tokens, mask, &lease, &mut group);
                of
            });
            origins.push((stored, group.origin(text_slab, origin)));
        }
        let mut number = 0;
        for (ready, &Ready { split, index, is_stored }) in order.iter().enumerate() {
            let nth = split as usize;
            let of = &splits[nth];
            note_before(ready, &mut group);
            if let (true, Some(tokens), (Some(origin), _)) = (is_stored, &of.tokens, origins[nth]) {
                let StoredEntry { entry, range, .. } = &entries[index as usize];
                let mut sample = 0;
                if tokens.origin().is_rendered {
                    let is_of_record = |other: Option<&Ready>| {
                        other.is_some_and(|&Ready { split: of, index, is_stored }| {
                            is_stored && of == split && entries[index as usize].entry.start == entry.start
                        })
                    };
                    let goes_on = is_of_record(ready.checked_sub(1).map(|before| &order[before]));
                    number = match entry.text {
                        // It comes before the documents of its record.
                        StoredText::LeftOut => 0,
                        _ if goes_on => number + 1,
                        _ => of.before(entry.start.byte) + 1,
                    };
                    sample = if is_of_record(order.get(ready + 1)) { number as u32 } else { 0 };
                }
                let is_filtered = format.carried.is_filtered() && !tokens.is_delivered();
                let (range, split) = (range.clone(), of.split);
                let columns = columns.get(index as usize).cloned().flatten();
                let found = StoredDocument { entry, range, split, of: origin, sample, columns, is_filtered };
                if let Err(error) = stored::deliver(grouper, tokens, found, cursor, &mut group) {
                    group.after = GroupEnd::Failed(error);
                    break;
                }
                continue;
            }
            let framed = &framed[index as usize];
            let byte = framed.frame.start.byte;
            if of.passed.is_some_and(|passed| of.scale.key(of.ordinal, byte) <= passed) {
                continue;
            }
            let (epoch, before) = (cursor.epoch, of.before(byte));
            let found = FoundFrame { split: of.split, framed, format, epoch, before };
            if let Err(error) = grouper.deliver(&mut texts, &found, origins[nth].1, cursor, &mut group) {
                group.after = GroupEnd::Failed(error);
                break;
            }
        }
        // Behind a failure nothing was delivered, so nothing happened there.
        if matches!(group.after, GroupEnd::More) {
            note_before(order.len(), &mut group);
        }
        grouper.add_text(texts, lease, &mut group);
        group
    }
}
