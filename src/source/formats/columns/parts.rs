//! Cuts within blocks (row groups or record batches), for tables of few blocks: so that every lane has work.

use std::ops::Range;

use crate::source::split_size::SplitSize;

/// About how many splits a source is cut into. Each of them reads all of its block, or at least a page.
const SPLITS: u64 = 128;

/// The same where a split must read more than its own length.
const FEWEST: u64 = 64;

/// A unit of decoding (a page, a record batch) is cut freely if it takes up to `SHORT` bytes of memory, into at most
/// `MOST_PARTS` if it takes up to `LONG`, and else not at all: each part decodes all of it.
const SHORT: u64 = 4 << 20;
const MOST_PARTS: u64 = 4;
const LONG: u64 = 32 << 20;

/// How many parts a unit of decoding that takes `held` bytes of memory is cut into at most.
pub(super) fn most_parts(held: u64) -> u64 {
    match held {
        held if held <= SHORT => u64::MAX,
        held if held <= LONG => MOST_PARTS,
        _ => 1,
    }
}

/// How many parts each of `blocks` blocks of a file of `len` bytes is cut into, if a part of any length reads at least
/// `least` bytes.
pub(super) fn parts(split_size: &SplitSize, len: u64, blocks: u64, least: u64) -> u64 {
    let splits = (split_size.total / least.max(1)).clamp(FEWEST, SPLITS);
    let share = u128::from(splits) * u128::from(len) / u128::from(split_size.total.max(1));
    let most = (share as u64).max(splits / split_size.files.max(1));
    if split_size.is_auto { most.div_ceil(blocks.max(1)).max(1) } else { 1 }
}

/// The first rows of `parts` parts of about the same size.
pub(super) fn cut_evenly(rows: Range<u64>, parts: u64) -> impl Iterator<Item = u64> {
    let len = u128::from(rows.end - rows.start);
    (0..parts).map(move |part| rows.start + (len * u128::from(part) / u128::from(parts)) as u64)
}

pub(super) fn scaled(part: u64, from: u64, to: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(to) / u128::from(from.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_rows() {
        assert_eq!(cut_evenly(7..17, 3).collect::<Vec<_>>(), [7, 10, 13]);
        assert_eq!(cut_evenly(7..9, 4).collect::<Vec<_>>(), [7, 7, 8, 8]);
        assert_eq!(cut_evenly(7..7, 1).collect::<Vec<_>>(), [7]);
    }
}
