//! Where a stream is: small values that say "resume here for what follows".
//!
//! One rule covers every stage that holds things back: **cursor = anchor + skip**. The anchor is the
//! cursor of what the stage read last when it last held nothing; the skip is how much it has
//! delivered since. So a [`LaneCursor`] is the source's place and one skip for each such stage that
//! the item came through, in order. No stage saves what it holds: resuming reads it again.
//!
//! A [`Cursor`] is what a batch carries and a checkpoint keeps: for each lane one [`LaneCursor`] a source and
//! a running [`Digest`] of the ids, what the run was told on the way ([`Event`]), and the [`Fingerprint`] of
//! the order that all this means something in.

use serde::{Deserialize, Serialize};

mod anchor;
mod check;
mod digest;
mod fingerprint;
mod history;
mod lane;
mod merge;
mod whole;

pub use anchor::Anchor;
pub use digest::Digest;
pub use fingerprint::Fingerprint;
pub(crate) use history::Census;
pub use history::{Event, ExcludedDocument};
pub(crate) use lane::Step;
pub use lane::{LaneState, SourceState};
pub use whole::Cursor;

/// How many stages in one chain can hold things back.
pub const MAX_DEPTH: usize = 6;

/// The place after an item in the stream that one lane reads of one source: the source's place and the stages'
/// skips.
///
/// It is plain data (112 bytes, `Copy`), so that every document can carry one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaneCursor {
    /// The epoch of the document before it, from 0. A window of the shuffle ends where this changes.
    pub epoch: u64,
    /// Which of the lane's splits of this epoch is being read, from 0.
    pub split: u64,
    /// The offset in that split's file, in bytes, where reading goes on; 0 stands for the split's start.
    pub byte: u64,
    /// The line at `byte`, from 0.
    pub line: u64,
    /// Where the document before it begins, in bytes, if the lane reads several splits side by side: it tells how far
    /// each of them was read. 0 otherwise.
    #[serde(skip_serializing_if = "is_zero")]
    pub start: u64,
    /// Documents that the source has delivered since the stream began. A source of your own must count them:
    /// the shuffle's windows grow with this number and are keyed by it.
    pub documents: u64,
    /// Documents that the source has skipped in this epoch.
    pub skipped: u64,
    #[serde(skip_serializing_if = "Skips::is_empty")]
    skips: Skips,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One skip for each stage that holds things back: a short list that is `Copy`.
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
            .ok_or_else(|| format!("{} skips, and a chain has at most {MAX_DEPTH}", list.len()))?
            .copy_from_slice(&list);
        Ok(skips)
    }
}

impl LaneCursor {
    /// The cursor after so many documents of a source that has no files and no epochs.
    pub fn after(documents: u64) -> Self {
        Self { documents, ..Self::default() }
    }

    /// How many stages that hold things back the item came through.
    pub fn depth(&self) -> usize {
        self.skips.depth
    }

    /// What the stage at `depth` had delivered since its anchor; 0 if this cursor does not reach so deep.
    pub fn skip(&self, depth: usize) -> u64 {
        self.skips.as_slice().get(depth).copied().unwrap_or(0)
    }

    /// This cursor as the stages above `depth` see it.
    ///
    /// # Panics
    /// If `depth` is more than [`MAX_DEPTH`].
    #[must_use]
    pub fn upstream(&self, depth: usize) -> Self {
        assert!(depth <= MAX_DEPTH, "a chain has at most {MAX_DEPTH} stages that hold things back");
        let mut cursor = Self { skips: Skips { depth, ..Skips::default() }, ..*self };
        for level in 0..depth {
            cursor.skips.values[level] = self.skip(level);
        }
        cursor
    }

    /// The cursor of a stage that has this one as its anchor and has delivered `skip` since.
    ///
    /// # Panics
    /// If more than [`MAX_DEPTH`] stages of a chain hold things back.
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

    /// Another value at the same place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Tracked<U> {
        Tracked { value: f(self.value), cursor: self.cursor }
    }
}
