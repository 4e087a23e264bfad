//! What a round is sure to meet. Each of these is dealt to one round in six, so that six rounds in a row have them all;
//! the others may meet them too.

/// A trouble that is dealt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// Two requests to stop within milliseconds.
    TwoSignals,
    /// Standard output or standard error is a full pipe that nobody reads.
    NoReader,
    /// Old checkpoints and leftovers cannot be removed.
    NoRemoval,
    /// The caches are read-only, somebody else's or on a full disk.
    ReadOnly,
    /// A run that resumes finds its corpus in another place.
    Moved,
}

/// How many rounds in a row have all troubles; one of them is free.
pub(crate) const ALL: u64 = 6;

impl Trouble {
    /// The trouble of this round, if it has one.
    pub(crate) fn dealt(round: u64) -> Option<Self> {
        use Trouble::{Moved, NoReader, NoRemoval, ReadOnly, TwoSignals};
        [TwoSignals, NoReader, NoRemoval, ReadOnly, Moved].get((round % ALL) as usize).copied()
    }

    /// Whether system calls must fail for it.
    pub(crate) fn needs_shim(self) -> bool {
        matches!(self, Self::NoRemoval | Self::ReadOnly)
    }
}
