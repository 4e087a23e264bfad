//! The numbers of a segment file: its header, its splits, its table and its trailer. All of them are little-endian.

use std::ops::Range;

use twox_hash::XxHash3_64;

use super::notes::NOTE;

/// The first and last bytes of a segment.
pub(super) const MAGIC: [u8; 8] = *b"MSTOKENS";

pub(super) const VERSION: u32 = 1;

/// The length of the header, in bytes: the magic, the version, the width of an id, the digest of the tokens' origin,
/// and zeros.
pub(crate) const HEADER: usize = 64;

/// Where that digest is, in bytes.
pub(super) const IDENTITY: Range<usize> = 16..48;

/// How many bytes of a split one checksum covers: few, so that one document can be read from a store.
pub(crate) const BLOCK: usize = 16 << 10;

/// The length of a checksum, in bytes.
pub(crate) const SUM: usize = 8;

/// A document's entry in the index, in numbers of eight bytes.
pub(super) const ENTRY: usize = 6;

/// A split's row in the table, in numbers of eight bytes.
pub(crate) const ROW: usize = 7;

/// The length of the trailer, in numbers of eight bytes: splits, where the table begins, the checksum of
/// everything from there on, and the magic.
pub(super) const TRAILER: usize = 4;

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

    /// Appends the ids that some bytes hold.
    pub(crate) fn append(self, bytes: &[u8], into: &mut Vec<u32>) {
        match self {
            Self::Two => into.extend(bytes.as_chunks().0.iter().map(|id| u32::from(u16::from_le_bytes(*id)))),
            Self::Four => into.extend(bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id))),
        }
    }
}

/// A boundary between documents in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// The offset in the file, in bytes.
    pub(crate) byte: u64,
    /// The line there, from 0, counted from where its split begins by arithmetic.
    pub(crate) line: u64,
}

impl Boundary {
    /// The boundary before a record, in a format that has no lines.
    pub(crate) fn record(number: u64) -> Self {
        Self { byte: number, line: 0 }
    }
}

impl From<u64> for Boundary {
    /// As [`record`](Boundary::record).
    fn from(number: u64) -> Self {
        Self::record(number)
    }
}

/// The index's entry for a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Where what is stored of it ends.
    pub(crate) end: EntryEnd,
    /// Where it begins in its file.
    pub(crate) start: Boundary,
    /// The first eight bytes of the BLAKE3 digest of its text.
    pub(crate) digest: u64,
    /// The share of epochs that it is in.
    pub(crate) share: f64,
    pub(crate) text: StoredText,
}

/// Where a document's ids end among its split's ids, and its notes among the split's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryEnd {
    pub(crate) ids: u64,
    pub(crate) notes: u32,
}

impl Entry {
    /// Whether it is a document without ids that counts for every reader, whatever is held out, sampled or filtered.
    pub(crate) fn counts_always(&self) -> bool {
        self.text == StoredText::Skipped || self.text == StoredText::LeftOut && self.digest == COUNTED
    }
}

impl EntryEnd {
    /// How many ids and notes there are from `begin` on.
    pub(crate) fn since(self, begin: Self) -> (usize, usize) {
        (self.ids.saturating_sub(begin.ids) as usize, self.notes.saturating_sub(begin.notes) as usize)
    }
}

/// The text that a document's ids were made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredText {
    /// Its length, in bytes.
    Bytes(u32),
    /// The tokenizer failed on it, so it has no ids.
    Failed,
    /// It could not be read, and was skipped.
    Skipped,
    /// Its task leaves it out, or it is too long.
    LeftOut,
}

/// The digest of an entry that counts for every reader, whatever is held out.
pub(crate) const COUNTED: u64 = 0;

impl StoredText {
    /// The length of the text that became ids, in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes as usize,
            Self::Failed | Self::Skipped | Self::LeftOut => 0,
        }
    }

    const FAILED: u32 = u32::MAX;
    const SKIPPED: u32 = u32::MAX - 1;
    const LEFT_OUT: u32 = u32::MAX - 2;

    fn to_number(self) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Failed => Self::FAILED,
            Self::Skipped => Self::SKIPPED,
            Self::LeftOut => Self::LEFT_OUT,
        }
    }

    fn from_number(number: u32) -> Self {
        match number {
            Self::FAILED => Self::Failed,
            Self::SKIPPED => Self::Skipped,
            Self::LEFT_OUT => Self::LeftOut,
            bytes => Self::Bytes(bytes),
        }
    }
}

impl Entry {
    /// Its length, in bytes.
    pub(crate) const BYTES: usize = 8 * ENTRY;

    pub(super) fn to_numbers(self) -> [u64; ENTRY] {
        let Self { end, start, digest, share, text } = self;
        let last = u64::from(end.notes) << 32 | u64::from(text.to_number());
        [end.ids, start.byte, start.line, digest, share.to_bits(), last]
    }

    /// Takes the entry out of its bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut numbers = [0; ENTRY];
        for (into, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *into = u64::from_le_bytes(*bytes);
        }
        Self {
            end: EntryEnd { ids: numbers[0], notes: (numbers[5] >> 32) as u32 },
            start: Boundary { byte: numbers[1], line: numbers[2] },
            digest: numbers[3],
            share: f64::from_bits(numbers[4]),
            text: StoredText::from_number(numbers[5] as u32),
        }
    }
}

/// The table's row for a split: its ids, then its index, then its notes, then the checksums of all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitRow {
    /// Its number in the source.
    pub(crate) split: u64,
    /// Where it begins in the segment, in bytes, and how many ids it has.
    pub(crate) at: u64,
    pub(crate) ids: u64,
    /// How many documents its index has, and how many of these were skipped.
    pub(crate) documents: u64,
    pub(crate) skipped: u64,
    /// How many notes its documents have, in units.
    pub(crate) notes: u64,
    /// The checksum of its checksums.
    pub(crate) sum: u64,
}

impl SplitRow {
    pub(crate) fn to_numbers(self) -> [u64; ROW] {
        [self.split, self.at, self.ids, self.documents, self.skipped, self.notes, self.sum]
    }

    pub(crate) fn from_numbers(numbers: [u64; ROW]) -> Self {
        let [split, at, ids, documents, skipped, notes, sum] = numbers;
        Self { split, at, ids, documents, skipped, notes, sum }
    }

    /// Whether it lies between a segment's header and `end`.
    pub(crate) fn fits(&self, width: Width, end: u64) -> bool {
        let parts = || {
            let ids = self.ids.checked_mul(width.bytes() as u64)?.checked_next_multiple_of(8)?;
            let index = self.documents.checked_mul(Entry::BYTES as u64)?;
            let notes = self.notes.checked_mul(NOTE as u64)?;
            let checked = ids.checked_add(index)?.checked_add(notes)?;
            self.at.checked_add(checked)?.checked_add(checked.div_ceil(BLOCK as u64).checked_mul(SUM as u64)?)
        };
        u32::try_from(self.split).is_ok()
            && self.at >= HEADER as u64
            && self.at.is_multiple_of(8)
            && parts().is_some_and(|behind| behind <= end)
    }

    /// Where its index begins, in bytes.
    pub(crate) fn index_at(&self, width: Width) -> u64 {
        self.at + (self.ids * width.bytes() as u64).next_multiple_of(8)
    }

    /// Where its notes begin, in bytes.
    pub(crate) fn notes_at(&self, width: Width) -> u64 {
        self.index_at(width) + self.documents * Entry::BYTES as u64
    }

    /// Where its checksums begin, in bytes. They cover what is before them.
    pub(crate) fn sums_at(&self, width: Width) -> u64 {
        self.notes_at(width) + self.notes * NOTE as u64
    }

    /// How many bytes they cover.
    pub(crate) fn checked(&self, width: Width) -> usize {
        (self.sums_at(width) - self.at) as usize
    }

    /// The whole blocks that some bytes are in, counted from its beginning.
    pub(crate) fn blocks_of(&self, bytes: &Range<usize>, width: Width) -> Range<usize> {
        bytes.start / BLOCK * BLOCK..bytes.end.next_multiple_of(BLOCK).min(self.checked(width))
    }

    pub(crate) fn blocks(&self, width: Width) -> usize {
        self.checked(width).div_ceil(BLOCK)
    }

    /// Where it ends, in bytes.
    pub(crate) fn end(&self, width: Width) -> u64 {
        self.sums_at(width) + (self.blocks(width) * SUM) as u64
    }
}

/// Where the first of some blocks is that does not have its checksum. They begin at byte `at` of a split, whose checksums
/// are `sums`.
pub(crate) fn damaged_block(blocks: &[u8], at: usize, sums: &[u8]) -> Option<usize> {
    let (sums, _) = sums.as_chunks::<SUM>();
    let mut blocks = (at / BLOCK..).zip(blocks.chunks(BLOCK));
    let damaged =
        blocks.find(|(nth, block)| sums.get(*nth) != Some(&XxHash3_64::oneshot(block).to_le_bytes()));
    damaged.map(|(nth, _)| nth * BLOCK)
}

/// The end of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Rows(Vec<SplitRow>),
    /// It takes so many bytes from the end.
    Longer(u64),
}

/// Reads the table of a segment of `len` bytes from its last bytes.
pub(crate) fn parse_table(end: &[u8], len: u64, width: Width) -> Result<Table, &'static str> {
    let trailer = end.len().checked_sub(8 * TRAILER).ok_or("it is too short")?;
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let numbers: Vec<u64> = end[trailer..].chunks(8).map(number).collect();
    let (splits, table, sum) = (numbers[0], numbers[1], numbers[2]);
    if end[end.len() - 8..] != MAGIC {
        return Err("it does not end like a segment");
    }
    let rows_end = splits.checked_mul(8 * ROW as u64).and_then(|bytes| bytes.checked_add(table));
    if table < HEADER as u64 || rows_end != Some(len.saturating_sub(8 * TRAILER as u64)) {
        return Err("its table is wrong");
    }
    let taken = len - table;
    if taken > end.len() as u64 {
        return Ok(Table::Longer(taken));
    }
    let from = end.len() - taken as usize;
    if XxHash3_64::oneshot(&end[from..trailer + 16]) != sum {
        return Err("its table does not have its checksum");
    }
    let row = |bytes: &[u8]| {
        let mut numbers = [0; ROW];
        numbers.iter_mut().zip(bytes.chunks(8)).for_each(|(into, bytes)| *into = number(bytes));
        SplitRow::from_numbers(numbers)
    };
    let rows: Vec<SplitRow> = end[from..trailer].chunks(8 * ROW).map(row).collect();
    match rows.iter().all(|row| row.fits(width, table)) {
        true => Ok(Table::Rows(rows)),
        false => Err("a split is beyond its end"),
    }
}
