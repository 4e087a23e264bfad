//! The last bytes of an input, which choose how its file is read.

use millstream::config::{ByteCount, DocumentKind, OnError, Oversize, SourceConfig};

/// How many bytes choose.
const TAIL: usize = 4;

/// How a file is read.
pub(crate) struct Settings([u8; TAIL]);

impl Settings {
    /// Takes the last bytes off `input`. A shorter input is all file, read in the usual way.
    pub(crate) fn split(input: &[u8]) -> (&[u8], Self) {
        match input.split_last_chunk() {
            Some((file, tail)) => (file, Self(*tail)),
            None => (input, Self([0; TAIL])),
        }
    }

    /// How much is read at once the second time, in bytes: little, so that many places lie on a border.
    pub(crate) fn slab_bytes(&self) -> usize {
        4 + usize::from(self.0[0])
    }

    /// After which of `count` documents reading is resumed.
    pub(crate) fn resumed_after(&self, count: usize) -> Option<usize> {
        (count > 0).then(|| usize::from(self.0[1]) % count)
    }

    /// A choice of one among `count`.
    pub(crate) fn choice(&self, count: usize) -> usize {
        usize::from(self.0[2]) % count
    }

    /// Applies what any source can be told.
    pub(crate) fn apply(&self, source: SourceConfig) -> SourceConfig {
        let flags = self.0[3];
        SourceConfig {
            on_error: if flags & 1 == 0 { OnError::Fail } else { OnError::Skip(1 << 20) },
            oversize: [Oversize::Error, Oversize::Skip, Oversize::Truncate]
                [usize::from(flags >> 1 & 1) + usize::from(flags >> 4 & 1)],
            max_document_bytes: ByteCount(if flags & 4 == 0 { 1 << 20 } else { 64 }),
            split: (flags & 8 != 0).then_some(ByteCount(256)),
            ..source
        }
    }

    /// What a document is in a text file.
    pub(crate) fn document(&self) -> DocumentKind {
        [DocumentKind::Line, DocumentKind::Paragraph, DocumentKind::File][self.choice(3)]
    }
}
