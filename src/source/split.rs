//! Splits: what is dealt to lanes.

/// The least length of a split, in bytes, so that a byte order mark is never apart from what follows it.
pub(super) const LEAST_SPLIT: u64 = 4;

/// A range of one file's places; its documents are those that begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) file: u32,
    pub(super) begin: u64,
    /// The first place beyond it; the greatest number if that is the file's end.
    pub(super) end: u64,
    /// Whether the lines before it can be counted.
    pub(super) has_lines: bool,
    /// Whether it is known that a document begins where it does, or before its file's first one.
    pub(super) is_found: bool,
    /// Whether its last document ends where it does.
    pub(super) is_exact: bool,
}
