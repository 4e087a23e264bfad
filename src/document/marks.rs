//! What is known of rendered texts beside their bytes, and what happens to one that is longer than a row.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Mask;

/// What is known of a slab's texts beside their bytes: nothing of plain texts.
#[derive(Debug, Default)]
pub(crate) enum Marks {
    /// All bytes are plain text, and are learned from.
    #[default]
    None,
    /// The texts were rendered from records, or somebody said which of their bytes are learned from.
    Rendered(Box<RenderedMarks>),
    /// The text is another one than was rendered, and nobody has said which of its bytes are learned from.
    Lost,
}

/// The marks of rendered texts. Places are bytes of the slab; of stored ids, ids of their segment.
///
/// Rendered texts have all their special tokens, so the encoder puts none around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RenderedMarks {
    pub(crate) mask: Mask,
    /// The special tokens: each of these ranges is the spelling of one. They are sorted and do not overlap. The same
    /// spelling elsewhere is plain text.
    pub(crate) special: Vec<Range<usize>>,
    /// Where encoding begins anew, so that no id stands for bytes on both sides. They are sorted.
    pub(crate) breaks: Vec<usize>,
    /// How many ids a document has at most, and what happens to a longer one.
    pub(crate) limit: Option<(usize, Truncate)>,
}

impl RenderedMarks {
    /// Appends the marks of a text that is appended to the slab at `at`. Both have the same limit.
    pub(crate) fn append(&mut self, other: &Self, len: usize, at: usize) {
        self.mask.append(&other.mask, 0..len, at);
        self.special.extend(other.special.iter().map(|range| range.start + at..range.end + at));
        self.breaks.extend(other.breaks.iter().map(|place| place + at));
        self.limit = other.limit;
    }

    /// The marks within `range`, with places from its beginning.
    pub(crate) fn within(&self, range: &Range<usize>) -> Self {
        let mut mask = Mask::default();
        mask.append(&self.mask, range.clone(), 0);
        let special = self.special_in(range).iter();
        Self {
            mask,
            special: special.map(|special| special.start - range.start..special.end - range.start).collect(),
            breaks: self.breaks_in(range).iter().map(|place| place - range.start).collect(),
            limit: self.limit,
        }
    }

    pub(crate) fn special_in(&self, range: &Range<usize>) -> &[Range<usize>] {
        let first = self.special.partition_point(|special| special.start < range.start);
        let end = self.special.partition_point(|special| special.start < range.end);
        &self.special[first..end]
    }

    /// Where encoding begins anew within `range`.
    pub(crate) fn breaks_in(&self, range: &Range<usize>) -> &[usize] {
        let first = self.breaks.partition_point(|place| *place < range.start);
        let end = self.breaks.partition_point(|place| *place < range.end);
        &self.breaks[first..end]
    }
}

/// What happens to a conversation that is longer than a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Truncate {
    /// Its oldest turns leave, whole; the system prompt stays. One whose last turns do not fit is left out.
    #[default]
    Turns,
    /// Its first ids are cut off.
    Start,
    /// Its last ids are cut off.
    End,
    /// It is left out.
    Drop,
}
