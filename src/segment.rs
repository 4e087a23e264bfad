//! Segments: files with the stored ids of one or more splits.
//!
//! They are mapped into memory. Each block's checksum is checked when the block is first used.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memmap2::Mmap;
use twox_hash::XxHash3_64;

use crate::error::{Error, Result};

mod format;
mod index;
mod map;
mod write;

use format::{BLOCK, BlockRow, HEADER, IDENTITY, MAGIC, ROW, TRAILER, VERSION};
pub(crate) use format::{ENTRY, Entry, Width};
use map::{bring, map};
pub(crate) use write::{SegmentWriter, StoredDocument};

/// The length at which a segment is full, in bytes: the most that a kill may cost its writer.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 20;

/// The extension of segment files.
pub(crate) const EXTENSION: &str = "tokens";

/// Maps a file of tokens into memory.
pub(crate) fn map_bytes(path: &Path) -> Result<impl std::ops::Deref<Target = [u8]>> {
    map(path).map_err(|e| Error::io(path, "map", e))
}

/// One open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    /// The fingerprint of the tokenizer that made its ids.
    tokenizer: Arc<str>,
    map: Mmap,
    width: Width,
    rows: Vec<BlockRow>,
    sums: Vec<u64>,
    /// Which blocks have been checked.
    seen: Vec<AtomicBool>,
}

impl Segment {
    /// Opens a segment, and checks that it has this identity. `tokenizer` is the fingerprint of the one that
    /// made its ids.
    pub(crate) fn open(path: &Path, identity: &[u8; 32], tokenizer: Arc<str>) -> Result<Self> {
        let map = map(path).map_err(|e| Error::io(path, "map", e))?;
        let refuse = |what: &str| Error::Corpus {
            problem: format!(
                "{}: this is not a complete segment of token shards: {what}; remove it, and prepare its splits again",
                path.display()
            ),
        };
        let numbers = |range: Range<usize>| -> Result<Vec<u64>> {
            let bytes = map.get(range).ok_or_else(|| refuse("it is too short"))?;
            Ok(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
        };
        if map.len() < HEADER + 8 * TRAILER || !map.len().is_multiple_of(8) {
            return Err(refuse("its length is not that of a segment"));
        }
        if map[..8] != MAGIC || map[map.len() - 8..] != MAGIC {
            return Err(refuse("it does not begin and end like a segment"));
        }
        let [version, width] =
            [8, 12].map(|at| u32::from_le_bytes([map[at], map[at + 1], map[at + 2], map[at + 3]]));
        if version != VERSION {
            let problem =
                format!("{}: its format is {version}, but this version reads {VERSION}", path.display());
            return Err(Error::Corpus { problem });
        }
        if map[IDENTITY] != identity[..] {
            let problem = format!(
                "{}: its tokens are of another corpus or tokenizer than the manifest beside it says; move it away, or \
                 prepare into an empty directory",
                path.display()
            );
            return Err(Error::Corpus { problem });
        }
        let width = Width::from_bytes(width).ok_or_else(|| refuse("its ids have neither 2 nor 4 bytes"))?;
        let end = map.len() - 8 * TRAILER;
        let trailer = numbers(end..map.len())?;
        let (splits, blocks, table, sum) = (trailer[0], trailer[1], trailer[2], trailer[3]);
        let whole = splits
            .checked_mul(ROW as u64)
            .and_then(|rows| rows.checked_add(blocks))
            .and_then(|n| n.checked_mul(8));
        let is_whole = table >= HEADER as u64
            && whole.and_then(|bytes| bytes.checked_add(table)) == Some(end as u64)
            && blocks == table.div_ceil(BLOCK as u64);
        if !is_whole {
            return Err(refuse("its footer is wrong"));
        }
        let table = table as usize;
        if XxHash3_64::oneshot(&map[table..end + 24]) != sum {
            return Err(refuse("its footer does not have its checksum"));
        }
        let footer = numbers(table..end)?;
        let (rows, sums) = footer.split_at(splits as usize * ROW);
        let rows: Vec<BlockRow> = rows.chunks_exact(ROW).map(BlockRow::from_numbers).collect();
        let fits = |range: Option<Range<u64>>, align: u64| {
            range.is_some_and(|range| {
                range.end <= table as u64 && range.start >= HEADER as u64 && range.start.is_multiple_of(align)
            })
        };
        if !rows.iter().all(|row| {
            u32::try_from(row.split).is_ok() && fits(row.ids_range(width), 8) && fits(row.index_range(), 8)
        }) {
            return Err(refuse("a split is beyond its end"));
        }
        let sums = sums.to_vec();
        let seen = sums.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { path: path.to_owned(), tokenizer, width, rows, sums, seen, map })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The fingerprint of the tokenizer that made its ids.
    pub(crate) fn tokenizer(&self) -> &str {
        &self.tokenizer
    }

    pub(crate) fn splits(&self) -> usize {
        self.rows.len()
    }

    /// Returns some bytes, after checking their blocks.
    fn bytes(&self, range: Range<usize>) -> Result<&[u8]> {
        for block in range.start / BLOCK..range.end.div_ceil(BLOCK).max(range.start / BLOCK) {
            self.check(block)?;
        }
        Ok(&self.map[range])
    }

    fn check(&self, block: usize) -> Result<()> {
        if self.seen[block].load(Relaxed) {
            return Ok(());
        }
        // The blocks end where the table begins.
        let start = block * BLOCK;
        let table = self.map.len() - 8 * (TRAILER + ROW * self.rows.len() + self.sums.len());
        if XxHash3_64::oneshot(&self.map[start..table.min(start + BLOCK)]) != self.sums[block] {
            let problem = format!(
                "{} (byte {start}): the block there does not have its checksum; remove the file, and prepare its \
                 splits again",
                self.path.display()
            );
            return Err(Error::Corpus { problem });
        }
        self.seen[block].store(true, Relaxed);
        Ok(())
    }

    /// Checks all blocks.
    pub(crate) fn verify(&self) -> Result<()> {
        (0..self.sums.len()).try_for_each(|block| self.check(block))
    }

    /// Appends the ids `range` of the file, which [`StoredSplit::place`] has checked.
    pub(crate) fn append_ids(&self, range: Range<usize>, into: &mut Vec<u32>) {
        let width = self.width.bytes();
        let bytes = &self.map[range.start * width..range.end * width];
        match self.width {
            Width::Two => {
                into.extend(bytes.as_chunks().0.iter().map(|id| u32::from(u16::from_le_bytes(*id))))
            }
            Width::Four => into.extend(bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id))),
        }
    }
}

/// The tokens of one split.
#[derive(Clone, Debug)]
pub(crate) struct StoredSplit {
    segment: Arc<Segment>,
    row: BlockRow,
    is_delivered: bool,
}

impl StoredSplit {
    /// All documents of a split.
    pub(crate) fn new(segment: Arc<Segment>, number: usize) -> Self {
        let row = segment.rows[number];
        Self { segment, row, is_delivered: false }
    }

    /// The documents of a split that was stored after the hold-out was drawn: every reader wants all of them.
    pub(crate) fn delivered(segment: Arc<Segment>, number: usize) -> Self {
        Self { is_delivered: true, ..Self::new(segment, number) }
    }

    /// Whether the hold-out was drawn before the split was stored.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_delivered
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The number of the split in its source.
    pub(crate) fn split(&self) -> u32 {
        self.row.split as u32
    }

    pub(crate) fn documents(&self) -> usize {
        self.row.documents as usize
    }

    pub(crate) fn ids(&self) -> usize {
        self.row.ids as usize
    }

    /// How many documents were skipped in all.
    pub(crate) fn skipped(&self) -> u64 {
        self.row.skipped
    }

    /// Returns the index's entry for document `nth`.
    pub(crate) fn entry(&self, nth: usize) -> Result<Entry> {
        let at = self.row.index_at as usize + 8 * ENTRY * nth;
        let bytes = self.segment.bytes(at..at + 8 * ENTRY)?;
        let mut numbers = [0; ENTRY];
        for (into, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *into = u64::from_le_bytes(*bytes);
        }
        let entry = Entry::from_numbers(&numbers);
        if entry.ids_end > self.row.ids {
            return Err(self.wrong(nth));
        }
        Ok(entry)
    }

    /// Asks for the ids from `first` on to be loaded into memory, up to `most` of them.
    pub(crate) fn bring(&self, first: u64, most: usize) {
        let width = self.segment.width.bytes();
        let ids = first.min(self.row.ids)..first.saturating_add(most as u64).min(self.row.ids);
        let at = self.row.ids_at as usize;
        bring(&self.segment.map, at + ids.start as usize * width..at + ids.end as usize * width);
    }

    /// Returns where the ids `range` of the split are in the file, in ids, after checking their blocks.
    pub(crate) fn place(&self, range: Range<u64>) -> Result<Range<usize>> {
        let width = self.segment.width.bytes();
        if range.start > range.end || range.end > self.row.ids {
            return Err(self.wrong(0));
        }
        let at = self.row.ids_at as usize / width;
        let ids = at + range.start as usize..at + range.end as usize;
        self.segment.bytes(ids.start * width..ids.end * width)?;
        Ok(ids)
    }

    /// Returns the number of the first document that begins at byte (or row) `at` of the file or after it.
    pub(crate) fn find(&self, at: u64) -> Result<usize> {
        self.partition_point(|begin| begin < at)
    }

    /// Returns the number of the first document for which `is_before` is false, given the byte (or row) where
    /// the document begins. `is_before` must be true for all documents before that one.
    pub(crate) fn partition_point(&self, is_before: impl Fn(u64) -> bool) -> Result<usize> {
        let (mut low, mut high) = (0, self.documents());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.entry(middle)?.start.0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn wrong(&self, document: usize) -> Error {
        let path = self.segment.path.display();
        let problem = format!(
            "{path}: the ids of document {document} of a split are wrong; remove the file, and prepare it again"
        );
        Error::Corpus { problem }
    }
}
