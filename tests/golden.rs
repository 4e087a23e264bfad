//! The order for a seed and the form of a cursor: public behaviour, pinned.
//!
//! Whoever has to change a value here breaks every cursor that was ever saved: count up `ORDER` or the
//! cursor's version, and say so in the changelog.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{Config, SourceConfig};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Loader};

fn config(directory: &std::path::Path) -> Config {
    for file in 0..5 {
        let lines: String = (0..60).map(|line| format!("file {file}, line {line}\n")).collect();
        std::fs::write(directory.join(format!("{file}.txt")), lines).expect("a file");
    }
    let paths = vec![format!("{}/*.txt", directory.display())];
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..Config::default() };
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    config.pipeline.lanes = NonZeroUsize::new(2).expect("two");
    config.pipeline.window = NonZeroUsize::new(40).expect("forty");
    config.pipeline.seq_len = 32;
    config.pipeline.epochs = Some(2);
    config
}

async fn batches(config: &Config) -> Vec<Batch> {
    let loader = Loader::builder(config).tokenizer(Arc::new(ByteTokenizer)).open().await.expect("it opens");
    loader.try_collect().await.expect("no errors")
}

#[tokio::test]
async fn the_order_for_a_seed_is_the_same_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let batches = batches(&config(directory.path())).await;
    let digests = batches.iter().map(|batch| batch.digest().to_hex()[..16].to_owned());
    assert_eq!(digests.collect::<Vec<_>>(), GOLDEN);
}

#[tokio::test]
async fn the_form_of_a_cursor_is_the_same_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let batches = batches(&config(directory.path())).await;
    let mut form = serde_json::to_value(batches[7].cursor()).expect("it serializes");
    // The directory, and so the digest of the paths, is another each time.
    form["fingerprint"]["files"] = "5 files".into();
    assert_eq!(form, serde_json::from_str::<serde_json::Value>(CURSOR).expect("JSON"));
}

#[test]
fn a_cursor_that_is_none_is_refused() {
    let refused = |from: &str, to: &str| {
        assert!(CURSOR.contains(from));
        serde_json::from_str::<Cursor>(&CURSOR.replace(from, to)).expect_err("no cursor").to_string()
    };
    assert_eq!(
        refused("\"version\": 1", "\"version\": 2"),
        "it is of format 2, and this version reads format 1"
    );
    assert_eq!(refused("\"next_lane\": 0", "\"next_lane\": 2"), "lane 2 cannot be next of 2");
    assert!(refused("\"batch\"", "\"bath\"").starts_with("unknown field `bath`"));
}

const GOLDEN: [&str; 19] = [
    "7d6693243094d539",
    "f058be4572581597",
    "39f6e262ca8dd33f",
    "be971508a4d0e5ce",
    "e936a3f2f1cb9cf6",
    "2932279c84a658b9",
    "cf703a4ed72c8912",
    "3dd06301ea090901",
    "bdc8b2c811d06e0a",
    "191563ecc22f2f88",
    "f949b90900bb33a1",
    "5536f246b162f25b",
    "31b7ee5347e6d186",
    "03a35c925b9fec69",
    "a3621d25527e2eee",
    "5b9298cbdcfd3ddc",
    "518340777f65c0ec",
    "3767422a7a6f95ee",
    "ed3255bb3eaf7daa",
];

const CURSOR: &str = r#"{
    "version": 1,
    "batch": 8,
    "next_lane": 0,
    "lanes": [
        {"epoch": 0, "split": 1, "byte": 694, "line": 44, "documents": 104, "skipped": 0, "skips": [25, 8]},
        {"epoch": 0, "split": 1, "byte": 950, "line": 60, "documents": 120, "skipped": 0, "skips": [9, 7]}
    ],
    "fingerprint": {
        "files": "5 files",
        "order": "1",
        "pipeline.ahead": "1",
        "pipeline.holdout": "0",
        "pipeline.lanes": "2",
        "pipeline.max_segments": "none",
        "pipeline.pack": "concat",
        "pipeline.pack_window": "none",
        "pipeline.seq_len": "32",
        "pipeline.shuffle_splits": "true",
        "pipeline.window": "40",
        "seed": "42",
        "side": "train",
        "source.0": "text line, at most 16mib error",
        "tokenizer": "bytes",
        "tokenizer.bos": "none",
        "tokenizer.eos": "<|endoftext|>"
    }
}"#;
