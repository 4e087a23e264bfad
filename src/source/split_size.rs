//! Decides how finely a source is cut if the config does not say. The rule depends only on the files of the source. It
//! gives every lane work, and lets neighbouring documents come from many places.

use crate::config::ByteCount;
use crate::files::File;

/// About how many splits a source is cut into.
const SPLITS: u64 = 1024;

/// The longest split, in bytes, unless there are too many splits.
pub(crate) const LONGEST: u64 = 256 << 10;

/// The same for a source of at least as many files as splits are wanted: each file that is longer has to be looked at.
const LONGEST_OF_MANY: u64 = 64 << 20;

/// In a source of as many files as splits are wanted, only files longer than this many times the average are cut: on
/// disk, and in a store, where each look is a request.
const LONG_OF_MANY: u64 = 4;
const LONG_OF_MANY_REMOTE: u64 = 16;

/// The shortest split of a file that is cut without looking at its documents, in bytes.
pub(crate) const SHORTEST: u64 = 4 << 10;

/// The same for a file in a store.
const SHORTEST_REMOTE: u64 = 64 << 10;

/// About the most splits that a source is cut into. Each costs four bytes for each epoch and lane.
pub(crate) const MOST_SPLITS: u64 = 1 << 18;

/// A source of at most this many bytes is small: opening it looks for where its documents begin.
const SMALL: u64 = 16 << 20;

/// A source of long documents is small too, if it has fewer files than this and at most this many bytes.
const FEW_FILES: usize = 256;
const SMALL_OF_LONG: u64 = 1 << 30;

/// How finely the files of one source are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitSize {
    /// The length of a split, in bytes.
    pub(crate) bytes: u64,
    /// Whether the length is chosen here, as the config does not set it.
    pub(crate) is_auto: bool,
    /// Whether text is cut where documents begin, so that all of it is scanned.
    pub(crate) is_small: bool,
    /// Whether it is, if its documents are long.
    pub(crate) is_small_of_long: bool,
    /// How many bytes and files there are.
    pub(crate) total: u64,
    pub(crate) files: u64,
}

impl SplitSize {
    /// The cut of a source of these files, whose config says `split`.
    pub(crate) fn new(files: &[File], split: Option<ByteCount>) -> Self {
        let total: u64 = files.iter().map(|file| file.len).sum();
        // Each split of a file in a store takes at least one request.
        let is_remote = files.iter().any(|file| file.location.is_remote());
        let long = if is_remote { LONG_OF_MANY_REMOTE } else { LONG_OF_MANY };
        // Many files are many splits by themselves, unless a few of them have most of the text.
        let finest = match files.len() as u64 {
            files @ SPLITS.. => (long * (total / files)).clamp(SHORTEST, LONGEST_OF_MANY),
            _ => (total / SPLITS).clamp(1, LONGEST),
        };
        let auto = finest.max(total / MOST_SPLITS);
        let is_auto = split.is_none();
        let auto = if is_remote { auto.max(SHORTEST_REMOTE) } else { auto };
        Self {
            bytes: split.map_or(auto, |split| split.0.max(super::split::LEAST_SPLIT)),
            is_auto,
            is_small: is_auto && !is_remote && total <= SMALL && (files.len() as u64) < SPLITS,
            is_small_of_long: is_auto && !is_remote && total <= SMALL_OF_LONG && files.len() < FEW_FILES,
            total,
            files: files.len() as u64,
        }
    }

    /// The cuts of a file of `len` bytes whose documents begin at `starts` (the first is the file's start), so that
    /// each split has about the same number of documents.
    pub(crate) fn cuts(&self, len: u64, starts: &[u64]) -> Vec<u64> {
        let share = u128::from(SPLITS) * u128::from(len) / u128::from(self.total.max(1));
        let most = (share as u64).max(SPLITS / self.files.max(1)).max(1);
        let each = (starts.len() as u64).div_ceil(most).max(1);
        starts.iter().copied().step_by(each as usize).skip(1).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::error::Unit;
    use crate::files::Location;

    fn split_size(lens: &[u64]) -> SplitSize {
        let file = |&len: &u64| File {
            location: Location::Path(PathBuf::new()),
            len,
            etag: None,
            source: 0,
            unit: Unit::Byte,
        };
        SplitSize::new(&lens.iter().map(file).collect::<Vec<_>>(), None)
    }

    #[test]
    fn splits_are_about_a_thousand_until_they_are_long_and_then_not_too_many() {
        let bytes = |total| split_size(&[total]).bytes;
        assert_eq!([bytes(0), bytes(100), bytes(1 << 20), bytes(192 << 20)], [1, 1, 1024, 192 << 10]);
        assert_eq!([bytes(1 << 30), bytes(64 << 30), bytes(1 << 40)], [LONGEST, LONGEST, 4 << 20]);
        assert_eq!(SplitSize::new(&[], Some(ByteCount(7))).bytes, 7);
    }

    #[test]
    fn of_many_files_the_long_ones_are_cut() {
        let with_a_long_one = |len| [vec![len], vec![10; 1100]].concat();
        let splits = |lens: &[u64]| lens.iter().map(|len| len.div_ceil(split_size(lens).bytes)).sum::<u64>();
        assert!(splits(&with_a_long_one(10 << 20)) > 1100 + 250);
        assert!(splits(&with_a_long_one(1 << 30)) > 1100 + 250);
        assert_eq!(splits(&vec![1 << 20; 2000]), 2000);
    }

    proptest! {
        /// Where there are as many documents as lanes, there are as many splits.
        #[test]
        fn small_sources_have_a_split_for_every_lane(
            documents in prop::collection::vec(1_usize..2000, 1..40),
            lanes in 1_usize..=32,
        ) {
            let lens: Vec<u64> = documents.iter().map(|n| *n as u64 * 10).collect();
            let split_size = split_size(&lens);
            let mut splits = 0;
            for (&n, &len) in documents.iter().zip(&lens) {
                let starts: Vec<u64> = (0..n as u64).map(|nth| nth * 10).collect();
                let cuts = split_size.cuts(len, &starts);
                prop_assert!(cuts.iter().all(|cut| *cut > 0 && starts.contains(cut)));
                prop_assert!(cuts.is_sorted_by(|a, b| a < b));
                splits += cuts.len() + 1;
            }
            prop_assert!(splits >= lanes.min(documents.iter().sum()));
            prop_assert!(splits as u64 <= 2 * SPLITS + documents.len() as u64);
        }
    }
}
