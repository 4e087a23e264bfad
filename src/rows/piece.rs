//! A part of a document in a stored row: an entry of a segment's index.

use crate::segment::ENTRY;

/// A part of a document in a stored row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredPiece {
    /// How many ids of the document the row has, from which of its ids on.
    pub(crate) len: u32,
    pub(crate) offset: u64,
    /// The file that the document is in, among those of the rows.
    pub(crate) file: u32,
    /// How many ids the whole document has, and the bytes of its text.
    pub(crate) document: (u64, u64),
    /// Where the document begins: the byte, the line, and the byte that lines are counted from.
    pub(crate) byte: u64,
    pub(crate) line: u64,
    pub(crate) from: u64,
}

impl StoredPiece {
    /// Its length, in bytes.
    pub(crate) const BYTES: usize = 8 * ENTRY;

    pub(crate) fn to_numbers(self) -> [u64; ENTRY] {
        let Self { len, offset, file, document: (ids, text_bytes), byte, line, from } = self;
        [u64::from(len) | u64::from(file) << 32, offset, ids, text_bytes, byte, line, from, 0]
    }

    /// Takes the piece out of its bytes.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut numbers = [0; ENTRY];
        for (into, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *into = u64::from_le_bytes(*bytes);
        }
        let [first, offset, ids, text_bytes, byte, line, from, _] = numbers;
        Self {
            len: first as u32,
            offset,
            file: (first >> 32) as u32,
            document: (ids, text_bytes),
            byte,
            line,
            from,
        }
    }

    /// Whether its numbers agree, where the rows were made of so many files.
    pub(crate) fn is_possible(&self, files: usize) -> bool {
        let (ids, text_bytes) = self.document;
        let most = u64::from(u32::MAX);
        self.len > 0
            && ids <= most
            && text_bytes <= most
            && self.offset <= most
            && self.offset + u64::from(self.len) <= ids
            && (self.file as usize) < files
    }
}
