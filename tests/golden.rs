//! The order for a seed and the form of a cursor: public behaviour, pinned.
//!
//! Whoever has to change a value here breaks every cursor that was ever saved: count up `ORDER` or the
//! cursor's version, and say so in the changelog.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{ByteCount, Config, MixtureChange, Pack, SourceConfig};
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

/// Two sources, one of them cut into splits, under other weights from batch 5 on.
fn mixed(directory: &std::path::Path) -> Config {
    let mut config = config(directory);
    let source = |name: &str, paths: &str, weight| SourceConfig {
        name: Some(name.to_owned()),
        paths: vec![format!("{}/{paths}", directory.display())],
        weight: Some(weight),
        split: ByteCount(300),
        ..SourceConfig::default()
    };
    config.sources = vec![source("some", "[0-2].txt", 3.0), source("others", "[34].txt", 1.0)];
    let weights = [("some".to_owned(), 0.0), ("others".to_owned(), 1.0)].into();
    config.mixture.changes = vec![MixtureChange { batch: 5, weights }];
    config
}

fn best_fit(directory: &std::path::Path) -> Config {
    let mut config = config(directory);
    config.pipeline.pack = Pack::BestFit;
    config.pipeline.ahead = NonZeroUsize::new(2).expect("two");
    config
}

fn token_budget(directory: &std::path::Path) -> Config {
    let mut config = config(directory);
    (config.pipeline.pack, config.pipeline.seq_len) = (Pack::Pad, 64);
    config.pipeline.batch_tokens = NonZeroUsize::new(256);
    config.pipeline.buckets = vec![8, 16, 64];
    config
}

#[tokio::test]
async fn the_order_for_a_seed_is_the_same_for_ever() {
    for (config, golden) in [
        (config as fn(&std::path::Path) -> Config, &PLAIN[..]),
        (mixed, &MIXED),
        (best_fit, &BEST_FIT),
        (token_budget, &TOKEN_BUDGET),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let batches = batches(&config(directory.path())).await;
        let digests = batches.iter().map(|batch| batch.digest().to_hex()[..16].to_owned());
        let mut digests: Vec<_> = digests.step_by(batches.len().div_ceil(6)).collect();
        digests.extend(batches.last().map(|last| last.cursor().digest().to_string()));
        assert_eq!(digests, golden);
    }
}

#[tokio::test]
async fn the_form_of_a_cursor_is_the_same_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let batches = batches(&mixed(directory.path())).await;
    let mut form = serde_json::to_value(batches[7].cursor()).expect("it serializes");
    // The directory, and so the digest of the paths, is another each time.
    for source in ["some", "others"] {
        form["fingerprint"][format!("source.{source}.files")] = "files".into();
    }
    assert_eq!(form, serde_json::from_str::<serde_json::Value>(CURSOR).expect("JSON"));
}

#[test]
fn a_cursor_that_is_none_is_refused() {
    let refused = |from: &str, to: &str| {
        assert!(CURSOR.contains(from));
        serde_json::from_str::<Cursor>(&CURSOR.replace(from, to)).expect_err("no cursor").to_string()
    };
    assert_eq!(
        refused("\"version\": 2", "\"version\": 1"),
        "it is of format 1, and this version reads format 2"
    );
    assert_eq!(
        refused("[\"some\", \"others\"]", "[\"some\"]"),
        "a lane has the places of 2 sources, and there are 1"
    );
    assert!(refused("\"batch\": 8", "\"bath\": 8").starts_with("unknown field `bath`"));
}

const PLAIN: [&str; 7] = [
    "7d6693243094d539",
    "e936a3f2f1cb9cf6",
    "bdc8b2c811d06e0a",
    "31b7ee5347e6d186",
    "e9a16662715c49ce",
    "993e8fe373c5da74",
    "958ca56ec66bf83e4ff7186ad2a00930",
];

const MIXED: [&str; 6] = [
    "a034a537c1d2488f",
    "7da4c78125c4db7d",
    "f218897cfee5804b",
    "bf619209c0ce1476",
    "ee36e05eeb890fd1",
    "61c584e55548afcfd66a7def1d0a5dc6",
];

const BEST_FIT: [&str; 7] = [
    "a73871d5ab0faa3f",
    "6a0c1cb90d11f5e7",
    "82c8cee4000af288",
    "d783f2a807b79d68",
    "a277e9f5875090ce",
    "2ce33ec0345f4330",
    "20dfd20c493537562d8075152bccdc46",
];

const TOKEN_BUDGET: [&str; 7] = [
    "d2c1592ed9277333",
    "6d50da92f457905c",
    "a061efd2c6951618",
    "ef1cfed17b12f0a9",
    "9c254a1a56800301",
    "0c2f7333db867f8f",
    "272f792c30d4f6220433b6154d31a870",
];

const CURSOR: &str = r#"{
    "version": 2,
    "batch": 8,
    "turn": 128,
    "sources": ["some", "others"],
    "lanes": [
        {"rows": 64, "digest": "c5c8894b883d7fe9169b7aa5e71893a2", "sources": [
            {"rows": 26, "at": {"epoch": 0, "split": 1, "byte": 806, "line": 13, "documents": 32, "skipped": 0, "skips": [20, 15]}},
            {"rows": 38, "at": {"epoch": 0, "split": 3, "byte": 902, "line": 19, "documents": 43, "skipped": 0, "skips": [33, 9]}}
        ]},
        {"rows": 64, "digest": "0ad09a201ec1466eda8d0f1202b22008", "sources": [
            {"rows": 34, "at": {"epoch": 0, "split": 5, "byte": 326, "line": 2, "documents": 64, "skipped": 0, "skips": [4, 11]}},
            {"rows": 30, "at": {"epoch": 0, "split": 1, "byte": 502, "line": 13, "documents": 32, "skipped": 0, "skips": [29, 1]}}
        ]}
    ],
    "history": [
        {"weights": {"batch": 0, "row": 0, "shares": {"others": 1, "some": 3}}},
        {"weights": {"batch": 5, "row": 80, "shares": {"others": 1}}}
    ],
    "fingerprint": {
        "order": "2",
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
        "source.others.documents": "text line, at most 16mib error",
        "source.others.files": "files",
        "source.others.split": "300B",
        "source.some.documents": "text line, at most 16mib error",
        "source.some.files": "files",
        "source.some.split": "300B",
        "tokenizer": "bytes",
        "tokenizer.bos": "none",
        "tokenizer.eos": "<|endoftext|>"
    }
}"#;
