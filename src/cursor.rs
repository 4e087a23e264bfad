//! Where a stream is: small values that say "resume here for what follows".
//!
//! One rule covers every stage that buffers: **cursor = anchor + skip**. The anchor is the upstream cursor
//! from when the stage last held nothing. The skip is how much the stage has delivered since. So a
//! [`LaneCursor`] is where the source is, plus one skip for each buffering stage that the item came through,
//! in order. No stage saves what it holds: resuming reads it again.
//!
//! A [`Cursor`] is what a batch carries and a checkpoint keeps. It has one [`LaneCursor`] per lane and
//! source, a running [`Digest`] of each lane's ids, what changed the stream during the run ([`Event`]), and
//! the [`Fingerprint`] of the order that it belongs to.

use serde::{Deserialize, Serialize};

mod account;
mod anchor;
mod by_value;
mod check;
mod digest;
mod history;
mod lane;
mod ledger;
mod length;
mod merge;
mod whole;

pub use anchor::Anchor;
pub(crate) use by_value::{ByValue, Omitted};
pub use by_value::{NONE, OTHER};
pub use digest::Digest;
pub(crate) use history::SAMPLES;
pub use history::{Event, ExcludedDocument, Fingerprint};
pub(crate) use lane::LaneStep;
pub use lane::{LaneState, SourceState};
pub(crate) use ledger::RowAccount;
pub use ledger::{Ledger, LeftOut, SourceLedger};
pub(crate) use length::Length;
pub use whole::Cursor;

/// The most stages of one chain that can buffer.
pub const MAX_DEPTH: usize = 6;

/// Where one lane is in the stream of one source, right after an item: the last document that the source delivered, and
/// the stages' skips.
///
/// It is plain data (112 bytes, `Copy`), so that every document can carry one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaneCursor {
    /// The epoch of the document before this place, from 0. A window of the shuffle ends where this changes.
    pub epoch: u64,
    /// Which of the lane's splits of this epoch that document is in, from 0. Where all documents are shuffled together,
    /// its place in the lane's order. Custom documents may have another number here.
    pub split: u64,
    /// Where that document begins in its file: a byte, or a row. It tells how far each open split was read.
    /// Custom documents may have another number here.
    pub byte: u64,
    /// Documents that the source has delivered since the stream began; 0 at its beginning. Custom documents must be
    /// counted: the shuffle's windows grow with this number and are keyed by it.
    pub documents: u64,
    /// Documents that the source has skipped in this epoch up to that document.
    pub skipped: u64,
    /// Documents that it has skipped and `on_error` does not count: those of earlier epochs, and conversations and long
    /// documents that may be left out however many there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_otherwise: u64,
    /// How many documents were delivered of the record that begins at that place; 0 if all of them were. Most records
    /// are one document, and a conversation may be one for each turn.
    #[serde(skip_serializing_if = "is_zero")]
    pub sample: u64,
    #[serde(skip_serializing_if = "Skips::is_empty")]
    skips: Skips,
}

/// Whether a number is left out of what is written.
pub(crate) fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// One skip for each buffering stage: a short list that is `Copy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
struct Skips {
    values: [u64; MAX_DEPTH],
    depth: usize,
}

impl Skips {
    fn is_empty(&self) -> bool {
        self.depth == 0
    }

    fn as_slice(&self) -> &[u64] {
        &self.values[..self.depth]
    }
}

impl From<Skips> for Vec<u64> {
    fn from(skips: Skips) -> Self {
        skips.as_slice().to_vec()
    }
}

impl TryFrom<Vec<u64>> for Skips {
    type Error = String;

    fn try_from(list: Vec<u64>) -> Result<Self, String> {
        let mut skips = Self { depth: list.len(), ..Self::default() };
        skips
            .values
            .get_mut(..list.len())
            .ok_or_else(|| format!("{} skips, but a chain has at most {MAX_DEPTH}", list.len()))?
            .copy_from_slice(&list);
        Ok(skips)
    }
}

impl LaneCursor {
    /// Returns the cursor after `documents` documents of a source that has no files and no epochs.
    pub fn after(documents: u64) -> Self {
        Self { documents, ..Self::default() }
    }

    /// Documents that the source has skipped in all epochs up to this place.
    pub(crate) fn all_skipped(&self) -> u64 {
        self.skipped_otherwise.saturating_add(self.skipped)
    }

    /// The number of buffering stages that the item came through.
    pub fn depth(&self) -> usize {
        self.skips.depth
    }

    /// How much the stage at `depth` has delivered since its anchor, as that stage says it; 0 if the cursor has no stage
    /// at that depth.
    pub fn skip(&self, depth: usize) -> u64 {
        self.skips.as_slice().get(depth).copied().unwrap_or(0)
    }

    /// Returns this cursor as the stages upstream of `depth` see it.
    ///
    /// # Panics
    /// If `depth` is more than [`MAX_DEPTH`].
    #[must_use]
    pub fn upstream(&self, depth: usize) -> Self {
        assert!(depth <= MAX_DEPTH, "a chain has at most {MAX_DEPTH} stages that buffer");
        let mut cursor = Self { skips: Skips { depth, ..Skips::default() }, ..*self };
        for level in 0..depth {
            cursor.skips.values[level] = self.skip(level);
        }
        cursor
    }

    /// Returns the cursor of a stage whose anchor is this cursor and that has delivered `skip` since.
    ///
    /// # Panics
    /// If more than [`MAX_DEPTH`] stages of a chain buffer.
    #[must_use]
    pub fn anchored(&self, skip: u64) -> Self {
        let depth = self.depth();
        let mut cursor = self.upstream(depth + 1);
        cursor.skips.values[depth] = skip;
        cursor
    }
}

/// A value and the cursor after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked<T> {
    /// The value.
    pub value: T,
    /// Where to resume for what follows it.
    pub cursor: LaneCursor,
}

impl<T> Tracked<T> {
    /// A value and the cursor after it.
    pub fn new(value: T, cursor: LaneCursor) -> Self {
        Self { value, cursor }
    }

    /// Replaces the value by `f` of it and keeps the cursor.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Tracked<U> {
        Tracked { value: f(self.value), cursor: self.cursor }
    }
}
