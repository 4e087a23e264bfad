//! How one file is cut into splits.

use std::sync::Arc;

use super::content::Frames;
use super::cuts::Cuts;
use crate::shards::Cut;

/// Where a file is cut into splits.
#[derive(Debug)]
pub(crate) enum Layout {
    /// Nowhere.
    Whole,
    /// At multiples of this many bytes of text.
    Even(u64),
    /// Between records.
    Cuts(Cuts),
    /// Before the documents of text that begin at these bytes.
    Documents(Box<[u64]>),
    /// Between frames of a compressed file.
    Frames(Arc<Frames>),
}

/// The facts about a file after it was looked at.
#[derive(Debug)]
pub(crate) struct Laid {
    pub(crate) layout: Layout,
    /// About how much memory an open split of it takes, in bytes, beside the text that is read.
    pub(crate) held: u64,
}

impl From<Layout> for Laid {
    /// For a file whose open splits take little memory.
    fn from(layout: Layout) -> Self {
        Self { layout, held: 0 }
    }
}

impl From<Cut> for Layout {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Whole => Self::Whole,
            Cut::Even(split_size) => Self::Even(split_size),
            Cut::At(places) => Self::Cuts(Cuts::new(places)),
            Cut::Documents(places) => Self::Documents(places.into()),
        }
    }
}

impl Layout {
    /// The same, in the form that a manifest of token shards stores.
    pub(crate) fn cut(&self) -> Cut {
        match self {
            Self::Whole => Cut::Whole,
            Self::Even(split_size) => Cut::Even(*split_size),
            Self::Cuts(_) | Self::Frames(_) => Cut::At(self.places().to_vec()),
            Self::Documents(places) => Cut::Documents(places.to_vec()),
        }
    }

    /// The layout of a file that is cut between records at these places, if there are any.
    pub(crate) fn between(cuts: Vec<u64>) -> Self {
        if cuts.is_empty() { Self::Whole } else { Self::Cuts(Cuts::new(cuts)) }
    }

    /// The places where it is cut, unless it is evenly.
    pub(crate) fn places(&self) -> &[u64] {
        match self {
            Self::Whole | Self::Even(_) => &[],
            Self::Cuts(cuts) => cuts.places(),
            Self::Frames(frames) => frames.cuts(),
            Self::Documents(places) => places,
        }
    }

    /// How many splits a file of `len` bytes is cut into.
    pub(crate) fn splits(&self, len: u64) -> u64 {
        match self {
            Self::Even(split_size) => len.div_ceil(*split_size).max(1),
            other => other.places().len() as u64 + 1,
        }
    }
}
