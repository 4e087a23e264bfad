//! The laws that files of every kind keep, as parts of the properties over each kind.

use std::collections::{HashMap, HashSet};

use millstream::source::Lane;
use millstream::{LaneCursor, Meter, Source};
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

/// The documents of a corpus, by file and byte: the line, if it is to be compared, and the text, unless it is skipped.
pub(crate) type Wanted = HashMap<(u32, u64), (Option<u64>, Option<String>)>;

/// In each epoch, one of the lanes delivers each document, or it is counted as skipped.
pub(crate) async fn each_comes_once_an_epoch_or_is_skipped(
    source: Source,
    lane: Lane,
    wanted: &Wanted,
) -> Result<(), TestCaseError> {
    let meter = Meter::new("source");
    let source = source.with_meter(meter.clone());
    let epochs = lane.epochs.expect("some");
    let mut delivered = HashSet::new();
    for lane in lanes(lane) {
        let mut before = LaneCursor::default();
        for seen in all(source.lane(lane, &LaneCursor::default())).await {
            let (place, epoch) = ((seen.position.file, seen.position.byte), seen.cursor.epoch);
            let (line, text) = wanted.get(&place).cloned().unwrap_or_default();
            prop_assert_eq!(text, Some(seen.text), "at {:?}", place);
            if line.is_some() {
                prop_assert_eq!(source.files().line(seen.position).ok(), line, "at {:?}", place);
            }
            prop_assert!(epoch < epochs && delivered.insert((epoch, place)), "twice at {:?}", place);
            prop_assert_eq!(seen.cursor.documents, before.documents + 1);
            prop_assert!(epoch >= before.epoch);
            before = seen.cursor;
        }
    }
    let skipped = wanted.values().filter(|(_, text)| text.is_none()).count() as u64;
    let documents = epochs * (wanted.len() as u64 - skipped);
    prop_assert_eq!(delivered.len() as u64, documents);
    let meter = meter.snapshot();
    prop_assert_eq!((meter.documents, meter.skipped), (documents, epochs * skipped));
    Ok(())
}
