//! Splits, which are dealt to lanes.

/// The shortest split, in bytes: a byte order mark is never separated from the text after it.
pub(crate) const LEAST_SPLIT: u64 = 4;

/// A document that begins in a split and ends beyond it usually ends within this part of a slab, or of the split.
const TAIL_SHARE: usize = 8;

/// At least this many bytes are allowed for its end.
pub(crate) const LEAST_TAIL: u64 = 4 << 10;

/// A range of places in one file. Its documents are those that begin in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) file: u32,
    pub(crate) begin: u64,
    /// The first place beyond it; `u64::MAX` if it reaches to the file's end.
    pub(crate) end: u64,
    pub(crate) lines: Lines,
    /// Whether `begin` is the file's start, or known to be where a document begins.
    pub(crate) is_found: bool,
    /// Whether its last document is known to end at `end`.
    pub(crate) is_exact: bool,
}

/// How the lines of a split's documents are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Not at all.
    Unknown,
    /// Places count them from this byte of the file on.
    From(u64),
    /// Places do not count them: they are counted in the file on demand.
    FromFile,
}

/// A split of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DealtSplit {
    /// Its place among the lane's splits of the epoch, from 0.
    pub(crate) ordinal: u64,
    pub(crate) split: Split,
}

impl Split {
    /// Where a read of the split ends at the latest, in a text of `len` bytes.
    pub(crate) fn reach(self, len: u64, slab_bytes: usize) -> u64 {
        let most = (slab_bytes / TAIL_SHARE) as u64;
        let share = self.end.saturating_sub(self.begin) / TAIL_SHARE as u64;
        let tail = if self.is_exact { 0 } else { share.clamp(LEAST_TAIL.min(most), most) };
        len.min(self.end.saturating_add(tail))
    }
}
