//! Tests that need a custom tokenizer.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use futures::StreamExt;

use super::*;
use crate::config::{ByteCount, OnError, ShuffleRule, SourceKind};
use crate::loader::Loader;
use crate::tokenizer::tests;

/// How long a test waits for what must come: far longer than it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// For how long a test gives what must not come the chance to come.
const A_WHILE: Duration = Duration::from_millis(300);

/// Sources of one file each, in a directory, and the config that reads them.
struct Case {
    directory: tempfile::TempDir,
    config: Config,
}

impl Case {
    fn new(texts: &[String], on_error: OnError) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let source = |(number, text): (usize, &String)| {
            let path = directory.path().join(format!("{number}.txt"));
            std::fs::write(&path, text).expect("a file");
            let (paths, split) = (vec![path.display().to_string()], Some(ByteCount(64 << 20)));
            SourceConfig { paths, on_error, split, ..SourceConfig::default() }
        };
        let sources = texts.iter().enumerate().map(source).collect();
        let config = Config { sources, ..Config::default() };
        Self { directory, config }
    }

    fn prepare(
        &self,
        workers: usize,
        before: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Prepared> {
        let mut config = self.config.clone();
        config.pipeline.workers = workers.into();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let source = Source::open(&config.sources).await?;
            let directories = directory::take(
                &config,
                &self.directory.path().join("shards"),
                World::ALONE,
                source.all_stores(),
            )?;
            let tokenizer = tests::before("bytes", move |text| Ok(before(text)?));
            let opened = OpenedWork { source, tokenizer, directories, world: World::ALONE };
            tokenized(&config, opened, Box::new(|_| {}), pending()).await
        })
    }
}

fn lines(n: usize) -> String {
    (0..n).map(|n| format!("{n:>1023}\n")).collect()
}

#[test]
fn one_split_is_tokenized_by_all_workers() {
    let case = Case::new(&[lines(2000)], OnError::Fail);
    let (threads, met) = (Mutex::new(HashSet::new()), Condvar::new());
    let prepared = case.prepare(4, move |_| {
        let mut threads = threads.lock().expect("no panic");
        threads.insert(thread::current().id());
        met.notify_all();
        let (threads, _) =
            met.wait_timeout_while(threads, PATIENCE, |threads| threads.len() < 4).expect("no panic");
        if threads.len() < 4 { Err("the others do not come".to_owned()) } else { Ok(()) }
    });
    assert_eq!(prepared.expect("prepared").documents, 2000);
}

#[test]
fn what_is_held_behind_a_slow_document_is_bounded() {
    let case = Case::new(&[lines(8000)], OnError::Fail);
    // How many documents were seen, and how many of them before the slow one was done.
    let seen = Arc::new((Mutex::new((0, 0)), Condvar::new()));
    let counted = seen.clone();
    case.prepare(2, move |text| {
        let (seen, more) = &*counted;
        if text.trim_start() == "0" {
            let few = seen.lock().expect("no panic");
            let enough = more.wait_timeout_while(few, PATIENCE, |seen| seen.0 < 500).expect("no panic");
            drop(enough);
            // If the others were not bounded, they would now go on.
            thread::sleep(A_WHILE);
            let mut seen = seen.lock().expect("no panic");
            seen.1 = seen.0;
        }
        seen.lock().expect("no panic").0 += 1;
        more.notify_all();
        Ok(())
    })
    .expect("prepared");
    let seen = *seen.0.lock().expect("no panic");
    // Four groups per worker, of 129 lines or fewer, except for the lines after the slow one in its own
    // group.
    assert!(seen.0 == 8000 && (500..=8 * 129).contains(&seen.1), "{seen:?}");
}

#[test]
fn the_first_failure_of_a_split_is_told_however_slow_it_is() {
    let case = Case::new(&[lines(2000)], OnError::Fail);
    let (has_failed, failed) = (Mutex::new(false), Condvar::new());
    let failing = move |text: &str| match text.trim_start() {
        "700" => {
            let early = has_failed.lock().expect("no panic");
            let (late, _) =
                failed.wait_timeout_while(early, PATIENCE, |has_failed| !*has_failed).expect("no panic");
            if !*late {
                return Err("the quick one does not come".to_owned());
            }
            drop(late);
            // If the first to fail in time were told, it would be now.
            thread::sleep(A_WHILE);
            Err("slow".to_owned())
        }
        "1500" => {
            *has_failed.lock().expect("no panic") = true;
            failed.notify_all();
            Err("quick".to_owned())
        }
        _ => Ok(()),
    };
    let error = case.prepare(4, failing).expect_err("it fails").to_string();
    assert!(error.contains("0.txt:701 (byte 716800): slow"), "{error}");
}

#[test]
fn segments_that_were_whole_before_a_failure_are_kept() {
    let case = Case::new(&["good\ngood\ngood\n".to_owned(), "good\nbad\n".to_owned()], OnError::Fail);
    let failing = |text: &str| if text == "bad" { Err("bad".to_owned()) } else { Ok(()) };
    case.prepare(1, failing).expect_err("it fails");
    assert_eq!(case.prepare(1, |_| Ok(())).expect("prepared").documents, 2);
}

#[test]
fn each_split_may_lose_as_many_as_its_on_error_says() {
    let text = || "good\nbad\ngood\nbad\n".to_owned();
    let failing = |text: &str| if text == "bad" { Err("bad".to_owned()) } else { Ok(()) };
    let prepared = Case::new(&[text(), text()], OnError::Skip(2)).prepare(2, failing).expect("prepared");
    assert_eq!((prepared.documents, prepared.skipped), (8, 4));
    let error = Case::new(&[text(), text()], OnError::Skip(1)).prepare(2, failing);
    assert!(matches!(error, Err(Error::Document { line: 4, .. })), "{error:?}");
}

#[test]
fn what_the_tokenizer_fails_on_has_its_place_in_the_shards_too() {
    let text: String =
        (0..60).map(|n| format!("line {n}{}\n", if n % 7 == 3 { " bad" } else { "" })).collect();
    let failing = |text: &str| if text.ends_with("bad") { Err("bad".to_owned()) } else { Ok(()) };
    for (split, shuffle) in
        [(64 << 20, ShuffleRule::Window), (200, ShuffleRule::Window), (200, ShuffleRule::Global)]
    {
        let mut case = Case::new(std::slice::from_ref(&text), OnError::Skip(100));
        case.config.sources[0].split = Some(ByteCount(split));
        case.prepare(2, failing).expect("prepared");
        let pipeline = &mut case.config.pipeline;
        (pipeline.lanes, pipeline.window, pipeline.epochs) = (2.into(), 8.into(), Some(2));
        (pipeline.seq_len, pipeline.batch_size) = (16, 2);
        let mut stored = case.config.clone();
        stored.sources = vec![SourceConfig {
            kind: SourceKind::Shards,
            paths: vec![case.directory.path().join("shards").display().to_string()],
            on_error: OnError::Skip(100),
            ..SourceConfig::default()
        }];
        stored.pipeline.shuffle = shuffle;
        if shuffle == ShuffleRule::Global {
            stored.pipeline.window = Config::default().pipeline.window;
        }
        let read = |config: &Config| {
            let tokenizer = tests::before("bytes", move |text| Ok(failing(text)?));
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let mut loader =
                    Loader::builder(config).with_tokenizer(tokenizer).open().await.expect("it opens");
                let mut rows = Vec::new();
                while let Some(batch) = loader.next().await {
                    rows.push(batch.expect("a batch").ids().to_vec());
                }
                (rows, loader.ledger().sources[0].1)
            })
        };
        let [(text, of_text), (shards, of_shards)] = [&case.config, &stored].map(read);
        assert_eq!((of_shards.documents, of_shards.skipped), (2 * 51, 2 * 9), "{shuffle:?}");
        assert_eq!((of_text.documents, of_text.skipped), (2 * 51, 2 * 9));
        if shuffle == ShuffleRule::Window {
            assert_eq!((shards, of_shards), (text, of_text));
        }
    }
}
