//! The notes of a split: what is stored of its documents beside their ids, in units of sixteen bytes.
//!
//! A document has first its masked ranges: runs of its ids that are not learned from, in their order. Each has where it
//! begins among the split's ids (u64), how many ids it has (u32), and what they weigh in the loss (f32), which is 0. Then
//! come its columns, if it has some: a unit with `u64::MAX`, their length in bytes (u32) and zeros, and then their bytes,
//! filled up with zeros.

use std::ops::Range;

/// The length of a unit, in bytes.
pub(crate) const NOTE: usize = 16;

/// What the unit before a document's columns begins with. No id has this place.
const COLUMNS: u64 = u64::MAX;

const WEIGHT: f32 = 0.0;

/// A masked range as it is stored; `None` if it has more ids than fit.
pub(super) fn of_masked(range: Range<u64>) -> Option<[u8; NOTE]> {
    let len = u32::try_from(range.end.checked_sub(range.start)?).ok()?;
    Some(note(range.start, len))
}

/// The columns of a document as they are stored; `None` if they have more bytes than fit.
pub(super) fn of_columns(columns: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = note(COLUMNS, u32::try_from(columns.len()).ok()?).to_vec();
    bytes.extend_from_slice(columns);
    bytes.resize(bytes.len().next_multiple_of(NOTE), 0);
    Some(bytes)
}

fn note(place: u64, len: u32) -> [u8; NOTE] {
    let mut bytes = [0; NOTE];
    bytes[..8].copy_from_slice(&place.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..].copy_from_slice(&WEIGHT.to_le_bytes());
    bytes
}

/// The masked ranges of a document, counted from its first id, and the bytes of its columns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Notes<'a> {
    pub(crate) masked: Vec<Range<usize>>,
    pub(crate) columns: Option<&'a [u8]>,
}

/// The notes in some bytes, of a document with these ids of its split. `None` if the masked ranges are not those of that
/// document in their order, if masked ids weigh something, or if the columns do not end where the bytes do.
pub(crate) fn notes(bytes: &[u8], ids: Range<u64>) -> Option<Notes<'_>> {
    let (units, []) = bytes.as_chunks::<NOTE>() else { return None };
    let (mut masked, mut before) = (Vec::new(), ids.start);
    for (nth, unit) in units.iter().enumerate() {
        let (place, rest) = unit.split_first_chunk()?;
        let (len, weight) = rest.split_first_chunk()?;
        let (place, len) = (u64::from_le_bytes(*place), u32::from_le_bytes(*len));
        let weight = f32::from_le_bytes(*weight.first_chunk()?);
        if place == COLUMNS {
            let columns = &bytes[(nth + 1) * NOTE..];
            let is_whole = weight == WEIGHT && columns.len() == (len as usize).next_multiple_of(NOTE);
            return is_whole.then(|| Notes { masked, columns: Some(&columns[..len as usize]) });
        }
        let end = place.checked_add(len.into())?;
        // A weight that is no number is not equal to any.
        if !(before <= place && place < end && end <= ids.end && weight == WEIGHT) {
            return None;
        }
        before = end;
        masked.push((place - ids.start) as usize..(end - ids.start) as usize);
    }
    Some(Notes { masked, columns: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked_ranges(bytes: &[u8], ids: Range<u64>) -> Option<Vec<Range<usize>>> {
        notes(bytes, ids).map(|notes| notes.masked)
    }

    fn stored(ranges: &[Range<u64>]) -> Vec<u8> {
        ranges.iter().flat_map(|range| of_masked(range.clone()).expect("short")).collect()
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

        #[test]
        fn columns_come_back_behind_the_masked_ranges(
            columns in prop::collection::vec(any::<u8>(), 0..70), is_masked: bool, cut in 1_usize..200,
        ) {
            let mut bytes = if is_masked { stored(&[3..4, 6..8]) } else { Vec::new() };
            bytes.extend(of_columns(&columns).expect("short"));
            let masked = if is_masked { vec![1..2, 4..6] } else { vec![] };
            prop_assert_eq!(notes(&bytes, 2..9), Some(Notes { masked, columns: Some(&columns) }));
            let less = &bytes[..bytes.len() - cut.min(bytes.len())];
            prop_assert!(notes(less, 2..9).is_none_or(|notes| notes.columns.is_none()));
            bytes.extend([0; NOTE]);
            prop_assert_eq!(notes(&bytes, 2..9), None);
        }
    }

    #[test]
    fn masked_ids_that_weigh_something_are_of_a_newer_version() {
        let weighing = |weight: f32| {
            let mut bytes = stored(&[2..5, 6..8]);
            bytes[12..NOTE].copy_from_slice(&weight.to_le_bytes());
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
        assert!(of_masked(7..7 + u64::from(u32::MAX)).is_some());
        assert_eq!(of_masked(7..8 + u64::from(u32::MAX)), None);
    }
}
