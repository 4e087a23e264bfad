//! How finely a source is cut where the config does not say it: by a rule that looks at nothing but its files, so that
//! every lane has work, and documents that follow each other can come from many places.

use crate::config::ByteCount;
use crate::files::File;
use crate::location::is_url;

/// Into how many splits a source is cut, about.
const SPLITS: u64 = 1024;

/// The longest split, in bytes, unless there are too many splits.
pub(super) const LONGEST: u64 = 256 << 10;

/// The same where there are as many files as splits are wanted: each longer one has to be looked at.
const LONGEST_OF_MANY: u64 = 64 << 20;

/// Of so many files, those are cut that are longer than so many of average length: on disk, and in a store, where each
/// look is a request.
const LONG_OF_MANY: u64 = 4;
const LONG_OF_MANY_REMOTE: u64 = 16;

/// The shortest split of a file that is cut without a look at its documents.
pub(super) const SHORTEST: u64 = 4 << 10;

/// The same of a file in a store.
const SHORTEST_REMOTE: u64 = 64 << 10;

/// No source is cut into more splits than about so many, each of which costs four bytes an epoch and lane.
const MOST_SPLITS: u64 = 1 << 18;

/// A source of so many bytes is small: where its documents begin is looked for when it is opened.
const SMALL: u64 = 16 << 20;

/// So is one of fewer files and bytes than this, if its documents are long.
const FEW_FILES: usize = 256;
const SMALL_OF_LONG: u64 = 1 << 30;

/// How finely the files of one source are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nominal {
    /// The length of a split, in bytes.
    pub(super) bytes: u64,
    /// Whether the config does not say it.
    pub(super) is_auto: bool,
    /// Whether text is cut where documents begin, all of which are looked for.
    pub(super) is_small: bool,
    /// Whether it is, if its documents are long.
    pub(super) is_small_of_long: bool,
    /// How many bytes and files there are.
    pub(super) total: u64,
    pub(super) files: u64,
}

impl Nominal {
    /// Of a source of these files, whose config says `split`.
    pub(super) fn new(files: &[File], split: Option<ByteCount>) -> Self {
        let total: u64 = files.iter().map(|file| file.len).sum();
        // Each split of a file in a store takes a request at least.
        let is_remote = files.iter().any(|file| is_url(&file.path.to_string_lossy()));
        let long = if is_remote { LONG_OF_MANY_REMOTE } else { LONG_OF_MANY };
        // As many files are many splits by themselves, unless a few of them have most of the text.
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

    /// The cuts of a file of `len` bytes whose documents begin at `starts`, the first of which is the file's: so that
    /// each split has about as many of them.
    pub(super) fn cuts(&self, len: u64, starts: &[u64]) -> Vec<u64> {
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

    fn nominal(lens: &[u64]) -> Nominal {
        let file = |&len: &u64| File { path: PathBuf::new(), len, etag: None, source: 0, unit: Unit::Byte };
        Nominal::new(&lens.iter().map(file).collect::<Vec<_>>(), None)
    }

    #[test]
    fn splits_are_about_a_thousand_until_they_are_long_and_then_not_too_many() {
        let bytes = |total| nominal(&[total]).bytes;
        assert_eq!([bytes(0), bytes(100), bytes(1 << 20), bytes(192 << 20)], [1, 1, 1024, 192 << 10]);
        assert_eq!([bytes(1 << 30), bytes(64 << 30), bytes(1 << 40)], [LONGEST, LONGEST, 4 << 20]);
        assert_eq!(Nominal::new(&[], Some(ByteCount(7))).bytes, 7);
    }

    #[test]
    fn of_many_files_the_long_ones_are_cut() {
        let with_a_long_one = |len| [vec![len], vec![10; 1100]].concat();
        let splits = |lens: &[u64]| lens.iter().map(|len| len.div_ceil(nominal(lens).bytes)).sum::<u64>();
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
            let nominal = nominal(&lens);
            let mut splits = 0;
            for (&n, &len) in documents.iter().zip(&lens) {
                let starts: Vec<u64> = (0..n as u64).map(|nth| nth * 10).collect();
                let cuts = nominal.cuts(len, &starts);
                prop_assert!(cuts.iter().all(|cut| *cut > 0 && starts.contains(cut)));
                prop_assert!(cuts.is_sorted_by(|a, b| a < b));
                splits += cuts.len() + 1;
            }
            prop_assert!(splits >= lanes.min(documents.iter().sum()));
            prop_assert!(splits as u64 <= 2 * SPLITS + documents.len() as u64);
        }
    }
}
