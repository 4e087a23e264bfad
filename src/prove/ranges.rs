//! Ranges of a text, to ask which of them are at a place without a look at all.

use std::ops::Range;

/// Ranges, by where they begin.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Each with its number.
    sorted: Vec<(Range<usize>, usize)>,
    /// The highest end of those up to each.
    ends: Vec<usize>,
}

impl Ranges {
    pub(super) fn new(ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let mut sorted: Vec<(Range<usize>, usize)> =
            ranges.enumerate().map(|(number, range)| (range, number)).collect();
        sorted.sort_by_key(|(range, _)| range.start);
        let highest = |end: &mut usize, (range, _): &(Range<usize>, usize)| {
            *end = range.end.max(*end);
            Some(*end)
        };
        Self { ends: sorted.iter().scan(0, highest).collect(), sorted }
    }

    /// The numbers of those that overlap `place` or touch it.
    pub(super) fn at(&self, place: &Range<usize>) -> impl Iterator<Item = usize> + Clone + use<'_> {
        let (start, end) = (place.start, place.end);
        let first = self.ends.partition_point(|highest| *highest < start);
        let last = self.sorted.partition_point(|(range, _)| range.start <= end);
        let near = self.sorted[first.min(last)..last].iter();
        near.filter(move |(range, _)| range.end >= start).map(|(_, number)| *number)
    }
}

/// Whether two ranges have a byte in common, or one is empty and within the other.
pub(super) fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn those_at_a_place_are_those_that_a_look_at_all_finds(
            ranges in prop::collection::vec((0_usize..30, 0_usize..8), 0..12),
            place in (0_usize..30, 0_usize..8),
        ) {
            let of = |(start, len): (usize, usize)| start..start + len;
            let (ranges, place): (Vec<_>, _) = (ranges.into_iter().map(of).collect(), of(place));
            let touches = |number: &usize| {
                let range = &ranges[*number];
                range.start <= place.end && place.start <= range.end
            };
            let mut found: Vec<usize> = Ranges::new(ranges.iter().cloned()).at(&place).collect();
            found.sort_unstable();
            prop_assert_eq!(found, (0..ranges.len()).filter(touches).collect::<Vec<_>>());
        }
    }
}
