//! The order for a seed and the form of a cursor: public behaviour, pinned.
//!
//! Whoever has to change a value here breaks every cursor that was ever saved: count up `ORDER` or the
//! cursor's version, and say so in the changelog.

use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{
    ByteCount, Config, MixtureChange, OrAuto, PackRule, ShuffleRule, SourceConfig, SourceKind, TokenizerKind,
};
use millstream::prepare::prepare;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Loader};
use tokio::runtime::Handle;

fn config(directory: &std::path::Path) -> Config {
    for file in 0..5 {
        let lines: String = (0..60).map(|line| format!("file {file}, line {line}\n")).collect();
        std::fs::write(directory.join(format!("{file}.txt")), lines).expect("a file");
    }
    let paths = vec![format!("{}/*.txt", directory.display())];
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..Config::default() };
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    config.pipeline.lanes = 2.into();
    config.pipeline.window = 40.into();
    config.pipeline.seq_len = 32;
    config.pipeline.epochs = Some(2);
    config
}

async fn batches(config: &Config) -> Vec<Batch> {
    let loader =
        Loader::builder(config).with_tokenizer(Arc::new(ByteTokenizer)).open().await.expect("it opens");
    loader.try_collect().await.expect("no errors")
}

/// Two sources, one of them cut into splits, under other weights from batch 5 on.
fn mixed(directory: &std::path::Path) -> Config {
    let mut config = config(directory);
    let source = |name: &str, paths: &str, weight| SourceConfig {
        name: Some(name.to_owned()),
        paths: vec![format!("{}/{paths}", directory.display())],
        weight: Some(weight),
        split: Some(ByteCount(300)),
        ..SourceConfig::default()
    };
    config.sources = vec![source("some", "[0-2].txt", 3.0), source("others", "[34].txt", 1.0)];
    let weights = [("some".to_owned(), 0.0), ("others".to_owned(), 1.0)].into();
    config.mixture.changes = vec![MixtureChange { batch: 5, weights }];
    config
}

fn best_fit(directory: &std::path::Path) -> Config {
    let mut config = config(directory);
    config.pipeline.pack = PackRule::BestFit;
    config.pipeline.ahead = 2;
    config
}

fn token_budget(directory: &std::path::Path) -> Config {
    let mut config = config(directory);
    (config.pipeline.pack, config.pipeline.seq_len) = (PackRule::Pad, 64);
    config.pipeline.batch_tokens = Some(256);
    config.pipeline.buckets = vec![8, 16, 64];
    config
}

/// All documents of token shards, shuffled together.
fn shuffled_globally(directory: &std::path::Path) -> Config {
    let (mut config, shards) = (config(directory), directory.join("shards"));
    config.sources[0].split = Some(ByteCount(300));
    config.tokenizer.kind = TokenizerKind::Bytes;
    let made = tokio::task::block_in_place(|| Handle::current().block_on(prepare(&config, &shards, |_| {})));
    made.expect("prepared");
    let paths = vec![shards.display().to_string()];
    config.sources = vec![SourceConfig { kind: SourceKind::Shards, paths, ..SourceConfig::default() }];
    (config.pipeline.shuffle, config.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_for_a_seed_is_the_same_for_ever() {
    for (config, golden) in [
        (config as fn(&std::path::Path) -> Config, &PLAIN[..]),
        (mixed, &MIXED),
        (best_fit, &BEST_FIT),
        (token_budget, &TOKEN_BUDGET),
        (shuffled_globally, &SHUFFLED_GLOBALLY),
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
    // So is the checksum.
    let checksum = form.as_object_mut().and_then(|form| form.remove("checksum"));
    assert_eq!(checksum.as_ref().and_then(|checksum| checksum.as_str()).map(str::len), Some(16));
    assert_eq!(form, serde_json::from_str::<serde_json::Value>(CURSOR).expect("JSON"));
}

#[test]
fn the_checksum_of_a_cursor_is_the_same_for_ever() {
    let cursor: Cursor = serde_json::from_str(CURSOR).expect("a cursor");
    assert_eq!(serde_json::to_value(cursor).expect("it serializes")["checksum"], CHECKSUM);
}

#[test]
fn a_cursor_that_is_none_is_refused() {
    let refused = |from: &str, to: &str| {
        assert!(CURSOR.contains(from));
        serde_json::from_str::<Cursor>(&CURSOR.replace(from, to)).expect_err("no cursor").to_string()
    };
    assert_eq!(
        refused("\"version\": 1", "\"version\": 2"),
        "it is of format 2, and this version reads format 1; start the run again, or go on with the version of \
         millstream that saved it"
    );
    assert_eq!(
        refused("[\"some\", \"others\"]", "[\"some\"]"),
        "a lane has the places of 2 sources, and there are 1"
    );
    assert!(refused("\"batch\": 8", "\"bath\": 8").starts_with("unknown field `bath`"));
}

const PLAIN: [&str; 6] = [
    "7f1231db8dba71f3",
    "14ae246909a2d5bb",
    "5a6d63062102cbff",
    "1553bc59157ae97c",
    "95867e29a70aa429",
    "47682b155f636627ee424eb26e130c60",
];

const MIXED: [&str; 6] = [
    "9d14db978bff04f4",
    "0f5b05611a3cef14",
    "5f46cac63724539b",
    "db7e90318246c940",
    "2da9abec31299b17",
    "ce339833b89b1d9fa4a88d4e69110f1f",
];

const BEST_FIT: [&str; 6] = [
    "7629a4dda6366140",
    "92a0806a61579289",
    "029011e538a696db",
    "4062c107c488a697",
    "625fb9d0517232bf",
    "8b051092c652e5113fdf4407180aa921",
];

const SHUFFLED_GLOBALLY: [&str; 6] = [
    "7390a94b9f4c84bf",
    "566ed0a38f9bab70",
    "ff6959024401b3e5",
    "3a214793e41ba49e",
    "df3805453d0a5c02",
    "adb43bbdb317f9ef67b668d352eea7b5",
];

const TOKEN_BUDGET: [&str; 7] = [
    "2a9b941d3c0e2630",
    "56a9b317ba04d0b8",
    "8e077388c9b4d0f4",
    "7eb423f017f696a9",
    "f12ad254ac8c1506",
    "a1d62bd5de187166",
    "c02ad616796ea15bba7a3deeb309c3d4",
];

/// Of the cursor below.
const CHECKSUM: &str = "2143d8da200de314";

/// Without its checksum.
const CURSOR: &str = r#"{
    "version": 1,
    "batch": 8,
    "turn": 128,
    "sources": ["some", "others"],
    "lanes": [
        {"rows": 64, "digest": "eb900b163a62d83d6ac44e909baa5935", "sources": [
            {"rows": 26, "at": {"epoch": 0, "split": 1, "byte": 694, "documents": 32, "skipped": 0, "skips": [137438953493, 3]},
             "ledger": {"documents": 54, "first": 1, "learned": 832}},
            {"rows": 38, "at": {"epoch": 0, "split": 2, "byte": 598, "documents": 43, "skipped": 0, "skips": [171798691873, 9]},
             "ledger": {"documents": 77, "first": 1, "learned": 1216}}
        ]},
        {"rows": 64, "digest": "8f27b86e5a95310a59de89782edab950", "sources": [
            {"rows": 34, "at": {"epoch": 0, "split": 4, "byte": 230, "documents": 64, "skipped": 0, "skips": [77309411332, 11]},
             "ledger": {"documents": 69, "first": 1, "learned": 1088}},
            {"rows": 30, "at": {"epoch": 0, "split": 3, "byte": 120, "documents": 32, "skipped": 0, "skips": [137438953501, 4]},
             "ledger": {"documents": 62, "first": 1, "learned": 960}}
        ]}
    ],
    "history": [
        {"weights": {"batch": 0, "row": 0, "shares": {"others": 1, "some": 3}}},
        {"weights": {"batch": 5, "row": 80, "shares": {"others": 1}}}
    ],
    "fingerprint": {
        "order": "1",
        "pipeline.ahead": "1",
        "pipeline.holdout": "0",
        "pipeline.lanes": "2",
        "pipeline.max_segments": "none",
        "pipeline.pack": "concat",
        "pipeline.pack_window": "none",
        "pipeline.seq_len": "32",
        "pipeline.shuffle": "window",
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
