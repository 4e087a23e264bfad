//! Which batches have to be read to find a document.

use std::ops::Range;

use crate::cursor::LaneCursor;
use crate::source::UpTo;

/// Where a lane is in one source after so many batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) batch: u64,
    pub(super) at: LaneCursor,
}

/// The batches that may have something of a document of one epoch. `marks` ascend from the stream's start, and `up_to` says
/// how much of the document comes up to a place. What was delivered before a mark comes before the place of a later one
/// if the place has changed `advances` times until then.
pub(super) fn stretch(
    marks: &[Mark],
    up_to: impl Fn(&LaneCursor) -> UpTo,
    advances: usize,
    end: u64,
) -> Range<u64> {
    let ahead = marks.partition_point(|mark| up_to(&mark.at) == UpTo::Nothing);
    let passed = marks.partition_point(|mark| up_to(&mark.at) != UpTo::All);
    let (mut first, mut changes) = (ahead.saturating_sub(1), 0);
    while first > 0 && changes < advances {
        changes += usize::from(marks[first - 1].at != marks[first].at);
        first -= 1;
    }
    marks[first].batch..marks.get(passed).map_or(end, |mark| mark.batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(batch: u64, documents: u64) -> Mark {
        Mark { batch, at: LaneCursor::after(documents) }
    }

    /// The stretch of document `nth`, counted from 1.
    fn of(nth: u64, advances: usize) -> Range<u64> {
        let marks = [(0, 0), (5, 0), (10, 4), (15, 4), (20, 8), (25, 16)].map(|(batch, at)| mark(batch, at));
        let up_to = |at: &LaneCursor| if at.documents < nth { UpTo::Nothing } else { UpTo::All };
        stretch(&marks, up_to, advances, 30)
    }

    #[test]
    fn a_stretch_begins_where_nothing_was_delivered_and_ends_where_all_was() {
        // The window from document 4 on may have been delivered before batch 15, that from 0 on was before batch 10.
        assert_eq!([of(1, 1), of(4, 1), of(5, 1)], [0..10, 0..10, 5..20]);
        assert_eq!([of(8, 1), of(9, 1), of(16, 1), of(17, 1)], [5..20, 15..25, 15..25, 20..30]);
        assert_eq!([of(17, 2), of(17, 3), of(17, 9)], [15..30, 5..30, 0..30]);
    }
}
