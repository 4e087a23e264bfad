//! The laws that files of every kind keep, as parts of the properties over each kind.

use millstream::source::Lane;
use millstream::{LaneCursor, Source};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::corpus::all;

/// All the lanes that a lane is one of.
pub(crate) fn lanes(lane: Lane) -> impl Iterator<Item = Lane> {
    (0..lane.lanes).map(move |index| Lane { lane: index, ..lane })
}

/// Reads of `slab` bytes deliver what reads of the usual size do.
pub(crate) async fn reads_of_any_size_deliver_the_same(
    source: &Source,
    lanes: impl Iterator<Item = Lane>,
    slab: usize,
) -> Result<(), TestCaseError> {
    let start = LaneCursor::default();
    for lane in lanes {
        let whole = all(source.lane(lane, &start)).await;
        let cut = all(source.clone().with_slab_bytes(slab).lane(lane, &start)).await;
        prop_assert_eq!(&whole, &cut);
    }
    Ok(())
}

/// Every `step`th cursor of each lane resumes with exactly what follows its document.
pub(crate) async fn cursors_resume_exactly(
    source: &Source,
    lanes: impl Iterator<Item = Lane>,
    step: usize,
) -> Result<(), TestCaseError> {
    for lane in lanes {
        let whole = all(source.lane(lane, &LaneCursor::default())).await;
        for (index, seen) in whole.iter().enumerate().step_by(step) {
            let rest = all(source.lane(lane, &seen.cursor)).await;
            prop_assert_eq!(&rest, &whole[index + 1..], "after document {}", index);
            for (again, seen) in rest.iter().zip(&whole[index + 1..]) {
                let [again, before] =
                    [again, seen].map(|seen| source.files().line(seen.position).unwrap_or(0));
                prop_assert!(again == before || again == 0, "line {} and {}", again, before);
            }
        }
    }
    Ok(())
}
