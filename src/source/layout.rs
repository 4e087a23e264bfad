//! How one file is cut into splits.

use std::sync::Arc;

use super::content::Frames;
use super::cuts::Cuts;
use crate::shards::Cut;

/// Where a file is cut into splits.
#[derive(Debug)]
pub(super) enum Layout {
    /// Nowhere.
    Whole,
    /// After each so many bytes of text.
    Even(u64),
    /// Between records.
    Cuts(Cuts),
    /// Before documents of text that begin at these bytes.
    Documents(Box<[u64]>),
    /// Between frames of a compressed file.
    Frames(Arc<Frames>),
}

/// What is known of a file that was looked at.
#[derive(Debug)]
pub(super) struct Laid {
    pub(super) layout: Layout,
    /// About how many bytes a split of it takes in memory while it is open, beside the text that is read.
    pub(super) held: u64,
}

impl From<Layout> for Laid {
    /// Of a file whose open splits take little memory.
    fn from(layout: Layout) -> Self {
        Self { layout, held: 0 }
    }
}

impl From<Cut> for Layout {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Whole => Self::Whole,
            Cut::Even(nominal) => Self::Even(nominal),
            Cut::At(places) => Self::Cuts(Cuts::new(places)),
            Cut::Documents(places) => Self::Documents(places.into()),
        }
    }
}

impl Layout {
    /// The same, as a manifest of token shards has it.
    pub(super) fn cut(&self) -> Cut {
        match self {
            Self::Whole => Cut::Whole,
            Self::Even(nominal) => Cut::Even(*nominal),
            Self::Cuts(cuts) => Cut::At(cuts.places().to_vec()),
            Self::Frames(frames) => Cut::At(frames.cuts().to_vec()),
            Self::Documents(places) => Cut::Documents(places.to_vec()),
        }
    }

    /// Into how many splits a file of `len` bytes is cut.
    pub(super) fn splits(&self, len: u64) -> u64 {
        match self {
            Self::Whole => 1,
            Self::Even(nominal) => len.div_ceil(*nominal).max(1),
            Self::Cuts(cuts) => cuts.places().len() as u64 + 1,
            Self::Frames(frames) => frames.cuts().len() as u64 + 1,
            Self::Documents(places) => places.len() as u64 + 1,
        }
    }
}
