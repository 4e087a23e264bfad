//! Writes segments: under another name until they are complete, then under their own.

use std::ffi::OsStr;
use std::fmt;
use std::fs::TryLockError;
use std::hash::Hasher;
use std::io::{self, BufWriter, IntoInnerError, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, SpooledTempFile};
use twox_hash::XxHash3_64;

use super::format::{
    BLOCK, Boundary, COUNTED, Entry, EntryEnd, HEADER, IDENTITY, MAGIC, SplitRow, StoredText, TRAILER,
    VERSION, Width,
};
use super::notes::{NOTE, of_columns, of_masked};
use crate::atomic::temporary;
use crate::error::{Error, Result};

/// How much is written at once, in bytes.
const BUFFER_BYTES: usize = 128 << 10;

/// How much of what follows the ids of a split is held in memory, in bytes.
const HELD_BYTES: usize = 1 << 20;

/// What follows the ids of a split under way: its index or its notes. Long ones go to a file without a name, so
/// that memory does not grow with the split.
type Spool = BufWriter<SpooledTempFile>;

fn spool(directory: &Path) -> Spool {
    BufWriter::new(SpooledTempFile::new_in(HELD_BYTES, directory))
}

/// The prefix of the names of segments under way.
const UNDER_WAY: &str = ".writing-";

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredDocument<'a> {
    /// None if it has no text, or the tokenizer failed on it.
    pub(crate) ids: &'a [u32],
    /// Which of them are not learned from, as sorted ranges that neither touch nor overlap.
    pub(crate) masked: &'a [Range<usize>],
    /// The bytes of the columns that come along; `None` if none do.
    pub(crate) columns: Option<&'a [u8]>,
    pub(crate) start: Boundary,
    pub(crate) digest: u64,
    pub(crate) share: f64,
    pub(crate) text: StoredText,
}

impl StoredDocument<'_> {
    /// A document at `start` that has no ids, and that everybody counts.
    pub(crate) fn without_ids(start: Boundary, text: StoredText) -> Self {
        Self { ids: &[], masked: &[], columns: None, start, digest: COUNTED, share: 1.0, text }
    }
}

/// A segment under way. If it is dropped before it is finished, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    directory: PathBuf,
    out: BufWriter<NamedTempFile>,
    width: Width,
    at: u64,
    rows: Vec<SplitRow>,
    /// The split under way: where it begins, its block under way, the checksums of those before it, where its last
    /// document ends, its index and its notes.
    begun: u64,
    block: Block,
    sums: Vec<u8>,
    end: EntryEnd,
    index: Spool,
    notes: Spool,
    documents: u64,
    skipped: u64,
    /// Whether it is synced to the disk before it gets its name.
    is_synced: bool,
}

/// A block under way: its checksum so far, and how long it is.
#[derive(Default)]
struct Block {
    sum: XxHash3_64,
    len: usize,
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Makes a file whose lock says that a process is writing it. Where there are no locks, its age says so.
pub(crate) fn begun(directory: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = temporary(UNDER_WAY).tempfile_in(directory)?;
        let is_swept = matches!(file.as_file().try_lock(), Err(TryLockError::WouldBlock));
        // A process that removes what others left may have seen it before it was locked.
        if !is_swept && file.path().exists() {
            return Ok(file);
        }
    }
}

impl SegmentWriter {
    /// Starts a segment in `directory`, for tokens with this identity.
    pub(crate) fn new(directory: &Path, width: Width, identity: &[u8; 32]) -> Result<Self> {
        let file = begun(directory).map_err(|e| Error::io(directory, "write in", e))?;
        let mut writer = Self {
            directory: directory.to_owned(),
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            width,
            at: 0,
            rows: Vec::new(),
            begun: HEADER as u64,
            block: Block::default(),
            sums: Vec::new(),
            end: EntryEnd::default(),
            index: spool(directory),
            notes: spool(directory),
            documents: 0,
            skipped: 0,
            is_synced: true,
        };
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&(width.bytes() as u32).to_le_bytes());
        header[IDENTITY].copy_from_slice(identity);
        writer.put(&header).map_err(|e| Error::io(directory, "write in", e))?;
        Ok(writer)
    }

    /// Lets the system decide when the segment reaches the disk. Damage by a power failure is noticed when it is read.
    pub(crate) fn unsynced(self) -> Self {
        Self { is_synced: false, ..self }
    }

    /// How long it is so far, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.at + self.documents * Entry::BYTES as u64 + u64::from(self.end.notes) * NOTE as u64
    }

    /// Whether a file of this name is a segment that some process is writing.
    pub(crate) fn is_under_way(name: &OsStr) -> bool {
        name.as_encoded_bytes().starts_with(UNDER_WAY.as_bytes())
    }

    pub(crate) fn splits(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().map(|row| row.split as u32)
    }

    /// Appends a document to the split under way.
    pub(crate) fn document(&mut self, document: StoredDocument<'_>) -> Result<()> {
        let StoredDocument { ids, masked, columns, start, digest, share, text } = document;
        let bytes: Vec<u8> = match self.width {
            Width::Two => ids.iter().flat_map(|&id| (id as u16).to_le_bytes()).collect(),
            Width::Four => ids.iter().flat_map(|id| id.to_le_bytes()).collect(),
        };
        self.write(&bytes)?;
        masked.iter().try_for_each(|range| self.mask(range))?;
        columns.map_or(Ok(()), |columns| self.note(of_columns(columns)))?;
        self.end.ids += ids.len() as u64;
        self.documents += 1;
        self.skipped += u64::from(text == StoredText::Skipped);
        let numbers = Entry { end: self.end, start, digest, share, text }.to_numbers().map(u64::to_le_bytes);
        let pushed = self.index.write_all(numbers.as_flattened());
        pushed.map_err(|e| Error::io(&self.directory, "write in", e))
    }

    /// Notes which ids of the next document, counted from its first, are masked.
    fn mask(&mut self, range: &Range<usize>) -> Result<()> {
        let [start, end] = [range.start, range.end].map(|at| self.end.ids + at as u64);
        self.note(of_masked(start..end))
    }

    /// Appends notes, as they are stored, on the next document. `None` if they are too long.
    fn note(&mut self, notes: Option<impl AsRef<[u8]>>) -> Result<()> {
        let added = notes.and_then(|notes| {
            let units = u32::try_from(notes.as_ref().len() / NOTE).ok()?;
            Some((self.end.notes.checked_add(units)?, notes))
        });
        let Some((end, notes)) = added else {
            let what =
                "the masked ids and columns of a split are too many to be stored; cut its file into several";
            return Err(Error::Corpus { problem: format!("{}: {what}", self.directory.display()) });
        };
        self.end.notes = end;
        let pushed = self.notes.write_all(notes.as_ref());
        pushed.map_err(|e| Error::io(&self.directory, "write in", e))
    }

    /// Ends the split under way. It is number `split` of its source.
    pub(crate) fn split(&mut self, split: u32) -> Result<()> {
        self.align()?;
        for spool in self.new_spools() {
            self.append_all(spool).map_err(|e| Error::io(&self.directory, "write in", e))?;
        }
        if self.block.len > 0 {
            self.end_block();
        }
        let sums = std::mem::take(&mut self.sums);
        self.put(&sums).map_err(|e| Error::io(&self.directory, "write in", e))?;
        self.rows.push(SplitRow {
            split: u64::from(split),
            at: self.begun,
            ids: self.end.ids,
            documents: self.documents,
            skipped: self.skipped,
            notes: self.end.notes.into(),
            sum: XxHash3_64::oneshot(&sums),
        });
        self.begin();
        Ok(())
    }

    /// Replaces the index and the notes by empty ones, and returns them.
    fn new_spools(&mut self) -> [Spool; 2] {
        [&mut self.index, &mut self.notes].map(|of| std::mem::replace(of, spool(&self.directory)))
    }

    fn begin(&mut self) {
        (self.begun, self.end, self.documents, self.skipped) = (self.at, EntryEnd::default(), 0, 0);
    }

    /// Forgets the split under way. Its ids stay behind as bytes that nothing refers to.
    pub(crate) fn give_up(&mut self) -> Result<()> {
        self.align()?;
        self.new_spools();
        self.block = Block::default();
        self.sums.clear();
        self.begin();
        Ok(())
    }

    /// Finishes the segment in its directory and returns its path. Its name is made of the number of its first split and
    /// some random letters. A segment without splits is removed.
    pub(crate) fn finish(self) -> Result<Option<PathBuf>> {
        let Some(first) = self.rows.first().map(|row| row.split) else { return Ok(None) };
        let name = self.out.get_ref().path().file_name().unwrap_or_default().to_string_lossy();
        let letters = name.replace(UNDER_WAY, "");
        let path = self.directory.join(format!("{first:08}-{letters}.{}", super::EXTENSION));
        let directory = self.directory.clone();
        let file = self.complete()?;
        file.persist(&path).map_err(|e| Error::io(&directory, "write in", e.error))?;
        Ok(Some(path))
    }

    /// Finishes the segment, which has no name yet.
    pub(crate) fn complete(mut self) -> Result<NamedTempFile> {
        let table = self.at;
        let mut footer: Vec<u64> = self.rows.iter().flat_map(|row| row.to_numbers()).collect();
        footer.extend([self.rows.len() as u64, table]);
        let mut footer: Vec<u8> = footer.into_iter().flat_map(u64::to_le_bytes).collect();
        footer.extend(XxHash3_64::oneshot(&footer).to_le_bytes());
        footer.extend(MAGIC);
        const { assert!(TRAILER == 4, "two numbers, the checksum and the magic") };
        let failed = |e| Error::io(&self.directory, "write in", e);
        self.out.write_all(&footer).map_err(failed)?;
        let file = self.out.into_inner().map_err(|e| failed(e.into_error()))?;
        if self.is_synced {
            file.as_file().sync_all().map_err(failed)?;
        }
        Ok(file)
    }

    fn align(&mut self) -> Result<()> {
        let zeros = self.at.next_multiple_of(8) - self.at;
        self.write(&[0; 8][..zeros as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.append(bytes).map_err(|e| Error::io(&self.directory, "write in", e))
    }

    /// Appends bytes of the split under way.
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.put(bytes)?;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len));
            self.block.sum.write(now);
            self.block.len += now.len();
            if self.block.len == BLOCK {
                self.end_block();
            }
            bytes = later;
        }
        Ok(())
    }

    fn append_all(&mut self, spool: Spool) -> io::Result<()> {
        let mut file = spool.into_inner().map_err(IntoInnerError::into_error)?;
        file.rewind()?;
        let mut bytes = [0; 8 << 10];
        loop {
            match file.read(&mut bytes)? {
                0 => return Ok(()),
                n => self.append(&bytes[..n])?,
            }
        }
    }

    /// Appends bytes that have no checksum of their own.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn end_block(&mut self) {
        self.sums.extend(std::mem::take(&mut self.block).sum.finish().to_le_bytes());
    }
}
