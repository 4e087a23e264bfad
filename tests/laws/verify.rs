//! `verify` is seen to pass and to fail: over honest loaders, and over stages that are broken on purpose.
//!
//! This program is both sides: `verify` starts it as its children, each with the names of an ignored test and a loader.

use std::collections::HashSet;
use std::future::ready;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use millstream::config::{ByteCount, Config, PackRule, SourceConfig};
use millstream::cursor::{Anchor, Digest};
use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::verify::{self, Law, Plan, Report};
use millstream::{Document, Error, LaneCursor, Result, Tracked};
use serde_json::Value;

use crate::corpus::{block_on, builder};

/// The child: `verify` starts this program anew with the name of this test, and of a loader behind it. Otherwise it
/// does nothing.
#[test]
#[ignore = "other tests start it as their child"]
fn child() {
    if std::env::var_os("MILLSTREAM_VERIFY_ORDERS").is_none() {
        return;
    }
    let open: fn(&Config) -> LoaderBuilder = match &*std::env::args().next_back().expect("a name") {
        "plain" => builder,
        "distinct" => |config| builder(config).stage("distinct", distinct),
        "ignores_its_skip" => |config| {
            let stage = |documents, start: &LaneCursor| distinct(documents, &start.upstream(0));
            builder(config).stage("distinct", stage)
        },
        "unordered" => |config| builder(config).stage("unordered", unordered),
        "random" => |config| builder(config).stage("random", random),
        "ranked" => |config| {
            let rank = config.pipeline.rank.expect("verify says it") as u64;
            let is_mine = move |document: &Tracked<Document>| document.value.position().line % 5 != rank;
            builder(config).stage("ranked", move |documents, _| {
                documents.try_filter(move |it| ready(is_mine(it))).boxed()
            })
        },
        "another_ledger" => {
            edit_the_cursor(|lane| lane["sources"][0]["ledger"]["learned"] = 0.into());
            builder
        }
        "another_digest" => {
            edit_the_cursor(|lane| lane["digest"] = Digest::default().to_string().into());
            builder
        }
        "fails" => |config| {
            builder(config).stage("fails", |documents, _| documents.and_then(|it| ready(fail(it))).boxed())
        },
        "hangs" => |config| {
            builder(config).stage("hangs", |documents, _| documents.take(50).chain(stream::pending()).boxed())
        },
        name => panic!("there is no loader {name:?}"),
    };
    assert!(block_on(verify::serve(open)).expect("no error"));
}

/// Lets the child go on from its cursor, but for what is edited in one lane that is its own.
fn edit_the_cursor(edit: impl FnOnce(&mut Value)) {
    let Some(path) = std::env::var_os("MILLSTREAM_VERIFY_ORDERS") else { return };
    let mut orders: Value = serde_json::from_slice(&std::fs::read(&path).expect("orders")).expect("JSON");
    if let Some(cursor) = orders["loader"]["states"].get_mut(0) {
        let mut edited: Value = serde_json::from_str(cursor.as_str().expect("a text")).expect("JSON");
        edit(&mut edited["lanes"][0]);
        edited.as_object_mut().expect("an object").remove("checksum");
        *cursor = edited.to_string().into();
        std::fs::write(path, orders.to_string()).expect("written");
    }
}

/// Drops documents that stood before among the same eight.
fn distinct(documents: DocumentStream, start: &LaneCursor) -> DocumentStream {
    let (mut anchor, mut last, mut read, mut seen) = (Anchor::resume(start), *start, 0, HashSet::new());
    let next = move |document: Tracked<Document>| {
        if read == 8 {
            anchor.rebase(&last);
            seen.clear();
            read = 0;
        }
        read += 1;
        last = document.cursor;
        let is_new = seen.insert(document.value.text().to_owned());
        let cursor = if is_new { anchor.deliver(&document.cursor) } else { None };
        ready(Ok(cursor.map(|cursor| Tracked::new(document.value, cursor))))
    };
    documents.try_filter_map(next).boxed()
}

/// Gives documents as soon as a thread has done with them.
fn unordered(documents: DocumentStream, _: &LaneCursor) -> DocumentStream {
    let time = RandomState::new();
    let work = move |document: Result<Tracked<Document>>| {
        let time =
            Duration::from_micros(time.hash_one(document.as_ref().map_or("", |it| it.value.text())) % 300);
        async move {
            let work = tokio::task::spawn_blocking(move || std::thread::sleep(time));
            work.await.expect("it sleeps");
            document
        }
    };
    documents.map(work).buffer_unordered(4).boxed()
}

/// Gives eight documents at a time, in the order of hashes that are others in each process.
fn random(documents: DocumentStream, _: &LaneCursor) -> DocumentStream {
    let hasher = RandomState::new();
    documents
        .try_chunks(8)
        .map_err(|error| error.1)
        .map_ok(move |mut documents| {
            documents.sort_by_key(|document| hasher.hash_one(document.value.text()));
            stream::iter(documents.into_iter().map(Ok))
        })
        .try_flatten()
        .boxed()
}

fn fail(document: Tracked<Document>) -> Result<Tracked<Document>> {
    match document.value.position().line {
        100.. => Err(document.value.error("it comes too late", "read less")),
        _ => Ok(document),
    }
}

/// Four files of lines, a third of which stand there twice or more, and a config that reads them.
fn corpus(directory: &Path) -> Config {
    for file in 0..4 {
        let line = |line: usize| {
            format!("line {} of file {file}\n", if line.is_multiple_of(3) { line / 7 } else { line })
        };
        let text: String = (0..400).map(line).collect();
        std::fs::write(directory.join(format!("{file}.txt")), text).expect("a file");
    }
    let paths = vec![format!("{}/*.txt", directory.display())];
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..Config::default() };
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    let pipeline = &mut config.pipeline;
    (pipeline.lanes, pipeline.batch_size, pipeline.window, pipeline.seq_len) = (4.into(), 4, 24.into(), 40);
    pipeline.memory = ByteCount::mib(8);
    config
}

/// A plan whose children have the loader of that name.
fn plan(config: Config, loader: &str) -> Plan {
    let mut plan = Plan::new(config, std::env::current_exe().expect("this program"));
    plan.args = ["--exact", "--ignored", "--nocapture", "verify::child", loader].map(str::to_owned).to_vec();
    plan.batches = 60;
    plan.points = 4;
    plan.seed = 7;
    plan
}

fn run(loader: &str, change: impl FnOnce(&mut Plan)) -> Result<Report> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut plan = plan(corpus(directory.path()), loader);
    change(&mut plan);
    plan.run(&AtomicBool::new(false))
}

fn config(plan: &mut Plan) -> &mut Config {
    plan.config_mut().expect("a plan of a config")
}

/// The laws that differ, each once.
fn broken(report: &Report) -> Vec<Law> {
    let mut laws: Vec<Law> =
        report.checks.iter().filter(|check| check.difference.is_some()).map(|check| check.law).collect();
    laws.dedup();
    laws
}

#[test]
fn an_honest_loader_passes() {
    for (stage, epochs, tokens) in [
        ("plain", None, None),
        ("distinct", None, None),
        ("plain", Some(1), None),
        ("distinct", Some(1), Some(160)),
    ] {
        let report = run(stage, |plan| {
            let pipeline = &mut config(plan).pipeline;
            (pipeline.epochs, pipeline.batch_tokens) = (epochs, tokens);
            pipeline.pack = if tokens.is_some() { PackRule::Pad } else { PackRule::Concat };
            plan.batches = if epochs.is_some() { 2000 } else { 60 };
        });
        let report = report.expect("no error");
        assert_eq!(report.mismatches, 0, "{stage}: {report}");
        assert!(report.to_string().ends_with("no difference"), "{report}");
        assert_eq!((report.resume_points, report.workers.len(), report.depths.len()), (4, 3, 2), "{report}");
        assert_eq!(report.worlds, [1, 2, 4]);
        match epochs {
            None => assert_eq!((report.batches, report.rows), (60, 240)),
            Some(_) => assert!((61..2000).contains(&report.batches), "to its end: {report}"),
        }
        let (mut from_another_world, mut whole) = (0, 0);
        for check in &report.checks {
            match check.how.split_once(" after ").filter(|_| check.law == Law::World) {
                Some((_, after)) => {
                    let after: u64 = after.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
                    assert_eq!(check.batches, report.batches - after, "{report}");
                    from_another_world += 1;
                }
                None => {
                    assert_eq!((check.batches, check.rows), (report.batches, report.rows), "{report}");
                    whole += 1;
                }
            }
        }
        assert!(whole >= 6 + 1 + 3 && from_another_world == 3, "{report}");
    }
}

#[test]
fn a_stage_that_ignores_its_skip_breaks_the_law_of_resume() {
    let report = run("ignores_its_skip", |_| {}).expect("no error");
    // Another world goes on from a cursor too.
    assert_eq!(broken(&report), [Law::Resume, Law::World], "{report}");
    let (check, difference) = report.first_difference().expect("a difference");
    let resumed: u64 = check.how.rsplit([' ', ',']).nth(1).and_then(|n| n.parse().ok()).expect("a number");
    assert!((resumed..60).contains(&difference.batch), "{report}");
    assert!(difference.row.is_some_and(|row| row < 4) && difference.expected != difference.found, "{report}");
    let said = format!("batch {}, row ", difference.batch);
    assert!(report.to_string().contains(&said) && report.to_string().contains(".txt (byte "), "{report}");
}

#[test]
fn an_unordered_stage_breaks_the_law_of_order() {
    let report = run("unordered", |_| {}).expect("no error");
    assert_eq!(broken(&report).first(), Some(&Law::Order), "{report}");
}

#[test]
fn a_stage_that_hashes_at_random_breaks_the_law_of_order() {
    let report = run("random", |_| {}).expect("no error");
    assert_eq!(broken(&report).first(), Some(&Law::Order), "{report}");
    let (_, difference) = report.first_difference().expect("a difference");
    assert!(difference.batch < 3, "{report}");
}

#[test]
fn a_stage_that_depends_on_its_rank_breaks_the_law_of_the_world() {
    let report = run("ranked", |_| {}).expect("no error");
    assert_eq!(broken(&report), [Law::World], "{report}");
    let (check, difference) = report.first_difference().expect("a difference");
    // Rank 1 has the rows 1 and 3.
    assert!(check.how.starts_with("world 2") && difference.row.is_some_and(|row| row % 2 == 1), "{report}");
}

#[test]
fn a_cursor_of_another_digest_or_ledger_breaks_the_laws_that_resume() {
    for (edit, begins) in [("another_digest", "the digest "), ("another_ledger", "the ledger Ledger {")] {
        let report = run(edit, |_| {}).expect("no error");
        assert_eq!(broken(&report), [Law::Resume, Law::World], "{report}");
        let (check, difference) = report.first_difference().expect("a difference");
        let resumed: u64 =
            check.how.rsplit([' ', ',']).nth(1).and_then(|n| n.parse().ok()).expect("a number");
        assert_eq!((difference.batch, difference.row), (resumed, None), "{report}");
        let (expected, found) = (&difference.expected[0], &difference.found[0]);
        assert!(expected.starts_with(begins) && found.starts_with(begins) && expected != found, "{report}");
        let said =
            format!("the cursor after batch {resumed} differs: it should have {expected}; it has {found}");
        assert!(report.to_string().ends_with(&said), "{report}");
        for check in report.checks.iter().filter(|check| check.law == Law::World) {
            assert_eq!(check.difference.is_some(), check.how.contains(", from world"), "{report}");
        }
    }
}

#[test]
fn by_a_budget_of_tokens_a_world_need_not_divide_the_rows() {
    let report = run("plain", |plan| {
        config(plan).pipeline.batch_tokens = Some(160);
        config(plan).pipeline.batch_size = 1;
        plan.worlds = vec![1, 4];
    });
    let report = report.expect("no error");
    assert_eq!((report.mismatches, &report.worlds[..]), (0, &[1, 4][..]), "{report}");
}

#[test]
fn a_child_that_fails_or_hangs_is_an_error() {
    let error = run("fails", |plan| config(plan).sources[0].split = Some(ByteCount::mib(64)));
    let error = error.expect_err("it fails");
    assert!(matches!(error, Error::Verify { .. }));
    let said = error.to_string();
    assert!(said.contains("the reference") && said.contains("it comes too late"), "{said}");

    let error = run("hangs", |plan| plan.patience = Duration::from_millis(300)).expect_err("it hangs");
    let said = error.to_string();
    assert!(said.contains("no batch came for 300ms") && said.contains("raise the patience"), "{said}");

    let error = run("plain", |plan| plan.program = "no/such/program".into()).expect_err("it is not there");
    assert!(error.to_string().contains("no/such/program: cannot run"), "{error}");
}

#[test]
fn a_world_that_cannot_share_the_rows_is_refused() {
    let error =
        run("plain", |plan| plan.worlds = vec![2, 3]).expect_err("three ranks cannot share four lanes");
    assert!(matches!(error, Error::Config { .. }) && error.to_string().contains("3 ranks"), "{error}");
    let both = run("plain", |plan| {
        config(plan).pipeline.batch_tokens = Some(160);
        plan.worlds = vec![3];
    });
    let error = both.expect_err("nor with a budget of tokens").to_string();
    assert!(error.contains("3 ranks cannot share 4 lanes evenly"), "{error}");
}

#[test]
fn an_interrupted_run_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let stop = Arc::new(AtomicBool::new(false));
    let mut plan = plan(corpus(directory.path()), "plain");
    plan.batches = u64::MAX;
    let running = std::thread::spawn({
        let stop = stop.clone();
        move || plan.run(&stop)
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!running.is_finished(), "an endless run goes on");
    stop.store(true, Ordering::Relaxed);
    let error = running.join().expect("no panic").expect_err("it was interrupted");
    assert_eq!(error.to_string(), "interrupted; comparisons done: 0; no difference so far");
}
