//! Directories as the Hugging Face libraries leave them; `tests/data/make_huggingface.py` made these.

use futures::TryStreamExt;
use millstream::config::{SourceConfig, SourceKind};
use millstream::{LaneCursor, Result, Source};

fn config(directory: &str) -> SourceConfig {
    SourceConfig {
        kind: SourceKind::Huggingface,
        paths: vec![format!("{}/tests/data/huggingface/{directory}", env!("CARGO_MANIFEST_DIR"))],
        field: Some("text".to_owned()),
        ..SourceConfig::default()
    }
}

fn texts(config: &SourceConfig) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let source = Source::open(std::slice::from_ref(config)).await?;
        let documents = source.documents(&LaneCursor::default());
        documents.map_ok(|document| document.value.text().to_owned()).try_collect().await
    })
}

fn part(config: SourceConfig, part: &str) -> SourceConfig {
    SourceConfig { part: Some(part.to_owned()), ..config }
}

fn subset(config: SourceConfig, subset: &str) -> SourceConfig {
    SourceConfig { subset: Some(subset.to_owned()), ..config }
}

/// The rows that the script made.
fn rows(name: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{name} text {i}, “quoted”\nand a second line")).collect()
}

#[test]
fn what_was_saved_to_disk() {
    assert_eq!(texts(&config("saved")).expect("no error"), rows("saved", 25));
    assert_eq!(texts(&config("saved_parts")).expect("no error"), rows("train", 12));
    assert_eq!(texts(&part(config("saved_parts"), "test")).expect("no error"), rows("test", 5));
}

#[test]
fn a_snapshot_of_a_cache_whose_files_are_links() {
    let snapshot = || config("cache/snapshots/0a1b");
    assert_eq!(texts(&snapshot()).expect("no error"), [rows("train a", 6), rows("train b", 6)].concat());
    assert_eq!(texts(&part(snapshot(), "test")).expect("no error"), rows("test", 6));
    assert_eq!(texts(&config("cache")).expect("no error"), texts(&snapshot()).expect("no error"));
}

#[test]
fn a_readme_says_which_files_are_which() {
    let listed = || config("listed");
    let train = [rows("en a", 3), rows("en b", 3)].concat();
    assert_eq!(texts(&listed()).expect("no error"), train);
    assert_eq!(texts(&subset(listed(), "en")).expect("no error"), train);
    assert_eq!(texts(&part(listed(), "validation")).expect("no error"), rows("en held", 2));
    assert_eq!(texts(&subset(listed(), "de")).expect("no error"), rows("de", 4));
}

#[test]
fn names_say_it_where_nothing_else_does() {
    assert_eq!(texts(&config("plain")).expect("no error"), rows("train", 3));
    assert_eq!(texts(&part(config("plain"), "validation")).expect("no error"), rows("dev", 2));
    assert_eq!(texts(&config("tables")).expect("no error"), rows("csv", 4));
    assert_eq!(texts(&part(config("shards"), "train_b")).expect("no error"), rows("train b", 2));
}

#[test]
fn what_is_not_there_is_named_beside_what_is() {
    let refusals = [
        (
            part(config("saved_parts"), "dev"),
            "source.0.part: ",
            "there is no part \"dev\"; it has train, test",
        ),
        (
            part(config("listed"), "test"),
            "source.0.part: ",
            "there is no part \"test\"; it has train, validation",
        ),
        (subset(config("listed"), "fr"), "source.0.subset: ", "there is no subset \"fr\"; it has en, de"),
        (
            part(config("plain"), "test"),
            "source.0.part: ",
            "there is no part \"test\"; it has train, validation",
        ),
        (
            part(config("shards"), "dev"),
            "source.0.part: ",
            "there is no part \"dev\"; it has train_a, train_b",
        ),
        (config("cache/blobs"), "source.0.paths: ", "holds no data files"),
        (config("nowhere"), "source.0.paths: ", "it is not a directory"),
        (config("."), "source.0.paths: ", "its files are of several formats"),
    ];
    for (config, key, problem) in refusals {
        let error = texts(&config).expect_err("a refusal").to_string();
        assert!(error.starts_with(key) && error.contains(problem), "{error}");
    }
}
