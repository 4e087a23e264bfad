//! The masked ranges of a split: runs of its ids that are not learned from, in their order.
//!
//! Each lies within one document. It has where it begins among the split's ids (u64), how many ids it has (u32), and
//! what they weigh in the loss (f32), which is 0.

use std::ops::Range;

/// The length of a masked range, in bytes.
pub(crate) const MASKED: usize = 16;

const WEIGHT: f32 = 0.0;

/// A range as it is stored; `None` if it has more ids than fit.
pub(super) fn to_bytes(range: Range<u64>) -> Option<[u8; MASKED]> {
    let len = u32::try_from(range.end.checked_sub(range.start)?).ok()?;
    let mut bytes = [0; MASKED];
    bytes[..8].copy_from_slice(&range.start.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..].copy_from_slice(&WEIGHT.to_le_bytes());
    Some(bytes)
}

/// The masked ranges in some bytes, of a document with these ids of its split, counted from its first id. `None` if they
/// are not ranges of that document in their order, or if masked ids weigh something.
pub(crate) fn masked_ranges(bytes: &[u8], ids: Range<u64>) -> Option<Vec<Range<usize>>> {
    let mut before = ids.start;
    let range = |bytes: &[u8; MASKED]| {
        let (start, bytes) = bytes.split_first_chunk()?;
        let (len, bytes) = bytes.split_first_chunk()?;
        let (start, weight) = (u64::from_le_bytes(*start), f32::from_le_bytes(*bytes.first_chunk()?));
        let end = start.checked_add(u32::from_le_bytes(*len).into())?;
        // A weight that is no number is not equal to any.
        let is_good = before <= start && start < end && end <= ids.end && weight == WEIGHT;
        before = end;
        is_good.then(|| (start - ids.start) as usize..(end - ids.start) as usize)
    };
    let (ranges, []) = bytes.as_chunks() else { return None };
    ranges.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(ranges: &[Range<u64>]) -> Vec<u8> {
        ranges.iter().flat_map(|range| to_bytes(range.clone()).expect("short")).collect()
    }

    proptest! {
        #[test]
        fn only_ranges_of_the_document_in_their_order_are_taken(
            ranges in prop::collection::vec((0_u64..30, 0_u64..6), 0..5),
            ids in (0_u64..12, 0_u64..30),
        ) {
            let ids = ids.0..ids.0 + ids.1;
            let mut ranges: Vec<Range<u64>> = ranges.iter().map(|(start, len)| *start..start + len).collect();
            for is_sorted in [false, true] {
                if is_sorted {
                    ranges.sort_by_key(|range| range.start);
                }
                let is_good = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start)
                    && ranges.iter().all(|range| !range.is_empty() && ids.start <= range.start && range.end <= ids.end);
                let within = |range: &Range<u64>| (range.start - ids.start) as usize..(range.end - ids.start) as usize;
                let expected = is_good.then(|| ranges.iter().map(within).collect::<Vec<_>>());
                prop_assert_eq!(masked_ranges(&stored(&ranges), ids.clone()), expected);
            }
        }
    }

    #[test]
    fn masked_ids_that_weigh_something_are_of_a_newer_version() {
        let weighing = |weight: f32| {
            let mut bytes = stored(&[2..5, 6..8]);
            bytes[12..MASKED].copy_from_slice(&weight.to_le_bytes());
            masked_ranges(&bytes, 0..9)
        };
        assert_eq!(weighing(0.0), Some(vec![2..5, 6..8]));
        for weight in [1.0, 0.5, -1.0, f32::MIN_POSITIVE, f32::NAN, f32::INFINITY] {
            assert_eq!(weighing(weight), None, "{weight}");
        }
        assert_eq!(masked_ranges(&stored(&[2..5, 6..8])[1..], 0..9), None);
        assert_eq!(masked_ranges(&stored(&[0..1, u64::MAX - 1..u64::MAX]), 0..u64::MAX - 1), None);
    }

    #[test]
    fn a_range_too_long_to_be_stored_is_none() {
        assert!(to_bytes(7..7 + u64::from(u32::MAX)).is_some());
        assert_eq!(to_bytes(7..8 + u64::from(u32::MAX)), None);
    }
}
