//! `verify` is seen to pass and to fail: over honest loaders, and over stages that are broken on purpose.
//!
//! This program is both sides. Started by `verify` it is a child, and its first argument names the stage in its
//! loader; so it has a `main` of its own.

use std::collections::HashSet;
use std::future::ready;
use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use millstream::config::{ByteCount, Config, Pack, SourceConfig};
use millstream::cursor::{Anchor, Digest};
use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::tokenizer::ByteTokenizer;
use millstream::verify::{self, Law, Plan, Report};
use millstream::{Document, Error, LaneCursor, Loader, Result, Tracked};
use serde_json::Value;

fn n(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("not zero")
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("another digest") {
        forget_the_digest();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    if runtime.expect("a runtime").block_on(verify::serve(loader)).expect("no error") {
        return;
    }
    let tests: [(&str, fn()); 10] = [
        ("an_honest_loader_passes", an_honest_loader_passes),
        ("a_stage_that_ignores_its_skip_breaks_the_law_of_resume", ignored_skip),
        ("an_unordered_stage_breaks_the_law_of_order", unordered_stage),
        ("a_stage_that_hashes_at_random_breaks_the_law_of_order", random_stage),
        ("a_stage_that_depends_on_its_rank_breaks_the_law_of_the_world", rank_stage),
        ("a_cursor_of_another_digest_breaks_the_laws_that_resume", other_digest),
        ("by_a_budget_of_tokens_a_world_need_not_divide_the_rows", world_of_tokens),
        ("a_child_that_fails_or_hangs_is_an_error", failures),
        ("a_world_that_cannot_share_the_rows_is_refused", uneven_world),
        ("an_interrupted_run_ends", interruption),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed", tests.len());
}

/// Lets the child go on from its cursor, but for the digest of one lane that is its own.
fn forget_the_digest() {
    let path = std::env::var_os("MILLSTREAM_VERIFY_ORDERS").expect("a child");
    let mut orders: Value = serde_json::from_slice(&std::fs::read(&path).expect("orders")).expect("JSON");
    if let Some(lanes) = orders["cursor"]["lanes"].as_array_mut() {
        lanes[0]["digest"] = Digest::default().to_string().into();
        std::fs::write(path, orders.to_string()).expect("written");
    }
}

/// The child's loader.
fn loader(config: &Config) -> LoaderBuilder {
    let builder = Loader::builder(config).tokenizer(Arc::new(ByteTokenizer));
    match std::env::args().nth(1).as_deref() {
        Some("distinct") => builder.stage("distinct", |documents, start| distinct(documents, start)),
        Some("ignores its skip") => {
            builder.stage("distinct", |documents, start| distinct(documents, &start.upstream(0)))
        }
        Some("unordered") => builder.stage("unordered", unordered),
        Some("random") => builder.stage("random", random),
        Some("ranked") => {
            let rank = config.pipeline.rank.expect("verify says it") as u64;
            let is_mine = move |document: &Tracked<Document>| document.value.position().line % 5 != rank;
            builder.stage("ranked", move |documents, _| {
                documents.try_filter(move |it| ready(is_mine(it))).boxed()
            })
        }
        Some("fails") => {
            builder.stage("fails", |documents, _| documents.and_then(|it| ready(fail(it))).boxed())
        }
        Some("hangs") => {
            builder.stage("hangs", |documents, _| documents.take(50).chain(stream::pending()).boxed())
        }
        _ => builder,
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
    (pipeline.lanes, pipeline.batch_size, pipeline.window, pipeline.seq_len) =
        (n(4).into(), n(4), n(24).into(), 40);
    pipeline.memory = ByteCount::mib(8);
    config
}

/// A plan whose children have the stage of that name.
fn plan(config: Config, stage: &str) -> Plan {
    let mut plan = Plan::new(config, std::env::current_exe().expect("this program"));
    plan.args = vec![stage.to_owned()];
    plan.batches = NonZeroU64::new(60).expect("not zero");
    plan.points = 4;
    plan.seed = 7;
    plan
}

fn run(stage: &str, change: impl FnOnce(&mut Plan)) -> Result<Report> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut plan = plan(corpus(directory.path()), stage);
    change(&mut plan);
    plan.run(&AtomicBool::new(false))
}

/// The laws that differ, each once.
fn broken(report: &Report) -> Vec<Law> {
    let mut laws: Vec<Law> =
        report.checks.iter().filter(|check| check.difference.is_some()).map(|check| check.law).collect();
    laws.dedup();
    laws
}

fn an_honest_loader_passes() {
    for (stage, epochs, tokens) in [
        ("none", None, None),
        ("distinct", None, None),
        ("none", Some(1), None),
        ("distinct", Some(1), NonZeroUsize::new(160)),
    ] {
        let report = run(stage, |plan| {
            (plan.config.pipeline.epochs, plan.config.pipeline.batch_tokens) = (epochs, tokens);
            plan.config.pipeline.pack = if tokens.is_some() { Pack::Pad } else { Pack::Concat };
            plan.batches = NonZeroU64::new(if epochs.is_some() { 2000 } else { 60 }).expect("not zero");
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

fn ignored_skip() {
    let report = run("ignores its skip", |_| {}).expect("no error");
    // Another world goes on from a cursor too.
    assert_eq!(broken(&report), [Law::Resume, Law::World], "{report}");
    let (check, difference) = report.first_difference().expect("a difference");
    let resumed: u64 = check.how.rsplit([' ', ',']).nth(1).and_then(|n| n.parse().ok()).expect("a number");
    assert!((resumed..60).contains(&difference.batch), "{report}");
    assert!(difference.row.is_some_and(|row| row < 4) && difference.expected != difference.found, "{report}");
    let said = format!("batch {}, row ", difference.batch);
    assert!(report.to_string().contains(&said) && report.to_string().contains(".txt:"), "{report}");
}

fn unordered_stage() {
    let report = run("unordered", |_| {}).expect("no error");
    assert_eq!(broken(&report).first(), Some(&Law::Order), "{report}");
}

fn random_stage() {
    let report = run("random", |_| {}).expect("no error");
    assert_eq!(broken(&report).first(), Some(&Law::Order), "{report}");
    let (_, difference) = report.first_difference().expect("a difference");
    assert!(difference.batch < 3, "{report}");
}

fn rank_stage() {
    let report = run("ranked", |_| {}).expect("no error");
    assert_eq!(broken(&report), [Law::World], "{report}");
    let (check, difference) = report.first_difference().expect("a difference");
    // Rank 1 has the rows 1 and 3.
    assert!(check.how.starts_with("world 2") && difference.row.is_some_and(|row| row % 2 == 1), "{report}");
}

fn other_digest() {
    let report = run("another digest", |_| {}).expect("no error");
    assert_eq!(broken(&report), [Law::Resume, Law::World], "{report}");
    let (check, difference) = report.first_difference().expect("a difference");
    let resumed: u64 = check.how.rsplit([' ', ',']).nth(1).and_then(|n| n.parse().ok()).expect("a number");
    assert_eq!((difference.batch, difference.row), (resumed, None), "{report}");
    let said = format!(
        "the cursor behind batch {resumed} has another digest: it should be {}; it is {}",
        difference.expected[0], difference.found[0]
    );
    assert!(report.to_string().ends_with(&said), "{report}");
    for check in report.checks.iter().filter(|check| check.law == Law::World) {
        assert_eq!(check.difference.is_some(), check.how.contains(", from world"), "{report}");
    }
}

fn world_of_tokens() {
    let report = run("none", |plan| {
        plan.config.pipeline.batch_tokens = NonZeroUsize::new(160);
        plan.config.pipeline.batch_size = n(1);
        plan.worlds = vec![n(1), n(4)];
    });
    let report = report.expect("no error");
    assert_eq!((report.mismatches, &report.worlds[..]), (0, &[1, 4][..]), "{report}");
}

fn failures() {
    let error = run("fails", |plan| plan.config.sources[0].split = Some(ByteCount::mib(64)));
    let error = error.expect_err("it fails");
    assert!(matches!(error, Error::Verify { .. }));
    let said = error.to_string();
    assert!(said.contains("the reference") && said.contains("it comes too late"), "{said}");

    let error = run("hangs", |plan| plan.patience = Duration::from_millis(300)).expect_err("it hangs");
    let said = error.to_string();
    assert!(said.contains("no batch came for 300ms") && said.contains("raise --patience"), "{said}");

    let error = run("none", |plan| plan.program = "no/such/program".into()).expect_err("it is not there");
    assert!(error.to_string().contains("no/such/program: cannot run"), "{error}");
}

fn uneven_world() {
    let error =
        run("none", |plan| plan.worlds = vec![n(2), n(3)]).expect_err("three ranks cannot share four lanes");
    assert!(matches!(error, Error::Config { .. }) && error.to_string().contains("3 ranks"), "{error}");
    let both = run("none", |plan| {
        plan.config.pipeline.batch_tokens = NonZeroUsize::new(160);
        plan.worlds = vec![n(3)];
    });
    let error = both.expect_err("nor with a budget of tokens").to_string();
    assert!(error.contains("3 ranks cannot share 4 lanes evenly"), "{error}");
}

fn interruption() {
    let directory = tempfile::tempdir().expect("a directory");
    let stop = Arc::new(AtomicBool::new(false));
    let mut plan = plan(corpus(directory.path()), "none");
    plan.batches = NonZeroU64::MAX;
    let running = std::thread::spawn({
        let stop = stop.clone();
        move || plan.run(&stop)
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!running.is_finished(), "an endless run goes on");
    stop.store(true, Ordering::Relaxed);
    let error = running.join().expect("no panic").expect_err("it was interrupted");
    assert!(error.to_string().contains("interrupted"), "{error}");
}
