//! Runs of documents, one after the other: a row that is still to be copied.

use super::{Part, Position};

/// One row to be: at most `seq_len + 1` ids, as parts of documents.
///
/// Inputs are all ids but the last, targets all but the first. Consecutive rows of concatenated
/// documents overlap by one id, so that every id but the stream's first is a target exactly once.
#[derive(Clone, Debug)]
pub struct Sequence {
    parts: Vec<Part>,
    len: usize,
    width: usize,
}

impl Sequence {
    /// A row of `width` ids, `seq_len + 1`, that holds `parts`; what they do not fill is padding.
    ///
    /// # Panics
    /// If the parts are longer than `width`.
    pub fn new(parts: Vec<Part>, width: usize) -> Self {
        let len = parts.iter().map(Part::len).sum();
        assert!(len <= width, "the parts of a sequence are {len} ids long, and it holds {width}");
        Self { parts, len, width }
    }

    /// The same row without the parts of documents that `is_excluded`: what follows them moves up, and padding
    /// behind it takes their room.
    pub(crate) fn without(mut self, is_excluded: impl Fn(&Position) -> bool) -> Self {
        self.parts.retain(|part| !is_excluded(&part.position()));
        self.len = self.parts.iter().map(Part::len).sum();
        self
    }

    /// The same row, `width` ids wide.
    ///
    /// # Panics
    /// If it is longer.
    pub(crate) fn with_width(self, width: usize) -> Self {
        Self::new(self.parts, width)
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// How many ids it holds, padding aside.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `seq_len + 1`: the ids and the padding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The ids, without padding.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().flat_map(|part| {
            let ids = part.ids();
            (0..ids.len()).map(move |at| ids[at])
        })
    }
}
