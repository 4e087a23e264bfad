//! Small cases that say what is meant.

use futures::StreamExt;
use millstream::config::{DocumentKind, SourceConfig};
use millstream::source::{Documents, Lane};
use millstream::{Budget, LaneCursor, Source};

use crate::corpus::{Corpus, all, bound, open, run, texts};
use crate::support::wait::ends;

fn is_send_and_unpin<T: Send + Unpin>() {}

#[test]
fn a_stream_can_go_anywhere() {
    is_send_and_unpin::<Documents>();
}

#[test]
fn files_come_in_the_byte_order_of_their_paths() {
    let names = ["a/z", "a.txt", "B", "é", "a/1", "a-b"];
    let corpus = Corpus::new(names.map(|name| (name, name)));
    run(async {
        // Two patterns match most files, and each is read once.
        let paths = vec![corpus.path("[a-zé]*"), corpus.path("**/*")];
        let source = open(&SourceConfig { paths, ..corpus.lines() }).await;
        let seen = all(source.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["B", "a-b", "a.txt", "a/1", "a/z", "é"]);
        let summary = source.summary();
        assert_eq!((summary.files, summary.bytes), (6, 17));
        assert!(summary.to_string().starts_with("6 files, 17 bytes, BLAKE3 "));
        let fewer = SourceConfig { paths: vec![corpus.path("a/*")], ..corpus.lines() };
        assert_ne!(open(&fewer).await.summary(), summary);
    });
}

#[test]
fn each_fixed_part_of_the_paths_may_move_without_the_others() {
    let corpus = |names: [&'static str; 4]| Corpus::new(names.map(|name| (name, "text")));
    let was = corpus(["data/d/0", "data/d/x/2", "home/c/0", "home/c/1"]);
    let moved = corpus(["data/d/0", "data/d/x/2", "mnt/0", "mnt/1"]);
    let renamed = corpus(["data/d/0", "data/d/x/2", "mnt/0", "mnt/3"]);
    run(async {
        let summary = async |corpus: &Corpus, names: &[&str]| {
            let paths = names.iter().map(|name| corpus.path(name)).collect();
            open(&SourceConfig { paths, ..corpus.lines() }).await.summary()
        };
        let before = summary(&was, &["home/c/*", "data/**/*"]).await;
        assert_eq!(summary(&moved, &["mnt/*", "data/**/*"]).await, before);
        assert_eq!(summary(&moved, &["data/**/*", "mnt/?"]).await, before);
        assert_ne!(summary(&renamed, &["mnt/*", "data/**/*"]).await, before);
        // One path has one fixed part, and what two paths find lies below the outer one.
        let whole = summary(&was, &["**/*"]).await;
        assert_ne!(summary(&moved, &["**/*"]).await, whole);
        assert_eq!(summary(&was, &["data/d/0", "home/c/*", "**/*"]).await, whole);
        assert_eq!(summary(&was, &["{home/c,data/**}/*"]).await, whole);
    });
}

#[test]
fn many_files_are_found_side_by_side_and_come_in_order() {
    let names: Vec<String> = (0..1300).map(|file| format!("{}/{file:04}", file % 7)).collect();
    let corpus = Corpus::new(names.iter().map(|name| (name, name)));
    let (mut sorted, config) = (names.clone(), corpus.lines());
    sorted.sort();
    // One thread may be all that there is for blocking work.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let opened = ends(open(&config)).await;
        let seen = all(opened.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), sorted);
    });
}

#[test]
fn each_source_reads_its_files_in_its_own_way() {
    let corpus = Corpus::new([("a.jsonl", "{\"text\": \"1\\n2\"}\n"), ("b.txt", "3\n4\n\n5\n")]);
    let sources = [
        SourceConfig {
            paths: vec![corpus.path("b.txt")],
            document: DocumentKind::Paragraph,
            ..corpus.lines()
        },
        SourceConfig { paths: vec![corpus.path("a.jsonl")], ..corpus.jsonl() },
        SourceConfig { paths: vec![corpus.path("b.txt")], document: DocumentKind::File, ..corpus.lines() },
    ];
    run(async {
        let source = Source::open(&sources).await.expect("opened");
        let seen = all(source.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["3\n4", "5", "1\n2", "3\n4\n\n5\n"]);
    });
}

#[test]
fn variables_come_before_the_tilde() {
    let home = std::env::var("HOME").expect("a home");
    let corpus = Corpus::new([("a", "text")]);
    let up = "../".repeat(home.split('/').count());
    let path = format!("${{MILLSTREAM_UNSET:-~/}}{up}{}", corpus.path("*"));
    run(async {
        let source = open(&SourceConfig { paths: vec![path], ..corpus.lines() }).await;
        assert_eq!(texts(&all(source.documents(&LaneCursor::default())).await), ["text"]);
    });
}

#[test]
fn the_cursor_after_the_last_document_leads_to_the_next_epoch() {
    let corpus = Corpus::new([("a", "1\n2\n\n"), ("b", "\n")]);
    run(async {
        let source = open(&SourceConfig { split: Some(bound(1000)), ..corpus.lines() }).await;
        let lane = Lane { epochs: None, ..Lane::default() };
        let two: Vec<_> = source.lane(lane, &LaneCursor::default()).take(2).collect().await;
        let cursor = two[1].as_ref().expect("a document").cursor;
        assert_eq!((cursor.epoch, cursor.split, cursor.byte, cursor.documents), (0, 0, 2, 2));
        let next = source.lane(lane, &cursor).next().await.expect("more").expect("a document");
        assert_eq!((next.value.text(), next.cursor.epoch, next.cursor.documents), ("1", 1, 3));
    });
}

#[test]
fn the_cursor_after_a_file_names_it() {
    let corpus = Corpus::new([("a", "1\n2\n"), ("b", "3")]);
    run(async {
        let source = open(&SourceConfig { document: DocumentKind::File, ..corpus.lines() }).await;
        let seen = all(source.documents(&LaneCursor::default())).await;
        let places = seen.iter().map(|seen| (seen.cursor.split, seen.cursor.byte));
        assert_eq!(places.collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        assert_eq!((seen[0].text.as_str(), seen[0].position.line), ("1\n2\n", 1));
    });
}

#[test]
fn a_lane_without_splits_ends_at_once() {
    let corpus = Corpus::new([("a", "1\n")]);
    run(async {
        let source = open(&corpus.lines()).await;
        let lanes = 2;
        let lane = Lane { lane: 1, lanes, epochs: None, ..Lane::default() };
        assert!(all(source.lane(lane, &LaneCursor::default())).await.is_empty());
    });
}

#[test]
fn epochs_differ_and_lanes_share_them() {
    let names: Vec<_> = (0..20).map(|n| format!("{n:02}")).collect();
    let corpus = Corpus::new(names.iter().map(|name| (name, name)));
    run(async {
        let source = open(&corpus.lines()).await;
        let lanes = 3;
        let mut epochs = [Vec::new(), Vec::new()];
        for lane in 0..3 {
            let lane =
                Lane { lane, lanes, seed: 7, shuffle_splits: true, epochs: Some(2), ..Lane::default() };
            for seen in all(source.lane(lane, &LaneCursor::default())).await {
                epochs[seen.cursor.epoch as usize].push(seen.text);
            }
        }
        assert_ne!(epochs[0], epochs[1]);
        epochs.iter_mut().for_each(|epoch| epoch.sort_unstable());
        assert_eq!(epochs, [names.clone(), names]);
    });
}

/// More documents than one group notes, and more files than one read opens.
#[test]
fn many_short_documents_in_one_read() {
    let lines: Vec<_> = (0..20_000).map(|n| n.to_string()).collect();
    let corpus = Corpus::new([("a", lines.join("\n"))]);
    run(async {
        let source = open(&corpus.lines()).await;
        let seen = all(source.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), lines);
        for index in [8190, 8191, 8192, 16_383, 16_384, 19_999] {
            assert_eq!(all(source.documents(&seen[index].cursor)).await, seen[index + 1..]);
        }
    });
    let corpus = Corpus::new((0..1200).map(|n| (format!("{n:04}"), if n % 3 == 0 { "" } else { "x" })));
    run(async {
        let source = open(&corpus.lines()).await;
        let seen = all(source.documents(&LaneCursor::default())).await;
        assert_eq!(seen.len(), 800);
        for index in [340, 341, 342, 682, 683, 799] {
            assert_eq!(all(source.documents(&seen[index].cursor)).await, seen[index + 1..]);
        }
    });
}

#[test]
fn a_dropped_stream_gives_all_memory_back() {
    let corpus = Corpus::new([("a", "some words in a line\n".repeat(50_000))]);
    run(async {
        let budget = Budget::new(64 << 20);
        let source = open(&corpus.lines()).await.with_budget(budget.clone());
        let mut documents = source.documents(&LaneCursor::default());
        let first = documents.next().await.expect("more").expect("a document");
        assert!(budget.used() > 0);
        drop(documents);
        drop(first);
        while budget.used() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn what_a_read_did_not_need_is_given_back() {
    let corpus = Corpus::new([("a", "short\n".repeat(100))]);
    run(async {
        let budget = Budget::new(64 << 20);
        let source = open(&corpus.lines()).await.with_budget(budget.clone());
        let held: Vec<_> = source.documents(&LaneCursor::default()).collect().await;
        assert_eq!(held.len(), 100);
        assert!((5 * 500..5 * 700).contains(&budget.used()), "{}", budget.used());
        drop(held);
        assert_eq!(budget.used(), 0);
    });
}

/// A budget smaller than one slab's due: each slab goes alone, after the one before has been given back.
#[test]
fn a_small_budget_is_slow_and_not_stuck() {
    let corpus = Corpus::new([("a", "some words in a line\n".repeat(50_000))]);
    run(async {
        let budget = Budget::new(1000);
        let source = open(&corpus.lines()).await.with_budget(budget.clone());
        let seen = all(source.documents(&LaneCursor::default())).await;
        assert_eq!(seen.len(), 50_000);
        assert!(budget.peak() <= 5 * (16 << 10), "{}", budget.peak());
    });
}

#[test]
fn a_long_file_is_shared_by_all_lanes() {
    let lines: Vec<_> = (0..5000).map(|n| format!("line {n}")).collect();
    let corpus = Corpus::new([("a", lines.join("\n"))]);
    run(async {
        let source = open(&SourceConfig { split: Some(bound(1000)), ..corpus.lines() }).await;
        assert_eq!(source.splits(), 49);
        let lanes = 4;
        let mut together = Vec::new();
        for lane in 0..4 {
            let lane = Lane { lane, lanes, seed: 3, shuffle_splits: true, ..Lane::default() };
            let seen = all(source.lane(lane, &LaneCursor::default())).await;
            assert!((1100..1400).contains(&seen.len()), "{}", seen.len());
            together.extend(seen);
        }
        assert!(!together.is_sorted_by_key(|seen| seen.position.byte));
        together.sort_by_key(|seen| seen.position.byte);
        assert_eq!(texts(&together), lines);
        assert!(
            (1..).zip(&together).all(|(n, seen)| source.files().line(seen.position).expect("counted") == n)
        );
        // Whole files are never cut.
        let file = SourceConfig { document: DocumentKind::File, split: Some(bound(1000)), ..corpus.lines() };
        assert_eq!(open(&file).await.splits(), 1);
    });
}

#[test]
fn one_source_of_several_keeps_the_numbers_of_its_files() {
    let corpus = Corpus::new([("a/1", "1\n2\n"), ("a/2", "3\n"), ("b/1", "4\n5\n6\n"), ("c/1", "7\n")]);
    let source =
        |name: &str| SourceConfig { paths: vec![corpus.path(name)], split: Some(bound(4)), ..corpus.lines() };
    run(async {
        let sources = [source("a/*"), source("b/*"), source("c/*")];
        let whole = Source::open(&sources).await.expect("opened");
        let place = |seen: &crate::corpus::Seen| (seen.text.clone(), seen.position);
        let mut parts = Vec::new();
        for (index, files, bytes, splits) in [(0, 2, 6, 2), (1, 1, 6, 2), (2, 1, 2, 1)] {
            let only = whole.only(index);
            assert_eq!((only.summary().files, only.summary().bytes, only.splits()), (files, bytes, splits));
            assert!(std::sync::Arc::ptr_eq(only.files(), whole.files()));
            parts.extend(all(only.documents(&LaneCursor::default())).await.iter().map(place));
        }
        let seen = all(whole.documents(&LaneCursor::default())).await;
        assert_eq!(parts, seen.iter().map(place).collect::<Vec<_>>());
        assert_eq!(parts.len(), 7);
        assert_ne!(whole.only(0).summary().digest, whole.summary().digest);
        // A later source changes nothing of those before it.
        let fewer = Source::open(&sources[..2]).await.expect("opened");
        assert_eq!(fewer.only(1).summary(), whole.only(1).summary());
    });
}

#[test]
fn numbers_that_only_python_writes_are_passed_over() {
    let lines = concat!(
        r#"{"loss": NaN, "text": "one NaN", "more": [{"x": -Infinity}, Infinity]}"#,
        "\n",
        r#"{"\"": "\\", "x": Infinity, "a": {"y": NaN}, "text": "\"NaN\""}"#,
        "\n"
    );
    let corpus = Corpus::new([("a", lines)]);
    run(async {
        let source = open(&corpus.jsonl()).await;
        let seen = all(source.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["one NaN", "\"NaN\""]);
    });
}
