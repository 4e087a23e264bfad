//! Batches that are made when they are asked for.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use millstream::batch::Piece;
use millstream::config::{ByteCount, Config};
use millstream::tokenizer::Tokenizer;
use millstream::{Batch, Error, Loader, Result};
use proptest::prelude::*;

use crate::corpus::{all_of, block_on, builder, configs, corpora, lines, rules};
use crate::masks::with_masks;
use crate::support::tokenizers::before;

/// A tokenizer that notes the thread on which it encodes each document.
fn watched() -> (Arc<dyn Tokenizer>, Arc<Mutex<Vec<ThreadId>>>) {
    let threads: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    let noted = threads.clone();
    let tokenizer = before("watched", move |_| {
        noted.lock().expect("no panic").push(std::thread::current().id());
        Ok(())
    });
    (tokenizer, threads)
}

fn seen(batches: &[Batch]) -> Vec<(String, String, Vec<Piece>, [u64; 2])> {
    let seen = |batch: &Batch| {
        let cursor = serde_json::to_string(batch.cursor()).expect("JSON");
        let text_bytes = [batch.text_bytes(), batch.text_bytes_within_documents()];
        (batch.digest().to_string(), cursor, batch.pieces().to_vec(), text_bytes)
    };
    batches.iter().map(seen).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_batches_and_their_cursors_are_the_same(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), has_masks: bool, from in 0_usize..5,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        (config.pipeline.uneven, config.pipeline.last) = (uneven, last);
        let builder = || if has_masks { with_masks(builder(&config)) } else { builder(&config) };
        let expected = block_on(all_of(builder()));
        prop_assume!(!matches!(expected, Err(Error::Corpus { .. })), "the rules leave no batch");
        let expected = expected.expect("no errors");
        let from = from.min(expected.len() - 1);
        let rest = builder().with_on_demand(true).with_cursor(expected[from].cursor().clone());
        let rest = block_on(all_of(rest)).expect("no errors");
        prop_assert_eq!(seen(&rest), seen(&expected[from + 1..]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_comes_after_the_same_batches() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 3000);
    (config.pipeline.lanes, config.sources[0].split) = (3.into(), Some(ByteCount(4 << 10)));
    let tokenizer = before("moody", |text| match text {
        "line 1777 of the corpus" => Err("it is bad".into()),
        _ => Ok(()),
    });
    let outcome = async |on_demand| {
        let loader = Loader::builder(&config).with_tokenizer(tokenizer.clone()).with_on_demand(on_demand);
        let mut batches: Vec<Result<Batch>> = loader.open().await.expect("it opens").collect().await;
        let error = batches.pop().expect("an end").expect_err("the error");
        let batches: Vec<Batch> = batches.into_iter().collect::<Result<_>>().expect("no other error");
        (seen(&batches), error.to_string())
    };
    let (batches, error) = outcome(false).await;
    assert!(!batches.is_empty() && error.contains("it is bad"), "{error} after {}", batches.len());
    assert_eq!((batches, error), outcome(true).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_between_batches_nor_by_another_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    // Some thousand groups of documents, over windows and slabs.
    let mut config = lines(directory.path(), 40_000);
    config.pipeline.lanes = 2.into();
    config.pipeline.workers = 8.into();
    let (tokenizer, threads) = watched();
    let documents = || threads.lock().expect("no panic").len();
    let loader = Loader::builder(&config).with_tokenizer(tokenizer).with_on_demand(true);
    let mut loader = loader.open().await.expect("it opens");
    let mut batches = 0;
    // Whatever is not done in the poll itself would make it pending.
    while let Some(batch) = loader.next().now_or_never().expect("it is made at once") {
        batch.expect("no error");
        batches += 1;
        let before = documents();
        if batches % 500 == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(documents(), before);
    }
    assert!(batches > 3000, "{batches}");
    let own = std::thread::current().id();
    assert!(threads.lock().expect("no panic").iter().all(|thread| *thread == own));
    let meters = loader.meters();
    assert!(meters.consumer_wait_seconds > 0.0, "{meters:?}");
    assert!(meters.at_fault.is_some(), "{meters:?}");
}
