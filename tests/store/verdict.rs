//! What a loader says that waits for a store.

use std::time::Duration;

use futures::StreamExt;
use millstream::Meters;
use millstream::config::{ByteCount, StoreConfig};
use millstream::meter::Fault;

use super::corpus::{block_on, config, files, open, remote, serve};

/// The meters of a loader that was read to its end, from a store whose every answer takes a while.
fn drained(concurrency: usize, memory: ByteCount) -> Meters {
    let files = files(&[150; 12]);
    let server = serve(&files);
    // So long that all else is nothing beside it, on a busy machine too.
    *server.state.latency.lock().expect("no panic") = Duration::from_millis(150);
    let mut config = config(remote(&server, &files));
    config.store = StoreConfig { concurrency, ..config.store };
    (config.pipeline.memory, config.pipeline.epochs, config.pipeline.window) = (memory, Some(1), 1.into());
    block_on(async {
        let mut loader = open(&config, None).await.expect("it opens");
        while let Some(batch) = loader.next().await {
            batch.expect("no error");
        }
        loader.meters()
    })
}

#[test]
fn a_slow_store_is_at_fault_and_more_requests_help_only_where_all_are_under_way() {
    let meters = drained(1, ByteCount::mib(4));
    let verdict = meters.verdict();
    assert_eq!(verdict.fault, Some(Fault::Store), "{verdict}\n{}", meters.table());
    assert_eq!(verdict.finding, "source waits for the store, 1 of 1 requests under way");
    assert_eq!(verdict.remedy.as_deref(), Some("raise store.concurrency"));
    let store = meters.store.expect("there is one");
    assert!(store.waits > 0 && store.wait_seconds > 0.15 && store.concurrency == 1, "{store:?}");

    // Room for a few requests, where many more may be made.
    let verdict = drained(4000, ByteCount(300 << 10)).verdict();
    assert_eq!(verdict.fault, Some(Fault::Store), "{verdict}");
    assert!(verdict.finding.ends_with(" of 4000 requests under way"), "{verdict}");
    assert!(verdict.remedy.expect("one").starts_with("raise pipeline.memory"));
}
