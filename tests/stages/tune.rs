//! What is left to the loader changes no byte, whatever the consumer's pace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use millstream::config::{ByteCount, Config, OrAuto};
use millstream::tokenizer::Tokenizer;
use millstream::{Batch, Document, LaneCursor, Loader, Tracked};
use proptest::prelude::*;

use crate::support::runtime::block_on;
use crate::support::tokenizers::before;
use crate::support::wait::{PATIENCE, until};

/// Bytes as ids, after as many steps of 20 µs as the text's first digit says.
fn slow() -> Arc<dyn Tokenizer> {
    before("slow", |text| {
        std::thread::sleep(Duration::from_micros(20 * u64::from(text.as_bytes()[0] - b'0')));
        Ok(())
    })
}

fn config(lanes: usize, window: usize) -> Config {
    let mut config = Config::default();
    let pipeline = &mut config.pipeline;
    (pipeline.lanes, pipeline.window, pipeline.batch_size) = (lanes.into(), window.into(), lanes);
    (pipeline.seq_len, pipeline.epochs) = (200, Some(1));
    config
}

/// All batches, each of which the consumer takes so many tenths of a millisecond for.
fn batches(config: &Config, costs: &Arc<Vec<u8>>, paces: &[u64]) -> Vec<(String, String)> {
    block_on(async {
        let costs = costs.clone();
        let loader = Loader::builder(config).with_tokenizer(slow()).documents("costs", move |lane, start| {
            let first = start.documents;
            let costs = costs.clone();
            let text = move |n: u64| format!("{}{lane}:{n} ", costs[n as usize]).repeat(60);
            let document = move |n| Tracked::new(Document::new(text(n)), LaneCursor::after(n + 1));
            stream::iter(first..300).map(move |n| Ok(document(n))).boxed()
        });
        let mut loader = loader.open().await.expect("it opens");
        let mut all = Vec::new();
        while let Some(batch) = loader.next().await {
            let batch: Batch = batch.expect("no error");
            let cursor = serde_json::to_string(batch.cursor()).expect("JSON");
            let pace = paces[all.len() / 50 % paces.len()];
            std::thread::sleep(Duration::from_micros(100 * pace));
            all.push((batch.digest().to_string(), cursor));
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn the_order_does_not_depend_on_what_is_tuned(
        lanes in 1_usize..4, window in 1_usize..20, costs in prop::collection::vec(0_u8..10, 300),
        paces in prop::collection::vec(prop_oneof![Just(0_u64), 1_u64..20], 1..5),
    ) {
        let costs = Arc::new(costs);
        let mut config = config(lanes, window);
        (config.pipeline.workers, config.pipeline.depth) = (1.into(), 1.into());
        let expected = batches(&config, &costs, &[0]);
        prop_assert!(expected.len() > 100);
        (config.pipeline.workers, config.pipeline.depth) = (OrAuto::Auto, OrAuto::Auto);
        prop_assert_eq!(batches(&config, &costs, &paces), expected);
    }
}

/// A consumer that never waits soon has less of it: fewer workers, where there were several, and a shorter queue.
#[tokio::test(flavor = "multi_thread")]
async fn what_runs_ahead_follows_the_consumer() {
    let mut config = config(1, 1);
    config.pipeline.epochs = None;
    let loader = Loader::builder(&config).with_tokenizer(slow()).documents("endless", |_, start| {
        let document = |n| Tracked::new(Document::new("0".repeat(250)), LaneCursor::after(n + 1));
        stream::iter(start.documents..).map(move |n| Ok(document(n))).boxed()
    });
    let mut loader = loader.open().await.expect("it opens");
    loader.next().await.expect("a batch").expect("no error");
    let ahead = |loader: &Loader| {
        let meters = loader.meters();
        let stage = |name| meters.stage(name).expect("it").clone();
        (stage("tokenize").workers, stage("prefetch").capacity)
    };
    let (workers, depth) = ahead(&loader);
    assert_eq!(workers, config.pipeline.most_workers() as u64);
    let begun = Instant::now();
    while ahead(&loader).0 > 1 || ahead(&loader).1 >= depth {
        assert!(begun.elapsed() < PATIENCE, "{:?} of {workers}, {depth}", ahead(&loader));
        loader.next().await.expect("a batch").expect("no error");
        // However long it takes here, the next batch is there before it is asked for.
        until("a batch in the queue", || loader.meters().stage("prefetch").expect("it").queued > 0).await;
        // On a busy machine it is handed over late. That is no wait if the consumer takes its time.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Finished batches take an eighth of the memory at most.
#[test]
fn finished_batches_keep_to_their_part_of_the_memory() {
    let mut config = config(2, 1);
    assert_eq!(config.pipeline.most_depth(1), 32);
    // A batch has 2 rows of 201 ids.
    config.pipeline.memory = ByteCount(8 * 5 * 2 * 201 * 4);
    assert_eq!(config.pipeline.most_depth(1), 5);
    config.pipeline.memory = ByteCount(1);
    assert_eq!(config.pipeline.most_depth(1), 1);
    config.pipeline.depth = 99.into();
    assert_eq!(config.pipeline.most_depth(1), 99);
}
