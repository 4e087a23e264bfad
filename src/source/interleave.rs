//! Splits that a lane reads side by side, and the order in which their documents come.
//!
//! A lane takes its splits of an epoch in groups. Each document of a group has a share: how far into its split it
//! begins, as a part of the split's length. The documents of a group come in the order of their shares: those near the
//! beginnings of the splits first, those near the ends last. So neighbouring documents come from different places of
//! the corpus, and all splits of a group end at about the same time.
//!
//! The order depends only on where documents begin. So the place of the last delivered document tells where reading
//! goes on in each split of its group: a cursor keeps nothing else.

use std::ops::Range;

use super::split::Split;

/// How many splits a lane reads side by side at most. Each open split costs a file, and a decompressor, a page of a
/// table or a block of a store.
pub(crate) const MOST: usize = 8;

/// The same for a single lane that takes a sample of all files.
pub(crate) const MOST_OF_SAMPLE: usize = 16;

/// The most memory for the open splits of one source, in bytes, unless one split for each lane takes more.
pub(crate) const MOST_HELD: u64 = 128 << 20;

/// Where the number of lanes is free, their open splits take at most this much memory, in bytes. Fewer lanes mix less.
pub(crate) const MOST_HELD_BY_LANES: u64 = 512 << 20;

/// How many splits of one source are open at most, unless there are more lanes.
pub(crate) const MOST_OPEN: usize = 512;

/// The same for a source in a store. The more splits are open, the less each request may ask for.
pub(crate) const MOST_OPEN_REMOTE: usize = 128;

/// How much text is read side by side at most, in bytes, where the config sets the length of splits.
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// The share of a split's end, as a power of two.
const WHOLE: u32 = 32;

/// The group of splits that contains place `ordinal` among a lane's `splits` of an epoch, if at most `most` are read
/// side by side. All groups have about the same size.
pub(crate) fn group(splits: u64, most: usize, ordinal: u64) -> Range<u64> {
    let groups = splits.div_ceil(most as u64).max(1);
    let begin = |group: u64| (u128::from(group) * u128::from(splits) / u128::from(groups)) as u64;
    // Division rounds, so the group is this one or a neighbour.
    let mut group = (u128::from(ordinal) * u128::from(groups) / u128::from(splits.max(1))) as u64;
    while begin(group) > ordinal {
        group -= 1;
    }
    while group + 1 < groups && begin(group + 1) <= ordinal {
        group += 1;
    }
    begin(group)..begin(group + 1)
}

/// Where a document stands in the order of its group: its record, and how many of the record's documents are up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentKey {
    /// How far into its split it begins, in units of 2^-32 of the split.
    pub(crate) share: u64,
    /// Which of the lane's splits it is in.
    pub(crate) ordinal: u64,
    /// Where it begins in its file.
    pub(crate) byte: u64,
    /// How many documents of its record are up to it; `u64::MAX` for all of them.
    pub(crate) sample: u64,
}

impl DocumentKey {
    /// How many documents of `record` are up to this key, if not all are.
    pub(crate) fn samples_of(&self, record: Self) -> u64 {
        if (Self { sample: record.sample, ..*self }) == record { self.sample } else { 0 }
    }
}

/// Converts places in a split to shares of it, and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    begin: u64,
    /// The share of one place, in units of 2^-63 of the split.
    per_place: u64,
}

impl Scale {
    /// The scale of a split that is about `len` places long. The text of a compressed file may be longer: its shares
    /// then exceed one.
    pub(crate) fn new(split: Split, len: u64) -> Self {
        Self { begin: split.begin, per_place: (1 << 63) / len.clamp(1, 1 << 63) }
    }

    /// How far into the split a place is, in units of 2^-32 of the split.
    pub(crate) fn share(&self, place: u64) -> u64 {
        let places = u128::from(place.saturating_sub(self.begin));
        u64::try_from((places * u128::from(self.per_place)) >> (63 - WHOLE)).unwrap_or(u64::MAX)
    }

    /// The key of the whole record that begins at `byte` in the lane's split `ordinal`.
    pub(crate) fn key(&self, ordinal: u64, byte: u64) -> DocumentKey {
        DocumentKey { share: self.share(byte), ordinal, byte, sample: u64::MAX }
    }

    /// The first place whose share is at least `share`.
    pub(crate) fn place(&self, share: u64) -> u64 {
        let places = (u128::from(share) << (63 - WHOLE)).div_ceil(u128::from(self.per_place));
        u64::try_from(places).map_or(u64::MAX, |places| self.begin.saturating_add(places))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::split::Lines;

    fn scale(begin: u64, len: u64) -> Scale {
        Scale::new(
            Split {
                file: 0,
                begin,
                end: begin + len,
                lines: Lines::Unknown,
                is_found: true,
                is_exact: false,
            },
            len,
        )
    }

    proptest! {
        #[test]
        fn groups_are_all_splits_once_and_of_about_one_size(splits in 1_u64..400, most in 1_usize..20) {
            let (mut at, mut sizes) = (0, Vec::new());
            while at < splits {
                let found = group(splits, most, at);
                prop_assert_eq!(found.start, at);
                for ordinal in found.clone() {
                    prop_assert_eq!(group(splits, most, ordinal), found.clone());
                }
                sizes.push(found.end - found.start);
                at = found.end;
            }
            prop_assert!(sizes.iter().all(|&size| size <= most as u64));
            prop_assert!(sizes.iter().max().expect("one") - sizes.iter().min().expect("one") <= 1);
        }

        #[test]
        fn a_share_leads_back_to_the_first_place_that_has_it(
            begin in 0_u64..1 << 40,
            len in 1_u64..1 << 42,
            offset in 0_u64..1 << 42,
        ) {
            let scale = scale(begin, len);
            let share = scale.share(begin + offset);
            let first = scale.place(share);
            prop_assert!(first <= begin + offset && scale.share(first) >= share);
            prop_assert!(first == begin || scale.share(first - 1) < share);
        }

        #[test]
        fn the_split_ends_at_the_whole_share(len in 1_u64..1 << 31) {
            let end = scale(7, len).share(7 + len);
            prop_assert!(end <= 1 << WHOLE && (1 << WHOLE) - end <= len.div_ceil(1 << 31));
        }
    }
}
