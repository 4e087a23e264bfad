//! Rows in the making in, copied rows out.
//!
//! This is the only place where the ids of a row are gathered from its documents. A row goes straight into a batch, or
//! into a block with the lane's next rows: then the lane's own task does the work, and one `memcpy` is left for the
//! batch. The row is hashed right after the copy, while its ids are in the CPU's cache and in one piece.
//!
//! Held in memory: the block.

use std::ops::Range;
use std::sync::Arc;

use super::{MaskedPlaces, Piece};
use crate::cursor::{Digest, Omitted, RowAccount};
use crate::document::{Columns, Mask, Sequence};
use crate::files::Files;

/// What a batch has to know of a copied row, besides its ids and pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopiedRow {
    /// How many ids it has, and with padding.
    pub(super) len: usize,
    pub(super) width: usize,
    /// The bytes of text that its learned targets stand for, and those of such targets within documents.
    pub(super) text_bytes: u64,
    pub(super) text_bytes_within_documents: u64,
    pub(super) digest: Digest,
    /// What it holds, for the ledger.
    pub(super) account: RowAccount,
}

/// The lists that rows are copied to.
#[derive(Debug)]
pub(super) struct Copies<'a> {
    pub(super) ids: &'a mut Vec<u32>,
    pub(super) pieces: &'a mut Vec<Piece>,
    pub(super) masked: &'a mut Vec<MaskedPlaces>,
    pub(super) corpora: &'a mut Vec<Arc<Files>>,
    pub(super) columns: &'a mut Vec<Arc<Columns>>,
}

/// A run of ids of one document.
#[derive(Debug)]
struct Run {
    /// Where it is in the row.
    ids: Range<usize>,
    /// The index of its first id in the document.
    offset: usize,
    /// The number of ids of the whole document, and the bytes of its text.
    document: (usize, usize),
}

impl Run {
    /// The bytes of text that these targets stand for, of the row's places, and those of such targets within the document.
    #[inline]
    fn text_bytes(&self, targets: Range<usize>) -> [u64; 2] {
        let Range { start: first, end } = targets;
        if first >= end {
            return [0, 0];
        }
        let behind = self.bytes_before(end);
        let bytes = behind - self.bytes_before(first);
        let within = match self.ids.start + 1 {
            second if second == first => bytes,
            second if second < end => behind - self.bytes_before(second),
            _ => 0,
        };
        [bytes, within]
    }

    /// The same of those that `mask` leaves, which has places in the run.
    fn learned_text_bytes(&self, targets: Range<usize>, mask: &Mask) -> [u64; 2] {
        let from = self.ids.start;
        if mask.is_empty() || targets.is_empty() {
            return self.text_bytes(targets);
        }
        let learned = mask.learned_in(targets.start - from..targets.end - from);
        learned.fold([0, 0], |[all, within], learned| {
            let places = learned.start + from..learned.end + from;
            [all + self.bytes(places.clone()), within + self.bytes(places.start.max(from + 1)..places.end)]
        })
    }

    /// The bytes of text that the ids at these places of the row stand for.
    fn bytes(&self, places: Range<usize>) -> u64 {
        match places.is_empty() {
            true => 0,
            false => self.bytes_before(places.end) - self.bytes_before(places.start),
        }
    }

    /// The bytes of the document's text that the ids before place `at` of the row stand for. A document's bytes are divided
    /// evenly among its ids.
    #[inline]
    fn bytes_before(&self, at: usize) -> u64 {
        let (ids, bytes) = self.document;
        // Many runs are whole documents, and a division takes as long as copying a few hundred ids.
        match self.offset + at - self.ids.start {
            0 => 0,
            id if id == ids => bytes as u64,
            id => (id * bytes / ids) as u64,
        }
    }
}

impl CopiedRow {
    /// Copies a row, the one of this number, to the ends of the lists. A batch has targets for so many ids `ahead`.
    pub(super) fn copy(sequence: &Sequence, number: usize, ahead: usize, to: Copies<'_>) -> Self {
        let (len, width) = (sequence.len(), sequence.width());
        let seq_len = width.saturating_sub(ahead);
        let (mut text_bytes, mut text_bytes_within_documents) = (0, 0);
        let (begin, begin_masked, mut end) = (to.ids.len(), to.masked.len(), 0);
        for part in sequence.parts().iter().filter(|part| !part.is_empty()) {
            part.append_to(to.ids);
            let ids = end..end + part.len();
            end = ids.end;
            to.pieces.push(Piece {
                row: number as u32,
                from: ids.start as u32,
                to: ids.end as u32,
                offset: part.offset() as u32,
                position: part.position(),
                corpus: number_of(part.files(), to.corpora),
                columns: carried(part.columns().as_ref(), to.columns),
            });
            // Ids past `seq_len` count in the next row, and the row's first id is not a target here: its bytes count in the
            // previous row.
            let targets = ids.start.max(1)..ids.end.min(seq_len + 1);
            let run = Run { ids, offset: part.offset(), document: part.document() };
            let [bytes, within_document] = match part.is_plain() {
                true => run.text_bytes(targets),
                false => {
                    let mask = part.mask();
                    push_masked(to.masked, begin_masked, number as u32, &mask, run.ids.start);
                    run.learned_text_bytes(targets, &mask)
                }
            };
            text_bytes += bytes;
            text_bytes_within_documents += within_document;
        }
        let mut digest = Digest::of_row(&to.ids[begin..]);
        let masked = &to.masked[begin_masked..];
        if !masked.is_empty() {
            digest = digest.masking(masked.iter().map(|masked| masked.from..masked.to));
        }
        let account = sequence.account(ahead, masked_targets(masked, seq_len));
        Self { len, width, text_bytes, text_bytes_within_documents, digest, account }
    }
}

/// How many of a row's targets are masked.
fn masked_targets(masked: &[MaskedPlaces], seq_len: usize) -> usize {
    let targets = |places: &MaskedPlaces| {
        (places.to as usize).min(seq_len + 1).saturating_sub((places.from as usize).max(1))
    };
    masked.iter().map(targets).sum()
}

/// Appends the masked places of a part of the row that begins at `begin`; the part begins at place `from`. Those of
/// neighbouring parts become one, so that the list does not depend on how a row is cut into parts.
#[inline(never)]
fn push_masked(masked: &mut Vec<MaskedPlaces>, begin: usize, row: u32, mask: &Mask, from: usize) {
    for places in mask.masked() {
        let (from, to) = ((places.start + from) as u32, (places.end + from) as u32);
        match masked[begin..].last_mut() {
            Some(last) if last.to == from => last.to = to,
            _ => masked.push(MaskedPlaces { row, from, to }),
        }
    }
}

/// The number of `files` among the file lists, where they are added if they are new.
pub(super) fn number_of(files: &Arc<Files>, corpora: &mut Vec<Arc<Files>>) -> u32 {
    let known = corpora.iter().position(|corpus| Arc::ptr_eq(corpus, files));
    known.unwrap_or_else(|| {
        corpora.push(files.clone());
        corpora.len() - 1
    }) as u32
}

/// The number of a document's columns among those that come along, where they are added; 0 if it has none.
pub(super) fn carried(columns: Option<&Arc<Columns>>, all: &mut Vec<Arc<Columns>>) -> u32 {
    columns.map_or(0, |columns| {
        all.push(columns.clone());
        all.len() as u32
    })
}

/// Some rows, copied one after the other, without padding. They may differ in width.
#[derive(Debug, Default)]
pub(crate) struct RowBlock {
    ids: Vec<u32>,
    pieces: Vec<Piece>,
    masked: Vec<MaskedPlaces>,
    corpora: Vec<Arc<Files>>,
    columns: Vec<Arc<Columns>>,
    rows: Vec<BlockRow>,
    /// What was left out before some of the rows, with their numbers.
    left_out: Vec<(usize, Omitted)>,
}

/// A row of a block, and where its share of each list ends there.
#[derive(Clone, Copy, Debug)]
struct BlockRow {
    row: CopiedRow,
    ends: Ends,
}

/// How long the lists are behind a row.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    ids: usize,
    pieces: usize,
    masked: usize,
}

#[derive(Debug)]
pub(super) struct RowOfBlock<'a> {
    pub(super) row: CopiedRow,
    pub(super) ids: &'a [u32],
    pub(super) pieces: &'a [Piece],
    pub(super) masked: &'a [MaskedPlaces],
}

impl RowBlock {
    /// Copies a row. A batch has targets for so many ids `ahead`.
    pub(crate) fn push(&mut self, sequence: &Sequence, ahead: usize) {
        if let Some(left_out) = sequence.left_out() {
            self.left_out.push((self.rows.len(), left_out.clone()));
        }
        let Self { ids, pieces, masked, corpora, columns, rows, .. } = self;
        let copies = Copies { ids, pieces, masked, corpora, columns };
        let row = CopiedRow::copy(sequence, rows.len(), ahead, copies);
        let ends = Ends { ids: ids.len(), pieces: pieces.len(), masked: masked.len() };
        rows.push(BlockRow { row, ends });
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// How many ids its rows have.
    pub(crate) fn ids(&self) -> usize {
        self.ids.len()
    }

    /// Takes the rows. The next ones find room for as many and some more.
    pub(crate) fn take(&mut self) -> Self {
        let some_more = |len: usize| len + len / 8;
        let next = Self {
            ids: Vec::with_capacity(some_more(self.ids.len())),
            pieces: Vec::with_capacity(some_more(self.pieces.len())),
            masked: Vec::with_capacity(some_more(self.masked.len())),
            corpora: Vec::new(),
            columns: Vec::with_capacity(some_more(self.columns.len())),
            rows: Vec::with_capacity(some_more(self.rows.len())),
            left_out: Vec::new(),
        };
        std::mem::replace(self, next)
    }

    pub(super) fn row(&self, nth: usize) -> RowOfBlock<'_> {
        let begin = nth.checked_sub(1).map_or_else(Ends::default, |before| self.rows[before].ends);
        let BlockRow { row, ends } = self.rows[nth];
        RowOfBlock {
            row,
            ids: &self.ids[begin.ids..ends.ids],
            pieces: &self.pieces[begin.pieces..ends.pieces],
            masked: &self.masked[begin.masked..ends.masked],
        }
    }

    /// What was left out before a row.
    pub(crate) fn left_out(&self, nth: usize) -> Option<&Omitted> {
        if self.left_out.is_empty() {
            return None;
        }
        let at = self.left_out.binary_search_by_key(&nth, |(row, _)| *row).ok()?;
        Some(&self.left_out[at].1)
    }

    pub(super) fn files(&self, piece: &Piece) -> &Arc<Files> {
        &self.corpora[piece.corpus as usize]
    }

    pub(super) fn columns(&self, piece: &Piece) -> Option<&Arc<Columns>> {
        piece.columns_in(&self.columns)
    }
}
