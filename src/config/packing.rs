//! How documents fill rows.

use std::fmt;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// The rule by which documents fill rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pack {
    /// Documents are concatenated and cut every `seq_len` ids.
    #[default]
    Concat,
    /// Each document begins a row of its own, and goes on in the next if it is longer; rows are padded.
    Pad,
    /// Documents are laid into rows window by window, best fit first. One that fits a row is never cut; a
    /// longer one is cut into full rows and a rest. Rows are padded.
    BestFit,
}

impl fmt::Display for Pack {
    /// The name that configs use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Concat => "concat",
            Self::Pad => "pad",
            Self::BestFit => "best_fit",
        })
    }
}

/// All that packing depends on.
///
/// A row is `seq_len + ahead` ids wide: `seq_len` inputs, each with the `ahead` ids that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The rule by which documents fill rows.
    pub mode: Pack,
    /// How many inputs a row has.
    pub seq_len: usize,
    /// How many ids ahead of each input are its targets. A document that goes on in the next row is
    /// repeated there by so many ids.
    pub ahead: NonZeroUsize,
    /// How many documents a row holds at most, or parts of them; as many as fit if absent.
    pub max_segments: Option<NonZeroUsize>,
    /// How many documents are fitted together: [`Pack::BestFit`] only.
    pub window: NonZeroUsize,
}

impl Packing {
    /// The window of a packing that names none, in documents.
    pub const WINDOW: NonZeroUsize = NonZeroUsize::new(256).expect("above zero");

    /// Rows of `seq_len` inputs and one target for each, of as many documents as fit, by windows of
    /// [`WINDOW`](Self::WINDOW).
    pub fn new(mode: Pack, seq_len: usize) -> Self {
        Self { mode, seq_len, ahead: NonZeroUsize::MIN, max_segments: None, window: Self::WINDOW }
    }

    /// How wide a row is, in ids: `seq_len + ahead`.
    pub fn width(&self) -> usize {
        self.seq_len + self.ahead.get()
    }
}
