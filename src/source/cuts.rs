//! Where a file of records is cut, and which of its bytes each split is read from.

use std::ops::Range;

/// Ranges with at most this many bytes between them are fetched as one.
const GAP: u64 = 64 << 10;

/// Joined ranges are at most this long, in bytes: a long range is read forward and freed as it is read.
const MOST_JOINED: u64 = 256 << 10;

/// The cuts of one file.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// The file is cut before these places. They are in order, and none is 0.
    places: Box<[u64]>,
    /// The stored bytes that opening the file reads.
    opening: Range<u64>,
    /// The stored bytes of each split; empty if they are not known.
    splits: Box<[Box<[Range<u64>]>]>,
}

impl Cuts {
    /// Cuts before these places.
    pub(crate) fn new(places: impl Into<Box<[u64]>>) -> Self {
        Self { places: places.into(), ..Self::default() }
    }

    /// The same, with the stored bytes that are read: `opening` when the file is opened, and `split(places)` for each
    /// split, given its range of places.
    pub(crate) fn stored(self, opening: Range<u64>, split: impl Fn(Range<u64>) -> Vec<Range<u64>>) -> Self {
        let splits = (0..=self.places.len()).map(|nth| {
            let (begin, end) = between(&self.places, nth);
            joined(split(begin..end))
        });
        Self { opening, splits: splits.collect(), ..self }
    }

    pub(crate) fn places(&self) -> &[u64] {
        &self.places
    }

    /// The stored bytes that split `nth` is read from; none if they are not known. They include the bytes that opening
    /// reads, unless the file `is_open`.
    pub(crate) fn ranges(&self, nth: usize, is_open: bool) -> Vec<Range<u64>> {
        let opening = (!is_open).then(|| self.opening.clone());
        opening.into_iter().chain(self.splits.get(nth).into_iter().flatten().cloned()).collect()
    }
}

/// The places where split `nth` begins and ends, for a file that is cut before `places`.
pub(crate) fn between(places: &[u64], nth: usize) -> (u64, u64) {
    let begin = nth.checked_sub(1).map_or(0, |before| places[before]);
    (begin, places.get(nth).copied().unwrap_or(u64::MAX))
}

/// Joins ranges with short gaps between them. The shortest come first, so that they have arrived when the
/// first bytes of a long range are read.
fn joined(mut ranges: Vec<Range<u64>>) -> Box<[Range<u64>]> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end + GAP && range.end <= last.start + MOST_JOINED => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined.sort_by_key(|range| range.end - range.start);
    joined.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_neighbours_are_one_range_and_come_first() {
        const MIB: u64 = 1 << 20;
        let columns = vec![MIB..9 * MIB, 9 * MIB..9 * MIB + 10, 0..1000, 1000 + GAP..2000 + GAP];
        let cuts = Cuts::new([7]).stored(5..6, |split| match split {
            Range { start: 0, end: 7 } => columns.clone(),
            Range { start: 7, end: u64::MAX } => vec![0..GAP, GAP..MOST_JOINED, 3 * GAP..MOST_JOINED + 1],
            other => panic!("{other:?} is no split"),
        });
        assert_eq!(cuts.ranges(0, false), [5..6, 9 * MIB..9 * MIB + 10, 0..2000 + GAP, MIB..9 * MIB]);
        assert_eq!(cuts.ranges(1, true), [3 * GAP..MOST_JOINED + 1, 0..MOST_JOINED]);
        assert!(Cuts::new([7]).ranges(1, false).iter().all(Range::is_empty));
    }
}
