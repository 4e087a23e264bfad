//! Which places of a text, or of its ids, are not learned from.

use std::ops::Range;

/// Which places are not learned from: bytes of a text, or ids. By default all are learned from, which takes no memory.
///
/// It is a sorted list of ranges that neither touch nor overlap. A weight would stand beside each range.
///
/// ```
/// use millstream::document::Mask;
///
/// let mask = Mask::learning([5..8], 10);
/// assert_eq!(mask.masked(), [0..5, 8..10]);
/// assert_eq!(mask.learned_in(6..10).collect::<Vec<_>>(), [6..8]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    masked: Vec<Range<usize>>,
}

impl Mask {
    /// Only the ranges `learned`, which are sorted and do not overlap, are learned from, of `len` places.
    ///
    /// # Panics
    /// If the ranges are not sorted, overlap, or end beyond `len`.
    pub fn learning(learned: impl IntoIterator<Item = Range<usize>>, len: usize) -> Self {
        let (mut mask, mut end) = (Self::default(), 0);
        for range in learned.into_iter().filter(|range| !range.is_empty()) {
            assert!(end <= range.start && range.end <= len, "{range:?} of {len} places, after place {end}");
            mask.mask(end..range.start);
            end = range.end;
        }
        mask.mask(end..len);
        mask
    }

    /// Masks a range, too. It begins at or after the end of the last one.
    ///
    /// # Panics
    /// If it begins before that.
    pub fn mask(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        match self.masked.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            last => {
                assert!(last.is_none_or(|last| last.end < range.start), "{range:?} is not the last range");
                self.masked.push(range);
            }
        }
    }

    /// The ranges that are not learned from.
    pub fn masked(&self) -> &[Range<usize>] {
        &self.masked
    }

    /// Whether all places are learned from.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.masked.is_empty()
    }

    /// The ranges within `range` that are not learned from.
    pub fn masked_in(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let first = self.masked.partition_point(|masked| masked.end <= range.start);
        let within = self.masked[first..].iter().take_while(move |masked| masked.start < range.end);
        // An empty range within a masked one has nothing in common with it.
        within
            .map(move |masked| masked.start.max(range.start)..masked.end.min(range.end))
            .filter(|masked| !masked.is_empty())
    }

    /// The ranges within `range` that are learned from.
    pub fn learned_in(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let (mut at, end) = (range.start, range.end);
        let gaps = self.masked_in(range).chain(std::iter::once(end..end));
        gaps.map(move |masked| std::mem::replace(&mut at, masked.end)..masked.start)
            .filter(|learned| !learned.is_empty())
    }

    /// How many places within `range` are learned from.
    pub fn learned_count(&self, range: Range<usize>) -> usize {
        self.learned_in(range).map(|learned| learned.len()).sum()
    }

    /// Appends the part of `other` within `range`, moved so that the range begins at `at`.
    ///
    /// # Panics
    /// As [`mask`](Self::mask).
    pub fn append(&mut self, other: &Self, range: Range<usize>, at: usize) {
        let start = range.start;
        for masked in other.masked_in(range) {
            self.mask(masked.start - start + at..masked.end - start + at);
        }
    }

    /// The ranges of `masked` together, which come in any order and may overlap.
    pub(crate) fn union(mut masked: Vec<Range<usize>>) -> Self {
        masked.sort_unstable_by_key(|range| range.start);
        let (mut mask, mut end) = (Self::default(), 0);
        for range in masked {
            mask.mask(range.start.max(end)..range.end);
            end = end.max(range.end);
        }
        mask
    }

    /// Where the last masked range ends; 0 if there is none.
    pub(crate) fn end(&self) -> usize {
        self.masked.last().map_or(0, |last| last.end)
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.masked)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The ranges of the places whose flag is `wanted`.
    fn ranges(flags: &[bool], wanted: bool) -> Vec<Range<usize>> {
        let places = (0..flags.len()).filter(|place| flags[*place] == wanted);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for place in places {
            match ranges.last_mut() {
                Some(last) if last.end == place => last.end += 1,
                _ => ranges.push(place..place + 1),
            }
        }
        ranges
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_flag_for_each_place(
            flags in prop::collection::vec(any::<bool>(), 0..40),
            ends: [prop::sample::Index; 2],
            gap in 0_usize..5,
        ) {
            let mask = Mask::learning(ranges(&flags, true), flags.len());
            prop_assert_eq!(mask.masked(), ranges(&flags, false));
            let mut ends = ends.map(|end| end.index(flags.len() + 1));
            ends.sort_unstable();
            let range = ends[0]..ends[1];
            let at = |ranges: Vec<Range<usize>>, by: usize| -> Vec<Range<usize>> {
                ranges.into_iter().map(|range| range.start + by..range.end + by).collect()
            };
            let within = &flags[range.clone()];
            prop_assert_eq!(mask.masked_in(range.clone()).collect::<Vec<_>>(), at(ranges(within, false), range.start));
            prop_assert_eq!(mask.learned_in(range.clone()).collect::<Vec<_>>(), at(ranges(within, true), range.start));
            prop_assert_eq!(mask.learned_count(range.clone()), within.iter().filter(|flag| **flag).count());
            let mut both = mask.clone();
            both.append(&mask, range.clone(), flags.len() + gap);
            let joined = [&*flags, &vec![true; gap], within].concat();
            prop_assert_eq!(both.masked(), ranges(&joined, false));
        }

        #[test]
        fn a_union_has_what_any_range_has(ranges_of in prop::collection::vec((0_usize..30, 0_usize..6), 0..12)) {
            let mut flags = [true; 40];
            for (start, len) in &ranges_of {
                flags[*start..start + len].fill(false);
            }
            let union = Mask::union(ranges_of.iter().map(|(start, len)| *start..start + len).collect());
            prop_assert_eq!(union.masked(), ranges(&flags, false));
            prop_assert_eq!(union.end(), flags.iter().rposition(|flag| !flag).map_or(0, |last| last + 1));
        }
    }
}
