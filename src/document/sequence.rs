//! Runs of documents, one after another: a row whose ids are not copied yet.

use super::{Part, Position};

/// A row in the making: at most `seq_len + 1` ids, as parts of documents.
///
/// Inputs are all ids but the last, targets all but the first. Consecutive rows of concatenated documents overlap by
/// one id, so every id except the stream's first is a target exactly once.
///
/// A [row stage](crate::loader::LoaderBuilder::row_stage) can look at the ids, drop the row, or give it other ids:
///
/// ```
/// use millstream::document::Part;
/// use millstream::{Sequence, Tokens};
///
/// let tokens = Tokens::new(vec![5, 6, 7], 3);
/// let row = Sequence::new(vec![Part::new(&tokens, 0..3)], 4);
/// let row = row.map_ids(|place, id| if place.offset == 1 { 0 } else { id });
/// assert_eq!(row.ids().collect::<Vec<_>>(), [5, 0, 7]);
/// assert_eq!(row.width(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Sequence {
    parts: Vec<Part>,
    len: usize,
    width: usize,
}

/// Where an id of a [`Sequence`] comes from. It is the same in every epoch, however the rows are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdPlace {
    /// Where its document begins.
    pub position: Position,
    /// The id's index in its document, from 0.
    pub offset: usize,
}

impl Sequence {
    /// Creates a row of `width` ids (`seq_len + 1`) that holds `parts`; the rest is padding.
    ///
    /// # Panics
    /// If the parts are longer than `width`.
    pub fn new(parts: Vec<Part>, width: usize) -> Self {
        let len = parts.iter().map(Part::len).sum();
        assert!(len <= width, "the parts of a sequence are {len} ids long, and it holds {width}");
        Self { parts, len, width }
    }

    /// Replaces each id by what `f` returns for its place and id. The number of ids, the documents, their positions and
    /// which ids are learned from stay the same. Parts without a changed id are shared, not copied.
    ///
    /// In a loader the ids must be less than the tokenizer's vocabulary size; otherwise the stage that gives them fails
    /// with an [`Error::Stage`](crate::Error::Stage).
    #[must_use]
    pub fn map_ids(mut self, mut f: impl FnMut(IdPlace, u32) -> u32) -> Self {
        for part in &mut self.parts {
            let (position, ids) = (part.position(), part.ids());
            let places = (part.offset()..).map(|offset| IdPlace { position, offset });
            let mapped: Vec<u32> = places.zip(ids.iter()).map(|(place, id)| f(place, *id)).collect();
            if mapped != *ids {
                *part = part.replaced(mapped);
            }
        }
        self
    }

    /// Returns the row without the parts of documents for which `is_excluded` is true. Later parts move up, and padding
    /// fills the end.
    pub(crate) fn without(mut self, is_excluded: impl Fn(&Position) -> bool) -> Self {
        self.parts.retain(|part| !is_excluded(&part.position()));
        Self::new(self.parts, self.width)
    }

    /// Returns the same row, `width` ids wide.
    ///
    /// # Panics
    /// If the row has more than `width` ids.
    pub(crate) fn with_width(self, width: usize) -> Self {
        assert!(self.len <= width, "a sequence of {} ids, and a width of {width}", self.len);
        Self { width, ..self }
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The number of ids, without padding.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the row has no ids.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The width, `seq_len + 1`: ids and padding.
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
