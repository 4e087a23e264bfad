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

impl Marks {
    /// The memory that ids take which stand beside the texts.
    pub(crate) fn id_bytes(&self) -> usize {
        match self {
            Self::Rendered(marks) => marks.encoded.bytes(),
            Self::None | Self::Lost => 0,
        }
    }
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
    /// The ids of texts that were encoded before, to see whether they fit a row.
    pub(crate) encoded: EncodedTexts,
}

/// The ids of some of a slab's texts, and what of them is not learned from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EncodedTexts {
    ids: Vec<u32>,
    mask: Mask,
    /// In order.
    texts: Vec<EncodedText>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct EncodedText {
    /// Where the text begins.
    at: usize,
    /// Which ids are its own.
    ids: Range<usize>,
    /// How many borders it has, and how many of them are within an id.
    borders: (u64, u64),
}

impl EncodedTexts {
    /// The ids of the only text, and its borders.
    pub(crate) fn one(ids: Vec<u32>, mask: Mask, borders: (u64, u64)) -> Self {
        Self { texts: vec![EncodedText { at: 0, ids: 0..ids.len(), borders }], ids, mask }
    }

    /// Appends those of a text that is appended to the slab at `at`.
    fn append(&mut self, other: &Self, at: usize) {
        let start = self.ids.len();
        self.ids.extend_from_slice(&other.ids);
        self.mask.append(&other.mask, 0..other.ids.len(), start);
        self.texts.extend(other.texts.iter().map(|text| EncodedText {
            at: text.at + at,
            ids: text.ids.start + start..text.ids.end + start,
            borders: text.borders,
        }));
    }

    /// Appends the ids of the text that begins at `at`, and what of them is not learned from. Returns its borders; `None`
    /// if its ids are not known.
    pub(crate) fn copy(&self, at: usize, ids: &mut Vec<u32>, mask: &mut Mask) -> Option<(u64, u64)> {
        let nth = self.texts.binary_search_by_key(&at, |text| text.at).ok()?;
        let EncodedText { ids: own, borders, .. } = &self.texts[nth];
        mask.append(&self.mask, own.clone(), ids.len());
        ids.extend_from_slice(&self.ids[own.clone()]);
        Some(*borders)
    }

    /// The memory that the ids take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.ids)
    }
}

impl RenderedMarks {
    /// Appends the marks of a text that is appended to the slab at `at`. Both have the same limit.
    pub(crate) fn append(&mut self, other: &Self, len: usize, at: usize) {
        self.mask.append(&other.mask, 0..len, at);
        self.special.extend(other.special.iter().map(|range| range.start + at..range.end + at));
        self.breaks.extend(other.breaks.iter().map(|place| place + at));
        self.limit = other.limit;
        self.encoded.append(&other.encoded, at);
    }

    /// The marks within `range`, with places from its beginning, and without ids: they hold for these marks alone.
    pub(crate) fn within(&self, range: &Range<usize>) -> Self {
        let mut mask = Mask::default();
        mask.append(&self.mask, range.clone(), 0);
        let special = self.special_in(range).iter();
        Self {
            mask,
            special: special.map(|special| special.start - range.start..special.end - range.start).collect(),
            breaks: self.breaks_in(range).iter().map(|place| place - range.start).collect(),
            limit: self.limit,
            encoded: EncodedTexts::default(),
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
