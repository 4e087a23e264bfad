//! The numbers of a segment file: its header, its index and its footer. All of them are little-endian.

use std::ops::Range;

/// What a segment begins and ends with.
pub(super) const MAGIC: [u8; 8] = *b"MSTOKENS";

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The length of the header, in bytes: the magic, the version, the width of an id, the digest of what the
/// tokens were made from, and zeros.
pub(super) const HEADER: usize = 64;

/// Where that digest is, in bytes.
pub(super) const IDENTITY: std::ops::Range<usize> = 16..48;

/// How many bytes one checksum covers.
pub(super) const BLOCK: usize = 1 << 20;

/// A document's entry in the index, in numbers of eight bytes.
pub(crate) const ENTRY: usize = 8;

/// A split's entry in the table, in numbers of eight bytes.
pub(super) const ROW: usize = 6;

/// The length of the trailer, in numbers of eight bytes: splits, blocks, where the table begins, the checksum
/// of everything from there on, and the magic.
pub(super) const TRAILER: usize = 5;

/// How many bytes an id takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Two,
    Four,
}

impl Width {
    /// The narrower one that holds all ids of a vocabulary.
    pub(crate) fn for_vocab(vocab_size: usize) -> Self {
        if vocab_size <= 1 << 16 { Self::Two } else { Self::Four }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    pub(super) fn from_bytes(bytes: u32) -> Option<Self> {
        [Self::Two, Self::Four].into_iter().find(|width| width.bytes() == bytes as usize)
    }
}

/// The index's entry for a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Where its ids end in its split's ids.
    pub(crate) ids_end: u64,
    /// Where it begins in its file, and on which line, counted from 0 at its split's start.
    pub(crate) start: (u64, u64),
    /// Where reading goes on after it, in the same form.
    pub(crate) next: (u64, u64),
    /// The first eight bytes of the BLAKE3 digest of its text.
    pub(crate) digest: u64,
    /// The share of epochs that it is in.
    pub(crate) share: f64,
    /// The length of its text, in bytes; `None` if the tokenizer failed on it.
    pub(crate) text_bytes: Option<u32>,
    /// How many documents of its split were skipped before it.
    pub(crate) skipped: u32,
}

/// The stored text length of a document that the tokenizer failed on.
const FAILED: u32 = u32::MAX;

impl Entry {
    pub(super) fn to_numbers(self) -> [u64; ENTRY] {
        let Self { ids_end, start, next, digest, share, text_bytes, skipped } = self;
        let lengths = u64::from(text_bytes.unwrap_or(FAILED)) | u64::from(skipped) << 32;
        [ids_end, start.0, start.1, next.0, next.1, digest, share.to_bits(), lengths]
    }

    pub(super) fn from_numbers(numbers: &[u64]) -> Self {
        let text_bytes = numbers[7] as u32;
        Self {
            ids_end: numbers[0],
            start: (numbers[1], numbers[2]),
            next: (numbers[3], numbers[4]),
            digest: numbers[5],
            share: f64::from_bits(numbers[6]),
            text_bytes: (text_bytes != FAILED).then_some(text_bytes),
            skipped: (numbers[7] >> 32) as u32,
        }
    }
}

/// The table's row for a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRow {
    /// Its number in the source.
    pub(super) split: u64,
    /// Where its ids begin in the segment, in bytes, and how many there are.
    pub(super) ids_at: u64,
    pub(super) ids: u64,
    /// Where its index begins, in bytes, and how many documents it has.
    pub(super) index_at: u64,
    pub(super) documents: u64,
    /// How many of its documents were skipped in all.
    pub(super) skipped: u64,
}

impl BlockRow {
    pub(super) fn to_numbers(self) -> [u64; ROW] {
        [self.split, self.ids_at, self.ids, self.index_at, self.documents, self.skipped]
    }

    pub(super) fn from_numbers(numbers: &[u64]) -> Self {
        let [split, ids_at, ids, index_at, documents, skipped] =
            [0, 1, 2, 3, 4, 5].map(|index| numbers[index]);
        Self { split, ids_at, ids, index_at, documents, skipped }
    }

    /// The range of bytes that holds its ids, or `None` if that overflows.
    pub(super) fn ids_range(&self, width: Width) -> Option<Range<u64>> {
        let bytes = self.ids.checked_mul(width.bytes() as u64)?;
        Some(self.ids_at..self.ids_at.checked_add(bytes)?)
    }

    /// The range of bytes that holds its index.
    pub(super) fn index_range(&self) -> Option<Range<u64>> {
        let bytes = self.documents.checked_mul(8 * ENTRY as u64)?;
        Some(self.index_at..self.index_at.checked_add(bytes)?)
    }
}
