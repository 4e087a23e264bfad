//! A resume encodes the documents of a window that were not delivered, and no others.

use std::sync::{Arc, Mutex};

use futures::{StreamExt, TryStreamExt};
use millstream::config::{ByteCount, Config, OnError, PackRule};
use millstream::tokenizer::{ByteTokenizer, Tokenizer};
use millstream::{Batch, Cursor, Loader};
use proptest::prelude::*;

use crate::corpus::{block_on, lines};
use crate::support::tokenizers::before;

/// Opens a stream at a cursor, with a token stage that does nothing if `has_stage`. Returns its batches, and the texts
/// that were encoded for them, sorted.
fn run(config: &Config, cursor: Option<&Cursor>, has_stage: bool) -> (Vec<Batch>, Vec<String>) {
    let encoded: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = encoded.clone();
    let tokenizer = before("watched", move |text| {
        seen.lock().expect("no panic").push(text.to_owned());
        Ok(())
    });
    let mut builder = Loader::builder(config).with_tokenizer(tokenizer);
    if has_stage {
        builder = builder.token_stage("nothing", |tokens, _| tokens.boxed());
    }
    if let Some(cursor) = cursor {
        builder = builder.with_cursor(cursor.clone());
    }
    let batches = block_on(async { builder.open().await?.try_collect().await }).expect("no error");
    let mut encoded = std::mem::take(&mut *encoded.lock().expect("no panic"));
    encoded.sort();
    (batches, encoded)
}

/// The texts of rows of one document each, sorted.
fn texts(batches: &[Batch]) -> Vec<String> {
    let rows = batches
        .iter()
        .flat_map(|batch| (0..batch.rows()).map(move |row| &batch.row(row)[..batch.lengths()[row] as usize]));
    let texts = rows.filter_map(|row| row.strip_suffix(&[256])).map(|ids| ByteTokenizer.decode(ids));
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

fn ids(batches: &[Batch]) -> Vec<&[u32]> {
    batches.iter().map(Batch::ids).collect()
}

/// Numbered lines, each of which is a row: how many, and about how long splits are.
fn rows(directory: &std::path::Path, (count, split): (usize, u64), window: usize) -> Config {
    let mut config = lines(directory, count);
    config.sources[0].split = Some(ByteCount(split));
    config.pipeline.pack = PackRule::Pad;
    config.pipeline.window = window.into();
    config
}

/// Such lines, in one split or many.
fn corpora() -> impl Strategy<Value = (usize, u64)> {
    (1_usize..150, 20_u64..1000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_was_delivered_is_not_encoded_again(
        corpus in corpora(), window in 1_usize..70, lanes in 1_usize..4, epochs in 1_u64..4, batch_size in 1_usize..6,
        shuffle_splits: bool, skips: bool, at: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = rows(directory.path(), corpus, window);
        (config.pipeline.lanes, config.pipeline.epochs) = (lanes.into(), Some(epochs));
        (config.pipeline.batch_size, config.pipeline.shuffle_splits) = (batch_size, shuffle_splits);
        if skips {
            config.sources[0].on_error = OnError::Skip(1);
        }
        let (whole, encoded) = run(&config, None, false);
        prop_assert_eq!(encoded, texts(&whole));
        let at = at.index(whole.len());
        let (rest, encoded) = run(&config, Some(whole[at].cursor()), false);
        prop_assert_eq!(ids(&rest), ids(&whole[at + 1..]));
        prop_assert_eq!(encoded, texts(&rest));
    }

    /// Where somebody looks at ids, all of the window is encoded.
    #[test]
    fn all_is_encoded_where_it_must_be(
        corpus in corpora(), window in 2_usize..70, at: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let config = rows(directory.path(), corpus, window);
        let (whole, _) = run(&config, None, true);
        let at = at.index(whole.len());
        let cursor = whole[at].cursor();
        let (rest, encoded) = run(&config, Some(cursor), true);
        prop_assert_eq!(ids(&rest), ids(&whole[at + 1..]));
        let window = cursor.at(0, 0).documents as usize;
        prop_assert_eq!(encoded.len(), corpus.0 - window);
    }
}
