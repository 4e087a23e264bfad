//! Splits that a lane reads side by side, and the order in which their documents come.
//!
//! A lane takes its splits of an epoch in groups. The documents of a group come by how far into its split each one
//! begins, as a share of the split's length: first those at the splits' beginnings, in the end those at their ends. So
//! a few documents that follow each other come from as many places of the corpus, and all splits of a group end at
//! about the same time.
//!
//! The order depends on nothing but where documents begin, so one document's place says where each split of its group
//! stands: this is all that a cursor keeps.

use std::ops::Range;

use super::split::Split;

/// How many splits a lane reads side by side. Each of them takes a file while it is open, and a decompressor, a page of a
/// table or a block of a store.
pub(super) const MOST: usize = 8;

/// The same where one lane takes a sample of all files.
pub(super) const MOST_OF_SAMPLE: usize = 16;

/// What is open of one source takes at most so many bytes in memory, unless one split a lane takes more.
pub(super) const MOST_HELD: u64 = 128 << 20;

/// There are no more lanes than this allows for, if there is a choice: fewer of them mix less.
pub(super) const MOST_HELD_BY_LANES: u64 = 512 << 20;

/// So many splits of one source are open at most, unless there are more lanes.
pub(super) const MOST_OPEN: usize = 512;

/// The same of a source in a store. The more of them there are, the less each request may ask for.
pub(super) const MOST_OPEN_REMOTE: usize = 128;

/// As much text is read side by side at most where the config says how long splits are, in bytes.
pub(super) const MOST_BYTES: u64 = 64 << 20;

/// What share of its split lies before the split's end.
const WHOLE: u32 = 32;

/// The group that place `ordinal` of a lane's `splits` of an epoch is in, if at most `most` are read side by side.
/// Groups are of about one size.
pub(super) fn group(splits: u64, most: usize, ordinal: u64) -> Range<u64> {
    let groups = splits.div_ceil(most as u64).max(1);
    let begin = |group: u64| (u128::from(group) * u128::from(splits) / u128::from(groups)) as u64;
    // Division rounds: the group is this one or a neighbour.
    let mut group = (u128::from(ordinal) * u128::from(groups) / u128::from(splits.max(1))) as u64;
    while begin(group) > ordinal {
        group -= 1;
    }
    while group + 1 < groups && begin(group + 1) <= ordinal {
        group += 1;
    }
    begin(group)..begin(group + 1)
}

/// Where a document stands in the order of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// How far into its split it begins, in parts of 2^32.
    pub(super) share: u64,
    /// Which of the lane's splits it is in.
    pub(super) ordinal: u64,
    /// Where it begins in its file.
    pub(super) byte: u64,
}

/// From places in a split to shares of it, and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    begin: u64,
    /// The share that one place is worth, in parts of 2^63.
    per_place: u64,
}

impl Scale {
    /// The scale of a split that is about `len` places long. The text of a compressed file may be longer: shares go on.
    pub(super) fn new(split: Split, len: u64) -> Self {
        Self { begin: split.begin, per_place: (1 << 63) / len.clamp(1, 1 << 63) }
    }

    /// How far into the split a place lies, in parts of 2^32.
    pub(super) fn share(&self, place: u64) -> u64 {
        let places = u128::from(place.saturating_sub(self.begin));
        u64::try_from((places * u128::from(self.per_place)) >> (63 - WHOLE)).unwrap_or(u64::MAX)
    }

    /// Where a document of the lane's split `ordinal` stands that begins at `byte`.
    pub(super) fn key(&self, ordinal: u64, byte: u64) -> Key {
        Key { share: self.share(byte), ordinal, byte }
    }

    /// The first place that lies so far into the split, or farther.
    pub(super) fn place(&self, share: u64) -> u64 {
        let places = (u128::from(share) << (63 - WHOLE)).div_ceil(u128::from(self.per_place));
        u64::try_from(places).map_or(u64::MAX, |places| self.begin.saturating_add(places))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scale(begin: u64, len: u64) -> Scale {
        Scale::new(
            Split { file: 0, begin, end: begin + len, has_lines: false, is_found: true, is_exact: false },
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
