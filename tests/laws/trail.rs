//! The trail of cursors that a run leaves.

use std::collections::BTreeMap;
use std::path::Path;

use millstream::Cursor;
use millstream::trail::{Trail, all, nearest};
use proptest::prelude::*;
use serde_json::json;

use crate::support::cursors::editable;

/// A cursor after `batch` batches, in the order that `order` names.
fn cursor(batch: u64, order: u8) -> Cursor {
    let mut form = editable(&Cursor::default());
    form["batch"] = json!(batch);
    form["fingerprint"] = json!(BTreeMap::from([("order", order.to_string())]));
    serde_json::from_value(form).expect("a cursor")
}

/// Batches that ascend, each with the order that it is of.
fn cursors() -> impl Strategy<Value = Vec<Cursor>> {
    prop::collection::vec((1u64..5, 0u8..6), 0..8).prop_map(|steps| {
        let (mut batch, mut order) = (0, 0);
        let mut next = |(step, change)| {
            batch += step;
            order += u8::from(change == 0);
            cursor(batch, order)
        };
        steps.into_iter().map(&mut next).collect()
    })
}

fn record(path: &Path, after: u64, cursors: &[Cursor]) {
    let mut trail = Trail::open(path, after).expect("a trail");
    for cursor in cursors {
        trail.record(cursor).expect("recorded");
    }
}

fn last(cursors: &[Cursor], batch: u64) -> Option<Cursor> {
    cursors.iter().rfind(|cursor| cursor.batch() <= batch).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_nearest_is_the_last_that_is_not_later(cursors in cursors(), batch in 0u64..40) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("cursors.jsonl");
        prop_assert_eq!(nearest(&path, batch).expect("no trail"), None);
        record(&path, 0, &cursors);
        prop_assert_eq!(nearest(&path, batch).expect("a trail"), last(&cursors, batch));
    }

    #[test]
    fn a_torn_line_counts_for_nothing(cursors in cursors(), cut in any::<prop::sample::Index>()) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("cursors.jsonl");
        record(&path, 0, &cursors);
        let bytes = std::fs::read(&path).unwrap_or_default();
        let cut = cut.index(bytes.len() + 1);
        std::fs::write(&path, &bytes[..cut]).expect("written");
        let whole = bytes[..cut].split_inclusive(|&byte| byte == b'\n');
        let whole = whole.filter(|line| line.ends_with(b"\n") && line.windows(8).any(|w| w == b"\"batch\":"));
        let left = &cursors[..whole.count()];
        prop_assert_eq!(nearest(&path, u64::MAX).expect("a trail"), left.last().cloned());
        prop_assert_eq!(all(&path).expect("a trail"), left);
        // Going on writes behind the last whole line.
        let next = cursor(1000, 9);
        record(&path, 999, std::slice::from_ref(&next));
        prop_assert_eq!(nearest(&path, 999).expect("a trail"), left.last().cloned());
        prop_assert_eq!(nearest(&path, 1000).expect("a trail"), Some(next));
    }

    #[test]
    fn what_lies_after_the_resumed_batch_is_dropped(
        first in cursors(), second in cursors(), after in 0u64..20, batch in 0u64..60,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("cursors.jsonl");
        record(&path, 0, &first);
        let moved: Vec<Cursor> = second.iter().map(|next| cursor(after + next.batch(), 77)).collect();
        record(&path, after, &moved);
        let kept = first.iter().filter(|cursor| cursor.batch() <= after);
        let all: Vec<Cursor> = kept.chain(&moved).cloned().collect();
        prop_assert_eq!(nearest(&path, batch).expect("a trail"), last(&all, batch));
    }
}

#[test]
fn the_fingerprint_is_written_once_and_damage_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cursors.jsonl");
    record(&path, 0, &[cursor(1, 0), cursor(2, 0)]);
    record(&path, 2, &[cursor(3, 0)]);
    let text = std::fs::read_to_string(&path).expect("a trail");
    assert_eq!(text.matches("fingerprint").count(), 1, "{text}");
    assert_eq!(text.lines().count(), 4);
    std::fs::write(&path, text.replacen("\"batch\":2", "\"batch\":", 1)).expect("written");
    let said = nearest(&path, 3).expect_err("damaged").to_string();
    assert!(said.contains("line 3 of this trail is not a cursor"), "{said}");
    assert!(Trail::open(&path, 3).is_err());
}
