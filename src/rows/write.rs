//! A segment of rows under way. Held in memory: one row, and eight bytes for each row of the segment.

use std::path::Path;

use tempfile::NamedTempFile;

use super::segment::ENDS;
use super::{RowManifest, StoredPiece};
use crate::document::Sequence;
use crate::error::Result;
use crate::segment::SegmentWriter;

/// Writes rows into a segment. If it is dropped before it is finished, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct RowWriter {
    segment: SegmentWriter,
    stride: usize,
    /// The number of the source's first file among all.
    first_file: u32,
    ids: Vec<u32>,
    pieces: u64,
    ends: Vec<u64>,
}

impl RowWriter {
    /// Starts a segment in `directory`. The source's first file is number `first_file` of all.
    pub(crate) fn new(directory: &Path, manifest: &RowManifest, first_file: u32) -> Result<Self> {
        let segment = SegmentWriter::new(directory, manifest.width(), &manifest.identity())?;
        let stride = manifest.rules.stride();
        Ok(Self { segment, stride, first_file, ids: Vec::with_capacity(stride), pieces: 0, ends: Vec::new() })
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: &Sequence) -> Result<()> {
        self.ids.clear();
        for part in row.parts().iter().filter(|part| !part.is_empty()) {
            part.append_to(&mut self.ids);
            let (position, (ids, text_bytes)) = (part.position(), part.document());
            let piece = StoredPiece {
                len: part.len() as u32,
                offset: part.offset() as u64,
                file: position.file - self.first_file,
                document: (ids as u64, text_bytes as u64),
                byte: position.byte,
                line: position.line,
                from: position.from,
            };
            self.segment.entry(piece.to_numbers())?;
            self.pieces += 1;
        }
        self.ids.resize(self.stride, 0);
        self.segment.ids(&self.ids)?;
        self.ends.push(self.pieces);
        Ok(())
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> u64 {
        self.ends.len() as u64
    }

    /// How many bytes its ids take.
    pub(crate) fn id_bytes(&self) -> u64 {
        self.rows() * (self.stride * self.segment.width().bytes()) as u64
    }

    /// Finishes the segment, which has no name yet. It is number `number` of its directory.
    pub(crate) fn finish(mut self, number: u32) -> Result<NamedTempFile> {
        for ends in self.ends.chunks(ENDS) {
            let mut entry = [0; ENDS];
            entry[..ends.len()].copy_from_slice(ends);
            self.segment.entry(entry)?;
        }
        self.segment.split(number, 0)?;
        self.segment.complete()
    }
}
