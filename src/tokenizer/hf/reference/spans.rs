//! From the crate's offsets to the bytes that ids stand for.
//!
//! An offset leaves out what a normalizer has merged into another character or removed, and white space between words.
//! Here every byte of the text belongs to some id.

use std::ops::Range;

/// Returns the spans of ids by their `offsets`, sorted by where they begin. Characters that were replaced `together` belong
/// to all ids that have any of them.
pub(super) fn spans(
    text: &str,
    offsets: &[(usize, usize)],
    together: Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let together = merged(together);
    let span = |&(start, end): &(usize, usize)| {
        let end = end.min(text.len());
        let mut span = start.min(end)..end;
        let first = together.partition_point(|range| range.end <= start);
        for range in together[first..].iter().take_while(|range| range.start < end) {
            span = span.start.min(range.start)..span.end.max(range.end);
        }
        span
    };
    let mut spans: Vec<_> = offsets.iter().map(span).collect();
    // Marks that were put in another order stand for those beside them, too.
    for nth in (1..spans.len()).rev() {
        spans[nth - 1].start = spans[nth - 1].start.min(spans[nth].start);
    }
    let mut covered = 0;
    for nth in 0..spans.len() {
        let start = spans[nth].start;
        if covered < start {
            // A mark that was merged with the character before it, say. White space belongs to what follows.
            let gap = text.get(covered..start).unwrap_or_default();
            let before = if nth == 0 { covered } else { covered + gap.trim_end().len() };
            if covered < before {
                spans[nth - 1].end = before;
            }
            spans[nth].start = before;
        }
        covered = covered.max(spans[nth].end);
    }
    if let Some(last) = spans.last_mut().filter(|_| covered < text.len()) {
        last.end = text.len();
    }
    spans
}

/// The ranges in order, with those that overlap as one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]
mod tests {
    use super::*;

    #[test]
    fn every_byte_belongs_to_an_id() {
        let of = |text: &str, offsets: &[(usize, usize)]| spans(text, offsets, Vec::new());
        assert_eq!(of("ab cd", &[(0, 2), (3, 5)]), [0..2, 2..5]);
        assert_eq!(of(" ab ", &[(1, 2), (2, 3)]), [0..2, 2..4]);
        // An accent that was composed or stripped, then a space.
        assert_eq!(of("e\u{301} a", &[(0, 1), (4, 5)]), [0..3, 3..5]);
        assert_eq!(of("\u{301}a", &[(2, 3)]), [0..3]);
        // The bytes of one character share it.
        assert_eq!(of("ä b", &[(0, 2), (0, 2), (3, 4)]), [0..2, 0..2, 2..4]);
        assert_eq!(of("abc", &[(2, 3), (0, 2), (0, 9)]), [0..3, 0..2, 0..3]);
        assert!(of("", &[]).is_empty() && of(" ", &[]).is_empty());
    }

    #[test]
    fn characters_that_were_replaced_together_belong_to_all_of_their_ids() {
        assert_eq!(spans("a``b", &[(0, 1), (2, 3), (3, 4)], vec![1..3]), [0..1, 1..3, 3..4]);
        // One step made of four characters two, and another one of these two.
        let together = vec![2..4, 0..2, 0..4];
        assert_eq!(spans("abcde", &[(3, 4), (3, 4), (4, 5)], together), [0..4, 0..4, 4..5]);
    }
}
