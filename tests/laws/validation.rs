//! The held-out stream: the same documents in the same order, whatever else is set, from all over the corpus.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{ByteCount, Config, SourceConfig};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Loader};
use proptest::prelude::*;

use crate::support::runtime::block_on;

/// Three files of some hundred lines, a third of which is held out.
fn config(directory: &Path) -> Config {
    for file in 0..3 {
        let lines: String =
            (0..400).map(|line| format!("line {line} of file {file}, and what belongs to it\n")).collect();
        std::fs::write(directory.join(format!("{file}.txt")), lines).expect("a file");
    }
    let paths = vec![format!("{}/*.txt", directory.display())];
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..Config::default() };
    (config.pipeline.seq_len, config.pipeline.holdout) = (64, 0.3);
    config
}

fn batches(config: &Config, held_out: bool) -> Vec<Batch> {
    block_on(async {
        let builder = Loader::builder(config).with_tokenizer(Arc::new(ByteTokenizer));
        let builder = builder.with_held_out(held_out);
        builder.open().await.expect("it opens").try_collect().await.expect("no errors")
    })
}

fn rows(batches: &[Batch]) -> Vec<Vec<u32>> {
    batches.iter().flat_map(|batch| (0..batch.rows()).map(|row| batch.row(row).to_vec())).collect()
}

fn documents(batches: &[Batch]) -> BTreeSet<(u32, u64)> {
    let pieces = batches.iter().flat_map(Batch::pieces);
    pieces.map(|piece| (piece.position.file, piece.position.byte)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn it_is_the_same_whatever_the_order_of_training(
        seed: u64, lanes in 1_usize..6, window in 1_usize..50, batch_size in 1_usize..9,
        split in prop::option::of(40_u64..20_000), shuffle_splits: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let plain = config(directory.path());
        let mut other = plain.clone();
        other.seed = seed;
        other.sources[0].split = split.map(ByteCount);
        let pipeline = &mut other.pipeline;
        (pipeline.lanes, pipeline.window) = (lanes.into(), window.into());
        (pipeline.batch_size, pipeline.shuffle_splits, pipeline.epochs) = (batch_size, shuffle_splits, Some(3));
        prop_assert_eq!(rows(&batches(&plain, true)), rows(&batches(&other, true)));
    }
}

/// A run validates on the files that it began with, whatever comes into their directory meanwhile.
#[test]
fn it_stays_the_same_while_files_are_added() {
    for split in [None, Some(ByteCount(700))] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = config(directory.path());
        config.sources[0].split = split;
        let before = rows(&batches(&config, true));
        block_on(async {
            let builder = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer));
            let loader = builder.open().await.expect("it opens");
            std::fs::write(directory.path().join("00.txt"), "another line\n".repeat(400)).expect("a file");
            let held_out = loader.held_out().open().await.expect("it opens");
            assert_eq!(rows(&held_out.try_collect::<Vec<Batch>>().await.expect("no errors")), before);
        });
        assert_ne!(rows(&batches(&config, true)), before);
    }
}

#[test]
fn the_first_rows_are_from_all_over_the_corpus() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path());
    let all = batches(&config, true);
    let first: BTreeSet<_> =
        documents(&all[..2]).into_iter().map(|(file, byte)| (file, byte / 5000)).collect();
    // Each file is five parts of 5,000 bytes, of which 32 rows of 64 ids could fill one.
    assert!(first.len() >= 10, "{first:?}");
}

#[test]
fn it_has_each_held_out_document_once_and_none_that_is_trained_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = config(directory.path());
    config.pipeline.epochs = Some(1);
    let (train, held_out) = (documents(&batches(&config, false)), batches(&config, true));
    assert!(train.is_disjoint(&documents(&held_out)));
    assert_eq!(train.len() + documents(&held_out).len(), 1200);
    let ids: usize = held_out.iter().map(Batch::tokens).sum();
    let starts = held_out.iter().flat_map(Batch::pieces).filter(|piece| piece.offset == 0).count();
    assert!(ids > 0 && starts >= documents(&held_out).len() && starts <= documents(&held_out).len() + 32);
}

#[test]
fn each_of_several_ranks_reads_all_of_it_with_any_tokenizer() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = config(directory.path());
    let path = directory.path().join("tokenizer.json");
    let learned = millstream::config::LearnConfig { vocab_size: 300, ..Default::default() };
    let json = millstream::tokenizer::learn::learn(["a line of a file"], &learned, &["<|endoftext|>"]);
    std::fs::write(&path, json.expect("a tokenizer")).expect("a file");
    (config.tokenizer.path, config.tokenizer.eos) = (Some(path), Some("<|endoftext|>".to_owned()));
    let held_out = |config: &Config| -> Vec<Batch> {
        let builder = Loader::builder(config).with_held_out(true);
        block_on(async { builder.open().await.expect("it opens").try_collect().await.expect("no errors") })
    };
    let alone = rows(&held_out(&config));
    (config.pipeline.rank, config.pipeline.world) = (Some(1), Some(2));
    assert!(!alone.is_empty());
    assert_eq!(rows(&held_out(&config)), alone);
}
