//! Texts in memory in place of files: order, resume, world and once hold for them too.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use millstream::config::{
    ByteCount, Config, DocumentKind, PackRule, SourceConfig, SourceKind, TokenizerConfig, Uneven,
};
use millstream::loader::LoaderBuilder;
use millstream::prepare::prepare;
use millstream::{Batch, Error, Loader};

use crate::corpus::{self, all_of, resumes_of, worlds_agree};

fn config(lanes: usize) -> Config {
    let mut config = Config::default();
    let pipeline = &mut config.pipeline;
    (pipeline.seq_len, pipeline.batch_size, pipeline.epochs) = (24, 4, Some(3));
    (pipeline.lanes, pipeline.window) = (lanes.into(), 5.into());
    config
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("text {number} is {}", "long ".repeat(number % 7))).collect()
}

fn builder(config: &Config, texts: &[String]) -> LoaderBuilder {
    corpus::builder(&config.clone().with_source(SourceConfig::texts(texts).with_name("texts")))
}

/// The whole rows of each epoch, as text: with one text a row.
async fn rows(config: &Config, texts: &[String]) -> Vec<String> {
    let mut config = config.clone();
    (config.pipeline.pack, config.pipeline.seq_len) = (PackRule::Pad, 64);
    let batches = all_of(builder(&config, texts)).await.expect("no error");
    let mut rows = Vec::new();
    for batch in &batches {
        for (row, len) in batch.lengths().iter().enumerate().filter(|(_, len)| **len > 0) {
            let bytes = batch.row(row)[..*len as usize].iter().map(|id| *id as u8).collect();
            rows.push(String::from_utf8(bytes).expect("text"));
        }
    }
    rows
}

#[tokio::test]
async fn every_cursor_resumes_exactly() {
    for (lanes, count, shuffle_splits) in [(1, 9, true), (4, 30, true), (4, 30, false), (2, 50, true)] {
        let mut config = config(lanes);
        config.pipeline.shuffle_splits = shuffle_splits;
        let texts = texts(count);
        let builder = || builder(&config, &texts);
        assert!(all_of(builder()).await.expect("no error").len() > 5);
        assert_eq!(resumes_of(builder, usize::MAX).await, Ok(()));
    }
}

#[tokio::test]
async fn each_text_comes_once_an_epoch_in_another_order_each_time() {
    for shuffle_splits in [true, false] {
        let mut config = config(1);
        (config.pipeline.shuffle_splits, config.pipeline.window) = (shuffle_splits, 1.into());
        let mut texts = texts(40);
        texts.insert(7, " \n ".to_owned());
        let rows = rows(&config, &texts).await;
        texts.remove(7);
        let epochs: Vec<&[String]> = rows.chunks(40).collect();
        assert_eq!(epochs.len(), 3);
        for epoch in &epochs {
            let mut sorted = epoch.to_vec();
            sorted.sort();
            let mut expected = texts.clone();
            expected.sort();
            assert_eq!(sorted, expected);
            assert_eq!(*epoch == texts, !shuffle_splits);
        }
        assert_eq!(epochs[0] == epochs[1], !shuffle_splits);
        assert_eq!(epochs[1] == epochs[2], !shuffle_splits);
    }
}

#[tokio::test]
async fn workers_and_depth_do_not_matter_and_the_seed_does() {
    let texts = texts(60);
    let ids = async |workers: usize, depth: usize, seed: u64| {
        let mut config = config(4);
        (config.pipeline.workers, config.pipeline.depth) = (workers.into(), depth.into());
        config.seed = seed;
        let batches = all_of(builder(&config, &texts)).await.expect("no error");
        batches.iter().flat_map(|batch| batch.ids().to_vec()).collect::<Vec<u32>>()
    };
    let once = ids(1, 1, 7).await;
    assert_eq!(once, ids(4, 8, 7).await);
    assert_ne!(once, ids(1, 1, 8).await);
}

#[tokio::test]
async fn each_rank_has_its_rows_of_every_batch() {
    let (config, texts) = (config(4), texts(60));
    let builder = |config: &Config| builder(config, &texts);
    let one = all_of(builder(&config)).await.expect("no error");
    for worlds in [[2, 4], [4, 2]] {
        worlds_agree(&config, builder, &one, &worlds, 5).await.expect("ranks have the rows of one process");
    }
}

#[tokio::test]
async fn lanes_that_are_left_to_the_loader_are_as_many_as_the_texts_fill() {
    let lanes = async |texts: &[String], resumed: bool| {
        let mut config = config(1);
        config.pipeline.lanes = Config::default().pipeline.lanes;
        let loader = builder(&config, texts).open().await.expect("it opens");
        let cursor = loader.start().clone();
        if resumed {
            let loader = builder(&config, texts).with_cursor(cursor).open().await.expect("it opens");
            return loader.start().lanes();
        }
        cursor.lanes()
    };
    assert_eq!(lanes(&texts(3), false).await, 1);
    assert_eq!(lanes(&texts(100), false).await, 4);
    assert_eq!(lanes(&texts(100), true).await, 4);
    assert!(lanes(&texts(10_000), false).await >= 16);
}

#[tokio::test]
async fn both_sides_of_the_hold_out_are_all_texts() {
    let mut config = config(1);
    (config.pipeline.holdout, config.pipeline.epochs) = (0.3, Some(1));
    (config.pipeline.pack, config.pipeline.seq_len) = (PackRule::Pad, 64);
    let texts = texts(50);
    let mut counts = BTreeMap::new();
    for builder in [builder(&config, &texts), builder(&config, &texts).with_held_out(true)] {
        for batch in all_of(builder).await.expect("no error") {
            for piece in batch.pieces() {
                *counts.entry(piece.position.byte).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(counts, (0..50).map(|number| (number, 1)).collect());
}

#[tokio::test]
async fn a_stream_without_end_goes_on() {
    let mut config = config(2);
    config.pipeline.epochs = None;
    let mut loader = builder(&config, &texts(4)).open().await.expect("it opens");
    for _ in 0..200 {
        assert!(loader.try_next().await.expect("no error").is_some());
    }
    let mut wrapped = self::config(2);
    (wrapped.pipeline.uneven, wrapped.pipeline.epochs) = (Uneven::Wrap, Some(1));
    assert!(!all_of(builder(&wrapped, &texts(9))).await.expect("no error").is_empty());
}

/// They are a source like any other.
#[tokio::test]
async fn they_are_mixed_with_files_and_prepared_as_token_shards() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("lines.txt");
    std::fs::write(&file, "a line of a file\n".repeat(40)).expect("written");
    let mut config = config(2);
    config.tokenizer = TokenizerConfig::bytes();
    (config.pipeline.pack, config.pipeline.seq_len) = (PackRule::Pad, 64);
    config.sources = vec![
        SourceConfig::texts(texts(50)).with_name("memory").with_weight(1.0),
        SourceConfig::text(file.display().to_string()).with_name("file").with_weight(1.0),
    ];
    let batches = all_of(Loader::builder(&config)).await.expect("no error");
    let mut counts = BTreeMap::new();
    for batch in &batches {
        for piece in batch.pieces() {
            *counts.entry(batch.path(piece).to_owned()).or_insert(0) += 1;
        }
    }
    assert_eq!(counts, [("texts".into(), 150), (file, 120)].into());

    config.sources.truncate(1);
    let made = all_of(Loader::builder(&config)).await.expect("no error");
    let shards = directory.path().join("shards");
    prepare(&config, &shards, |_| ()).await.expect("prepared");
    config.sources = vec![SourceConfig::shards(shards.display().to_string()).with_name("memory")];
    let stored = all_of(Loader::builder(&config)).await.expect("no error");
    assert!(stored.iter().map(Batch::ids).eq(made.iter().map(Batch::ids)));
}

#[tokio::test]
async fn what_cannot_be_is_refused_in_words() {
    let texts = texts(20);
    let both = SourceConfig::texts(&texts).with_path("*.txt");
    let table = SourceConfig { kind: SourceKind::Csv, ..SourceConfig::texts(&texts) };
    let split = SourceConfig { split: Some(ByteCount(99)), ..SourceConfig::texts(&texts) };
    let file = SourceConfig { document: DocumentKind::File, ..SourceConfig::texts(&texts) };
    for refused in [both, table, split, file] {
        let error = Loader::open(&config(1).with_source(refused)).await.expect_err("a refusal").to_string();
        assert!(error.starts_with("source.0."), "{error}");
    }

    for none in [vec![], vec![" ".to_owned(), "\n".to_owned()]] {
        let error = all_of(builder(&config(1), &none)).await.expect_err("nothing to read");
        assert!(error.to_string().starts_with("there is nothing to read in "), "{error}");
    }
    let mut endless = config(32);
    (endless.pipeline.epochs, endless.pipeline.batch_size) = (None, 32);
    let error = all_of(builder(&endless, &texts)).await.expect_err("too few");
    assert!(
        error.to_string().starts_with("pipeline.lanes: 32 lanes, and source texts has only 20 splits"),
        "{error}"
    );

    let batches = all_of(builder(&config(1), &texts)).await.expect("no error");
    let mut others = texts.clone();
    others[3].push('!');
    let error = all_of(builder(&config(1), &others).with_cursor(batches[2].cursor().clone())).await;
    assert!(
        matches!(&error, Err(Error::Fingerprint { field, .. }) if field == "source.texts.files"),
        "{error:?}"
    );
}
