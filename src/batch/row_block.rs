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
use crate::cursor::{Digest, RowAccount, SourceLedger};
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
    mask: Mask,
}

impl Run {
    /// The bytes of text that the ids at these places of the row stand for.
    #[inline]
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
        let mut row = Self {
            len: sequence.len(),
            width: sequence.width(),
            text_bytes: 0,
            text_bytes_within_documents: 0,
            digest: Digest::default(),
            account: RowAccount::default(),
        };
        let (begin, begin_masked, mut end) = (to.ids.len(), to.masked.len(), 0);
        let (counted, mut documents) = (sequence.counted_places(ahead), 0);
        for part in sequence.parts().iter().filter(|part| !part.is_empty()) {
            part.append_to(to.ids);
            let ids = end..end + part.len();
            documents += u32::from(part.offset() == 0 && counted.contains(&end));
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
            let mask = part.mask();
            for masked in mask.masked() {
                let places = masked.start + ids.start..masked.end + ids.start;
                push_masked(to.masked, begin_masked, number as u32, places);
            }
            row.count(&Run { ids, offset: part.offset(), document: part.document(), mask }, ahead);
        }
        row.digest = Digest::of_row(&to.ids[begin..]);
        let masked = &to.masked[begin_masked..];
        if !masked.is_empty() {
            row.digest = row.digest.masking(masked.iter().map(|masked| masked.from..masked.to));
        }
        let masked = masked_targets(masked, row.width.saturating_sub(ahead));
        row.account = sequence.account(ahead, documents, masked);
        row
    }

    /// Counts the bytes of text that the learned targets of a run stand for.
    #[inline]
    fn count(&mut self, run: &Run, ahead: usize) {
        let Range { start: from, end: to } = run.ids;
        // Ids past `seq_len` count in the next row, and the row's first id is not a target here: its bytes count in the
        // previous row.
        let (first, end) = (from.max(1), to.min(self.width.saturating_sub(ahead) + 1));
        if first >= end {
            return;
        }
        if !run.mask.is_empty() {
            for learned in run.mask.learned_in(first - from..end - from) {
                let places = learned.start + from..learned.end + from;
                self.text_bytes += run.bytes(places.clone());
                self.text_bytes_within_documents += run.bytes(places.start.max(from + 1)..places.end);
            }
            return;
        }
        let behind = run.bytes_before(end);
        let bytes = behind - run.bytes_before(first);
        self.text_bytes += bytes;
        self.text_bytes_within_documents += match from + 1 {
            second if second == first => bytes,
            second if second < end => behind - run.bytes_before(second),
            _ => 0,
        };
    }
}

/// How many of a row's targets are masked.
fn masked_targets(masked: &[MaskedPlaces], seq_len: usize) -> usize {
    let targets = |places: &MaskedPlaces| {
        (places.to as usize).min(seq_len + 1).saturating_sub((places.from as usize).max(1))
    };
    masked.iter().map(targets).sum()
}

/// Appends places of the row that begins at `begin`. Those of neighbouring parts become one, so that the list does not
/// depend on how a row is cut into parts.
fn push_masked(masked: &mut Vec<MaskedPlaces>, begin: usize, row: u32, places: Range<usize>) {
    let (from, to) = (places.start as u32, places.end as u32);
    match masked[begin..].last_mut() {
        Some(last) if last.to == from => last.to = to,
        _ => masked.push(MaskedPlaces { row, from, to }),
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
    left_out: Vec<(usize, SourceLedger)>,
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
            self.left_out.push((self.rows.len(), *left_out));
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

    /// What a row holds, for the ledger.
    pub(crate) fn account(&self, nth: usize) -> RowAccount {
        self.rows[nth].row.account
    }

    /// What was left out before a row.
    pub(crate) fn left_out(&self, nth: usize) -> Option<&SourceLedger> {
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
