//! The laws where all documents of a source are shuffled together (`shuffle = "global"`), over generated corpora.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt};
use millstream::config::{
    ByteCount, Config, Last, MixtureChange, OrAuto, ShuffleRule, SourceConfig, SourceKind, TokenizerKind,
    Uneven,
};
use millstream::prepare::prepare;
use millstream::{Batch, Error, Loader};
use proptest::prelude::*;

use crate::corpus::{all, block_on, builder, configs, corpora, digests, open, resumes, rules, worlds_agree};
use crate::order::deliveries;

/// The config that shuffles all documents of token shards of `text`, which are made in `directory`.
pub(crate) fn shuffled(mut text: Config, directory: &Path, split: u64) -> Config {
    text.tokenizer.kind = TokenizerKind::Bytes;
    text.sources.iter_mut().for_each(|source| source.split = Some(ByteCount(split)));
    text.pipeline.shuffle_splits = true;
    (text.pipeline.shuffle, text.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
    let shards = directory.join("shards");
    block_on(prepare(&text, &shards, |_| {})).expect("prepared");
    let paths = vec![shards.display().to_string()];
    Config {
        sources: vec![SourceConfig { kind: SourceKind::Shards, paths, ..SourceConfig::default() }],
        ..text
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn order_and_resume(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), split in 4_u64..200,
        workers in 1_usize..9, depth in 1_usize..17, memory in 300_u64..2000, holdout: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let text = Config { sources: vec![corpus.source(directory.path())], ..config };
        let mut config = shuffled(text, directory.path(), split);
        (config.pipeline.uneven, config.pipeline.last) = (uneven, last);
        config.pipeline.holdout = if holdout { 0.4 } else { 0.0 };
        let expected = match block_on(all(&config)) {
            Err(Error::Corpus { .. }) => return Ok(()), // All is held out, or cut off.
            batches => batches.expect("no errors"),
        };
        let mut other = config.clone();
        other.pipeline.workers = workers.into();
        other.pipeline.depth = depth.into();
        other.pipeline.memory = ByteCount(memory << 10);
        let batches = block_on(all(&other)).expect("no errors");
        prop_assert_eq!(digests(&batches), digests(&expected));
        let cursors = |batches: &[Batch]| batches.iter().map(|batch| batch.cursor().clone()).collect::<Vec<_>>();
        prop_assert_eq!(cursors(&batches), cursors(&expected));

        prop_assert_eq!(block_on(resumes(&config)), Ok(()));
    }

    #[test]
    fn every_document_comes_once_an_epoch_on_its_side(
        corpus in corpora(), config in configs(), split in 4_u64..200, holdout in prop_oneof![Just(0.0), 0.0..0.9_f64],
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut expected: Vec<(PathBuf, u64, String)> = corpus.write(directory.path());
        prop_assume!(!expected.is_empty());
        let epochs = config.pipeline.epochs.expect("a number");
        let text = Config { sources: vec![corpus.source(directory.path())], ..config };
        let mut config = shuffled(text, directory.path(), split);
        config.pipeline.holdout = holdout;
        let mut found = match block_on(all(&config)) {
            Err(Error::Corpus { .. }) => Vec::new(), // All is held out.
            batches => deliveries(&batches.expect("no errors")),
        };
        let held_out: Vec<Batch> = block_on(async {
            builder(&config).with_held_out(true).open().await?.try_collect().await
        }).expect("no errors");
        (0..epochs).for_each(|_| found.extend(deliveries(&held_out)));
        expected = expected.iter().flat_map(|document| vec![document.clone(); epochs as usize]).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn ranks_make_the_rows_of_one_process_and_go_on_at_another_world(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), split in 4_u64..200,
        worlds in prop::sample::subsequence(vec![1_usize, 2, 3, 4, 6, 12], 2).prop_shuffle(), cut in 1_usize..9,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let text = Config { sources: vec![corpus.source(directory.path())], ..config };
        let mut config = shuffled(text, directory.path(), split);
        let pipeline = &mut config.pipeline;
        (pipeline.lanes, pipeline.batch_size) = (12.into(), 12 * pipeline.batch_size);
        (pipeline.uneven, pipeline.last) = (uneven, last);
        let one = match block_on(all(&config)) {
            Err(Error::Corpus { .. }) => return Ok(()), // The shortest of twelve lanes has nothing.
            batches => batches.expect("no errors"),
        };
        block_on(worlds_agree(&config, builder, &one, &worlds, cut))?;
    }
}

/// A corpus of numbered lines in 40 files.
fn numbered(directory: &Path, lines: usize) -> Config {
    for file in 0..40 {
        let text: String = (0..lines / 40).map(|line| format!("{}\n", file * (lines / 40) + line)).collect();
        std::fs::write(directory.join(format!("{file:02}.txt")), text).expect("written");
    }
    let paths = vec![format!("{}/*.txt", directory.display())];
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..Config::default() };
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    let pipeline = &mut config.pipeline;
    (pipeline.lanes, pipeline.seq_len, pipeline.batch_size) = (4.into(), 60, 8);
    pipeline.epochs = Some(2);
    shuffled(config, directory, 300)
}

#[test]
fn documents_come_from_everywhere_in_another_order_each_epoch() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = numbered(directory.path(), 4000);
    let batches = block_on(all(&config)).expect("no errors");
    // Which file each document is of, in the order of delivery: neighbours are of different ones.
    let files: Vec<u32> = batches
        .iter()
        .flat_map(|batch| batch.pieces())
        .filter(|piece| piece.offset == 0 && piece.to - piece.from > 1)
        .map(|piece| piece.position.file)
        .collect();
    assert_eq!(files.len(), 8000);
    let same = files.windows(2).filter(|pair| pair[0] == pair[1]).count();
    // One pair in forty by chance: 200 of 8,000, give or take fourteen.
    assert!((100..300).contains(&same), "{same} neighbours are of one file");
    let (first, second) = files.split_at(4000);
    let again = first.iter().zip(second).filter(|(one, other)| one == other).count();
    assert!(again < 200, "{again} of 4,000 documents come at the same place in both epochs");
}

#[test]
fn a_cursor_late_in_an_epoch_reads_nothing_that_came_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = numbered(directory.path(), 20_000);
    let batches = block_on(all(&config)).expect("no errors");
    let cursor = batches[batches.len() / 3].cursor();
    let counted = block_on(async {
        let mut loader = open(&config, Some(cursor)).await?;
        let batch = loader.next().await.expect("a batch")?;
        assert_eq!(batch.digest(), batches[batches.len() / 3 + 1].digest());
        let meters = loader.meters();
        let source = meters.stages.iter().find(|stage| stage.stage == "source").expect("the source");
        Ok::<_, Error>(source.documents)
    });
    // What runs ahead of the first batch, and not the thousands of documents before it.
    let counted = counted.expect("no errors");
    assert!(counted < 5000, "{counted} documents were read");
}

#[test]
fn a_mixture_takes_from_both_and_what_cannot_be_shuffled_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = numbered(directory.path(), 400);
    let error = |config: &Config| block_on(all(config)).expect_err("an error").to_string();

    let mut mixed = config.clone();
    mixed.sources[0].name = Some("one".to_owned());
    mixed.sources.push(SourceConfig { name: Some("two".to_owned()), ..config.sources[0].clone() });
    mixed.mixture.changes = vec![MixtureChange {
        batch: 3,
        weights: BTreeMap::from([("one".to_owned(), 1.0), ("two".to_owned(), 3.0)]),
    }];
    mixed.pipeline.epochs = Some(1);
    let batches = block_on(all(&mixed)).expect("no errors");
    assert_eq!(deliveries(&batches).len(), 800);

    let paths = vec![format!("{}/*.txt", directory.path().display())];
    mixed.mixture.changes.clear();
    mixed.sources[1] = SourceConfig { name: Some("lines".to_owned()), paths, ..SourceConfig::default() };
    let said = error(&mixed);
    assert_eq!(
        said,
        "pipeline.shuffle: \"global\" shuffles documents whose tokens are stored, and source lines has none: it is text; \
         prepare token shards and name them, with kind = \"shards\", or leave the key out"
    );

    let mut ordered = config.clone();
    ordered.pipeline.shuffle_splits = false;
    assert!(error(&ordered).contains("pipeline.shuffle_splits: it has no effect with pipeline.shuffle ="));
    let mut windowed = config.clone();
    windowed.pipeline.window = 64.into();
    assert!(
        error(&windowed)
            .contains("pipeline.window: it has no effect with pipeline.shuffle = \"global\"; remove it, or")
    );

    // The rule is named, and not the window that it needs.
    windowed.pipeline.shuffle = ShuffleRule::Window;
    let said = |config: &Config, batches: &[Batch]| {
        let cursor = batches[0].cursor().clone();
        block_on(Loader::resume(config, &cursor)).expect_err("another rule").to_string()
    };
    let (global, window) = (block_on(all(&config)), block_on(all(&windowed)));
    let now = said(&windowed, &global.expect("no errors"));
    assert!(now.contains("`pipeline.shuffle` was global and is now window"), "{now}");
    let now = said(&config, &window.expect("no errors"));
    assert!(now.contains("`pipeline.shuffle` was window and is now global"), "{now}");

    let mut few = config;
    (few.pipeline.lanes, few.pipeline.epochs) = (500.into(), None);
    few.pipeline.batch_size = 500;
    few.pipeline.memory = ByteCount::mib(512);
    let said = error(&few);
    assert!(said.contains("500 lanes, and source 0 has only 400 documents"), "{said}");
    (few.pipeline.lanes, few.pipeline.epochs, few.pipeline.uneven) = (300.into(), Some(1), Uneven::Pad);
    few.pipeline.last = Last::Short;
    assert_eq!(deliveries(&block_on(all(&few)).expect("no errors")).len(), 400);
}
