//! Segments: files with the stored ids of one or more splits, and an index of their documents.
//!
//! Local segments are mapped into memory. Each block's checksum is checked when the block is first used.
//!
//! - `format`: the numbers of the file, and the table of its splits
//! - `notes`: which ids are not learned from, and the columns that come along
//! - `write`: a segment under way
//! - `map`: a file in memory
//! - `ids`: where the ids of documents are: in a mapped segment, or in memory

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use memmap2::Mmap;

use crate::error::{Error, Result};

mod format;
mod ids;
mod map;
mod notes;
mod write;

pub(crate) use format::{
    BLOCK, Boundary, COUNTED, Entry, EntryEnd, HEADER, ROW, SUM, SplitRow, StoredText, Table, Width,
    damaged_block, parse_table,
};
use format::{IDENTITY, MAGIC, TRAILER, VERSION};
pub(crate) use ids::{HeldIds, IdsOrigin, StoredIds};
use map::{bring, map, scatter, will_need};
pub(crate) use notes::{NOTE, Notes, notes};
pub(crate) use write::{SegmentWriter, StoredDocument, begun};

/// The length at which a segment is full, in bytes: the most that a kill may cost its writer.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 20;

pub(crate) const EXTENSION: &str = "tokens";

/// Maps a file of tokens into memory.
pub(crate) fn map_bytes(path: &Path) -> Result<impl std::ops::Deref<Target = [u8]>> {
    map(path).map_err(|e| Error::io(path, "map", e))
}

/// The error for a file that is not a complete segment.
pub(crate) fn incomplete(path: &Path, what: &str) -> Error {
    let problem =
        format!("{}: this is not a complete segment: {what}; remove it, and prepare again", path.display());
    Error::Corpus { problem }
}

/// The error that a block of a segment, which begins at a byte, is not as it was written.
pub(crate) fn damaged(path: &Path, byte: u64) -> Error {
    let problem = "the block there does not have its checksum";
    Error::remove_and_prepare_again(format_args!("{} (byte {byte})", path.display()), problem)
}

/// Checks that a segment begins with the right mark and identity. Returns how many bytes an id takes.
pub(crate) fn check_header(head: &[u8], identity: &[u8; 32], path: &Path) -> Result<Width> {
    let refuse = |what: &str| Error::Corpus { problem: format!("{}: {what}", path.display()) };
    let number = |at: usize| {
        head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    let (version, width) = (number(8), Width::from_bytes(number(12)));
    if !head.starts_with(&MAGIC) {
        return Err(refuse("it does not begin like a segment; remove it, and prepare again"));
    }
    if version != VERSION {
        let what = format!(
            "its format is {version}, but this version reads {VERSION}; prepare into an empty directory"
        );
        return Err(refuse(&what));
    }
    if head.get(IDENTITY) != Some(identity) {
        return Err(refuse(
            "its tokens are of another corpus or tokenizer than the manifest beside it says; move it away, or prepare \
             into an empty directory",
        ));
    }
    width.ok_or_else(|| refuse("its ids have neither 2 nor 4 bytes; remove it, and prepare again"))
}

#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    origin: IdsOrigin,
    map: Mmap,
    width: Width,
    rows: Vec<SplitRow>,
    /// For each split, the number of its first block in `seen`.
    first_blocks: Vec<usize>,
    /// Which blocks have been checked, a bit for each.
    seen: Vec<AtomicU8>,
}

impl Segment {
    /// Opens a segment of ids from this origin, and checks that it has this identity.
    pub(crate) fn open(path: &Path, identity: &[u8; 32], origin: IdsOrigin) -> Result<Self> {
        let map = map(path).map_err(|e| Error::io(path, "map", e))?;
        let refuse = |what: &str| incomplete(path, what);
        if map.len() < HEADER + 8 * TRAILER || !map.len().is_multiple_of(8) {
            return Err(refuse("its length is not that of a segment"));
        }
        let width = check_header(&map[..HEADER], identity, path)?;
        let rows = match parse_table(&map, map.len() as u64, width).map_err(refuse)? {
            Table::Rows(rows) => rows,
            Table::Longer(_) => return Err(refuse("its table is wrong")),
        };
        let mut blocks = 0;
        let first_blocks = rows.iter().map(|row| {
            blocks += row.blocks(width);
            blocks - row.blocks(width)
        });
        let first_blocks = first_blocks.collect();
        let seen = (0..blocks.div_ceil(8)).map(|_| AtomicU8::new(0)).collect();
        Ok(Self { path: path.to_owned(), origin, width, rows, first_blocks, seen, map })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn origin(&self) -> &IdsOrigin {
        &self.origin
    }

    pub(crate) fn len(&self) -> u64 {
        self.map.len() as u64
    }

    pub(crate) fn rows(&self) -> &[SplitRow] {
        &self.rows
    }

    /// Returns the bytes `range` of split `number`, counted from its beginning, after checking their blocks.
    pub(crate) fn bytes(&self, number: usize, range: Range<usize>) -> Result<&[u8]> {
        for block in range.start / BLOCK..range.end.div_ceil(BLOCK) {
            self.check(number, block)?;
        }
        let at = self.rows[number].at as usize;
        Ok(&self.map[at + range.start..at + range.end])
    }

    /// Checks a block of a split, unless that has been done.
    #[inline]
    fn check(&self, number: usize, block: usize) -> Result<()> {
        if !self.is_checked(number, block) {
            self.compare(number, block)?;
            let nth = self.first_blocks[number] + block;
            self.seen[nth / 8].fetch_or(1 << (nth % 8), Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn is_checked(&self, number: usize, block: usize) -> bool {
        let nth = self.first_blocks[number] + block;
        self.seen[nth / 8].load(Relaxed) & (1 << (nth % 8)) != 0
    }

    #[cold]
    fn compare(&self, number: usize, block: usize) -> Result<()> {
        let (row, at) = (&self.rows[number], block * BLOCK);
        let (split, sums) =
            self.map[row.at as usize..row.end(self.width) as usize].split_at(row.checked(self.width));
        match damaged_block(&split[row.blocks_of(&(at..at + 1), self.width)], at, sums) {
            None => Ok(()),
            Some(at) => Err(damaged(&self.path, row.at + at as u64)),
        }
    }

    pub(crate) fn verify_split(&self, number: usize) -> Result<()> {
        (0..self.rows[number].blocks(self.width)).try_for_each(|block| self.compare(number, block))
    }

    /// Asks for some bytes of split `number` to be loaded into memory.
    pub(crate) fn bring(&self, number: usize, range: Range<usize>) {
        let at = self.rows[number].at as usize;
        bring(&self.map, at + range.start..at + range.end);
    }

    /// Says that some bytes of split `number` will be read soon, unless their blocks were read before.
    pub(crate) fn will_need(&self, number: usize, range: Range<usize>) {
        let mut blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        if blocks.any(|block| !self.is_checked(number, block)) {
            let (row, at) = (&self.rows[number], self.rows[number].at as usize);
            let bytes = row.blocks_of(&range, self.width);
            will_need(&self.map, at + bytes.start..at + bytes.end);
        }
    }

    /// Says that it is read in random order: the system then reads nothing beyond the requested bytes.
    pub(crate) fn scatter(&self) {
        scatter(&self.map);
    }

    /// How many bytes an id takes.
    pub(crate) fn width(&self) -> Width {
        self.width
    }

    /// Appends the ids `range` of the file, whose blocks have been checked.
    pub(crate) fn append_ids(&self, range: Range<usize>, into: &mut Vec<u32>) {
        let width = self.width.bytes();
        self.width.append(&self.map[range.start * width..range.end * width], into);
    }
}
