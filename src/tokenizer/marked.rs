//! A rendered text as a tokenizer gets it: with its special tokens, and with the places where it must say which bytes
//! each id stands for.

use std::iter;
use std::ops::Range;

use super::EncodeError;
use crate::document::{Mask, RenderedMarks};

/// A text that was rendered from a record, with its marks. Ranges and places are bytes of the text.
#[derive(Clone, Copy, Debug)]
pub struct MarkedText<'a> {
    text: &'a str,
    marks: &'a RenderedMarks,
    /// Where the text begins in the marks' places.
    start: usize,
}

/// Ids in a row, and the bytes that they stand for: one id, or several that are all learned from or all not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The range of the text.
    pub bytes: Range<usize>,
    /// How many ids there are.
    pub ids: usize,
}

/// The spans that are wanted of a text's ids.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// How far they must reach at least. Ids that begin there or later need none.
    #[cfg_attr(not(feature = "tokenizers"), expect(dead_code, reason = "bytes are told at once"))]
    pub(crate) until: usize,
    /// Where they are appended.
    pub(crate) spans: &'a mut Vec<Range<usize>>,
}

/// A piece of a rendered text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The spelling of a special token.
    Special(Range<usize>),
    /// Plain text, to be encoded apart from what stands around it.
    Plain(Range<usize>),
}

impl<'a> MarkedText<'a> {
    /// A text that begins at `start` in the marks' places.
    pub(crate) fn new(text: &'a str, marks: &'a RenderedMarks, start: usize) -> Self {
        Self { text, marks, start }
    }

    /// The text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The spellings of special tokens.
    pub(crate) fn special(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let Self { start, .. } = *self;
        let special = self.marks.special_in(&(start..start + self.text.len()));
        special.iter().map(move |token| token.start - start..token.end - start)
    }

    /// How many runs there will be in most texts: a few for each special token.
    pub(crate) fn likely_runs(&self) -> usize {
        4 * (1 + self.special().count())
    }

    /// Where encoding begins anew, beside the text's two ends.
    fn breaks(&self) -> impl Iterator<Item = usize> + use<'a> {
        let Self { start, .. } = *self;
        self.marks.breaks_in(&(start..start + self.text.len())).iter().map(move |place| place - start)
    }

    /// The parts between breaks.
    #[cfg(any(test, feature = "tokenizers"))]
    pub(crate) fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let (mut at, end) = (0, self.text.len());
        let ends = self.breaks().chain(iter::once(end));
        ends.map(move |end| std::mem::replace(&mut at, end)..end).filter(|part| !part.is_empty())
    }

    /// The text's special tokens, and what stands between them and between breaks.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + use<'a> {
        let (mut at, end) = (0, self.text.len());
        let mut special = self.special().peekable();
        let mut breaks = self.breaks().peekable();
        iter::from_fn(move || {
            if let Some(token) = special.next_if(|token| token.start <= at) {
                at = token.end;
                return Some(Piece::Special(token));
            }
            while breaks.next_if(|place| *place <= at).is_some() {}
            let token = special.peek().map_or(end, |token| token.start);
            let next = breaks.peek().map_or(token, |place| token.min(*place));
            (at < next).then(|| Piece::Plain(std::mem::replace(&mut at, next)..next))
        })
    }

    /// The ranges that are learned from.
    fn learned(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let Self { start, marks, .. } = *self;
        let learned = marks.mask.learned_in(start..start + self.text.len());
        learned.map(move |range| range.start - start..range.end - start)
    }

    /// The last place within a range where what is learned from begins or ends; none if all of it is, or nothing.
    fn last_border(&self, range: &Range<usize>) -> Option<usize> {
        let within = self.start + range.start..self.start + range.end;
        let last = self.marks.mask.learned_in(within.clone()).last()?;
        let border = if last.end < within.end { last.end } else { last.start };
        (border > within.start).then_some(border - self.start)
    }

    /// Appends the ids of a range and their runs. `encode` appends those of a text, and spans if it is asked for them: only
    /// a range that is partly learned from needs them.
    pub(crate) fn encode(
        &self,
        range: Range<usize>,
        ids: &mut Vec<u32>,
        runs: &mut Vec<Run>,
        encode: impl FnOnce(&str, &mut Vec<u32>, Option<Wanted<'_>>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let (text, before) = (&self.text[range.clone()], ids.len());
        let Some(border) = self.last_border(&range) else {
            encode(text, ids, None)?;
            let ids = ids.len().saturating_sub(before);
            runs.extend((ids > 0).then_some(Run { bytes: range, ids }));
            return Ok(());
        };
        let (mut spans, until) = (Vec::new(), border - range.start);
        encode(text, ids, Some(Wanted { until, spans: &mut spans }))?;
        let made = ids.len().saturating_sub(before);
        let rest = made.checked_sub(spans.len());
        let Some(rest) = rest.filter(|rest| *rest == 0 || spans.last().is_some_and(|last| until <= last.end))
        else {
            let problem = format!("the tokenizer gave {made} ids and the spans of {}", spans.len());
            return Err(problem.into());
        };
        if !spans.is_sorted_by_key(|span| span.start) {
            return Err("the tokenizer gave spans that are not sorted".into());
        }
        let at = range.start;
        let end = spans.last().map_or(at, |last| at + last.end);
        runs.extend(spans.into_iter().map(|span| Run { bytes: at + span.start..at + span.end, ids: 1 }));
        runs.extend((rest > 0).then_some(Run { bytes: end..range.end, ids: rest }));
        Ok(())
    }

    /// How many places there are where what is learned from begins behind other text, and how many of them are within an
    /// id.
    pub(crate) fn borders(&self, runs: &[Run]) -> (u64, u64) {
        let starts = self.learned().map(|range| range.start).filter(|start| *start > 0);
        let is_joined = |start| {
            let nth = runs.partition_point(|run| run.bytes.end <= start);
            runs.get(nth).is_some_and(|run| run.bytes.start < start)
        };
        starts.fold((0, 0), |(all, joined), start| (all + 1, joined + u64::from(is_joined(start))))
    }

    /// What is not learned from, in places of the ids that the runs count. An id that overlaps a learned byte is
    /// learned.
    pub(crate) fn mask(&self, runs: &[Run]) -> Mask {
        let mut learned = self.learned().peekable();
        let (mut mask, mut at) = (Mask::default(), 0);
        for Run { bytes, ids } in runs {
            while learned.next_if(|range| range.end <= bytes.start).is_some() {}
            if learned.peek().is_none_or(|range| bytes.end <= range.start) {
                mask.mask(at..at + ids);
            }
            at += ids;
        }
        mask
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]
mod tests {
    use super::*;

    /// Marks for a text at byte 3 of its slab.
    fn marks(
        special: &[Range<usize>],
        breaks: &[usize],
        learned: &[Range<usize>],
        len: usize,
    ) -> RenderedMarks {
        let shifted = |ranges: &[Range<usize>]| -> Vec<Range<usize>> {
            ranges.iter().map(|range| range.start + 3..range.end + 3).collect()
        };
        RenderedMarks {
            mask: Mask::learning(shifted(learned), len + 6),
            special: shifted(special),
            breaks: breaks.iter().map(|place| place + 3).collect(),
            ..RenderedMarks::default()
        }
    }

    #[test]
    fn pieces_lie_between_special_tokens_and_breaks() {
        let text = "<a><b>one two<c>";
        let marks = marks(&[0..3, 3..6, 13..16], &[0, 6, 9, 14, 16], &[6..16], text.len());
        let marked = MarkedText::new(text, &marks, 3);
        let pieces: Vec<Piece> = marked.pieces().collect();
        let expected = [
            Piece::Special(0..3),
            Piece::Special(3..6),
            Piece::Plain(6..9),
            Piece::Plain(9..13),
            Piece::Special(13..16),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(marked.parts().collect::<Vec<_>>(), [0..6, 6..9, 9..14, 14..16]);
        let none = RenderedMarks::default();
        assert_eq!(MarkedText::new("", &none, 0).pieces().count(), 0);
        assert_eq!(MarkedText::new("one", &none, 0).pieces().collect::<Vec<_>>(), [Piece::Plain(0..3)]);
    }

    #[test]
    fn spans_are_asked_for_as_far_as_a_border_is() {
        let text = "one two six";
        let marks = marks(&[], &[], &[4..7], text.len());
        let marked = MarkedText::new(text, &marks, 3);
        let of = |range: Range<usize>, asked: Option<usize>, all: bool| {
            let (mut ids, mut runs) = (Vec::new(), Vec::new());
            let encode = |text: &str, ids: &mut Vec<u32>, wanted: Option<Wanted<'_>>| {
                assert_eq!(wanted.as_ref().map(|wanted| wanted.until), asked, "{text:?}");
                ids.extend(text.bytes().map(u32::from));
                if let Some(Wanted { until, spans }) = wanted {
                    spans.extend((0..if all { text.len() } else { until }).map(|at| at..at + 1));
                }
                Ok(())
            };
            marked.encode(range, &mut ids, &mut runs, encode).expect("ids");
            (runs.len(), marked.mask(&runs))
        };
        for all in [false, true] {
            assert_eq!(of(0..4, None, all), (1, Mask::learning([], 4)));
            assert_eq!(of(4..7, None, all), (1, Mask::default()));
            let runs = |until: usize, len: usize| if all { len } else { until + 1 };
            assert_eq!(of(0..11, Some(7), all), (runs(7, 11), Mask::learning([4..7], 11)));
            assert_eq!(of(2..7, Some(2), all), (runs(2, 5), Mask::learning([2..5], 5)));
            assert_eq!(of(5..11, Some(2), all), (runs(2, 6), Mask::learning([0..2], 6)));
        }
        for (made, known) in [(1, 0), (2, 3), (3, 2)] {
            let encode = |_: &str, ids: &mut Vec<u32>, wanted: Option<Wanted<'_>>| {
                ids.extend(0..made);
                wanted.expect("a border").spans.extend((0..known).map(|at| at..at + 1));
                Ok(())
            };
            let problem = marked.encode(0..11, &mut Vec::new(), &mut Vec::new(), encode).expect_err("spans");
            let said = format!("{made} ids and the spans of {known}");
            assert!(problem.to_string().contains(&said), "{problem}");
        }
    }

    #[test]
    fn an_id_that_overlaps_a_learned_byte_is_learned() {
        let marks = marks(&[], &[], &[2..3, 6..8], 10);
        let marked = MarkedText::new("0123456789", &marks, 3);
        let runs = [0..2, 1..3, 1..3, 3..6, 5..7, 8..10].map(|bytes| Run { bytes, ids: 2 });
        assert_eq!(marked.mask(&runs), Mask::learning([2..6, 8..10], 12));
    }

    #[test]
    fn an_id_may_stand_on_both_sides_of_a_border() {
        let marks = marks(&[], &[], &[0..1, 4..6, 8..10], 10);
        let marked = MarkedText::new("0123456789", &marks, 3);
        let of = |ends: &[usize]| {
            let mut at = 0;
            let runs = ends.iter().map(|end| Run { bytes: std::mem::replace(&mut at, *end)..*end, ids: 1 });
            marked.borders(&runs.collect::<Vec<_>>())
        };
        // Nothing stands before the first range.
        assert_eq!(of(&[1, 4, 6, 8, 10]), (2, 0));
        assert_eq!(of(&[1, 5, 8, 10]), (2, 1));
        assert_eq!(of(&[2, 3, 5, 9, 10]), (2, 2));
        // A text that was cut has no ids at its end.
        assert_eq!(of(&[2, 3, 5]), (2, 1));
    }
}
