//! The laws over remote corpora: faults and latency never change a byte.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, future};
use millstream::config::{ByteCount, SourceConfig, StoreConfig};
use millstream::source::Lane;
use millstream::{Budget, LaneCursor};
use proptest::prelude::*;

use super::corpus::{
    assert_resumes, batches, block_on, config, fault, files, hasty, lines, open_source, remote, rows, serve,
    texts, write,
};
use crate::support::server::{Fault, Request, Server};
use crate::support::wait::{PATIENCE, ends, until};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn faults_change_no_byte(
        counts in prop::collection::vec(0_usize..900, 1..7),
        faults in prop::collection::vec(fault(), 1..12),
        memory in 300_u64..4000,
        block in 4_u64..40,
        concurrency in 1_usize..9,
    ) {
        prop_assume!(counts.iter().any(|&count| count > 0));
        let directory = tempfile::tempdir().expect("a directory");
        let files = files(&counts);
        write(directory.path(), &files);
        let local = config(lines(vec![format!("{}/**/*.txt", directory.path().display())]));
        let expected = block_on(batches(&local)).expect("no errors");

        let server = serve(&files);
        let mut far = config(remote(&server, &files));
        far.pipeline.memory = ByteCount(memory << 10);
        far.store.block = ByteCount(block << 10);
        far.store.concurrency = concurrency;
        let nth = AtomicUsize::new(0);
        let faults = [faults, vec![Fault::Nothing]].concat();
        server.with_faults(move |_| faults[nth.fetch_add(1, Ordering::SeqCst) % faults.len()]);
        let found = block_on(batches(&far)).expect("no errors");
        prop_assert_eq!(rows(&found), rows(&expected));
    }
}

#[test]
fn resuming_inside_remote_files_is_exact() {
    let files = files(&[700, 40, 900, 3]);
    let server = serve(&files);
    let mut config = config(remote(&server, &files));
    config.pipeline.batch_size = 40;
    assert_resumes(&config, 40);
}

#[test]
fn a_lane_asks_for_what_it_will_read_before_it_reads() {
    let files = files(&[60; 40]);
    let server = serve(&files);
    let store = hasty();
    let source = block_on(open_source(&remote(&server, &files), &store)).expect("it opens");
    // Small files are asked for together.
    server.await_requests(16);
    let (found, error) = block_on(ends(texts(&source)));
    assert!(error.is_none() && found.len() == 60 * 40);
    assert!(server.most_under_way() >= 16);
    server.await_requests(0);
    let few = StoreConfig { concurrency: 3, ..store.clone() };
    let bounded = block_on(open_source(&remote(&server, &files), &few)).expect("it opens");
    *server.state.latency.lock().expect("no panic") = Duration::from_millis(10);
    server.await_requests(3);
    assert_eq!(block_on(ends(texts(&bounded))).0, found);
    assert_eq!(server.most_under_way(), 3, "no more than so many requests are under way");
    // One file, far longer than what is at hand.
    let long = super::corpus::files(&[20_000]);
    let server = serve(&long);
    let whole = SourceConfig { split: Some(ByteCount::mib(64)), ..remote(&server, &long) };
    let source = block_on(open_source(&whole, &store)).expect("it opens");
    // So are pieces of a long file.
    server.await_requests(12);
    let (found, error) = block_on(ends(texts(&source)));
    assert!(error.is_none() && found.len() == 20_000);
    assert!(server.most_under_way() >= 12);
    let asked = asked(&server);
    let len = long[0].1.len() as u64;
    assert!((len..len + (80 << 10)).contains(&asked), "{asked} bytes were asked for of {len}");
}

/// The first batch needs a document of each lane.
#[test]
fn every_lane_asks_for_its_first_split_before_any_asks_for_more() {
    const LANES: usize = 8;
    let (files, directory) = (files(&[60; 80]), tempfile::tempdir().expect("a directory"));
    write(directory.path(), &files);
    let on_disk = lines(vec![format!("{}/**/*.txt", directory.path().display())]);
    let on_disk = block_on(open_source(&on_disk, &hasty())).expect("it opens");
    let server = serve(&files);
    let store = StoreConfig { concurrency: LANES, ..hasty() };
    let source = block_on(open_source(&remote(&server, &files), &store)).expect("it opens");
    let start = LaneCursor::default();
    let lanes = (0..LANES).map(|lane| Lane { lane, lanes: LANES, ..Lane::default() });
    block_on(async {
        let mut firsts = BTreeSet::new();
        for lane in lanes.clone() {
            let first = on_disk.lane(lane, &start).next().await.expect("a document").expect("no error");
            let path = on_disk.files().path(first.value.position().file);
            firsts.insert(path.strip_prefix(directory.path()).expect("a file of it").display().to_string());
        }
        server.with_faults(|_| Fault::Silent(PATIENCE));
        server.requests();
        let mut streams: Vec<_> = lanes.map(|lane| source.lane(lane, &start)).collect();
        let nexts = future::join_all(streams.iter_mut().map(|stream| stream.next()));
        let requests = || server.state.requests.lock().expect("no panic").len();
        tokio::select! {
            _ = nexts => panic!("nothing comes"),
            () = until("a request of each lane", || requests() >= LANES) => {}
        }
        let asked: BTreeSet<String> =
            server.requests().iter().map(|request| request.path.trim_start_matches('/').to_owned()).collect();
        assert_eq!(asked, firsts);
    });
}

#[test]
fn fewer_splits_of_a_store_are_open_than_of_files_on_disk() {
    let (files, directory) = (files(&[60; 8]), tempfile::tempdir().expect("a directory"));
    write(directory.path(), &files);
    let server = serve(&files);
    let on_disk = lines(vec![format!("{}/**/*.txt", directory.path().display())]);
    let interleave = |config: &SourceConfig, lanes| {
        let source = block_on(open_source(config, &hasty())).expect("it opens");
        source.interleave(128, lanes)
    };
    let far = remote(&server, &files);
    assert_eq!([16, 64].map(|lanes| interleave(&on_disk, lanes)), [8, 8]);
    assert_eq!([16, 64, 256].map(|lanes| interleave(&far, lanes)), [8, 2, 1]);
}

#[test]
fn no_more_is_asked_for_than_there_is_room_for() {
    let files = files(&[20_000, 20_000]);
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    server.requests();
    block_on(async {
        let mut documents = source.with_budget(Budget::new(400 << 10)).documents(&LaneCursor::default());
        documents.next().await.expect("a document").expect("no error");
        let mut all = asked(&server);
        until("what there is room for", || {
            all += asked(&server);
            all >= 50 << 10
        })
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        all += asked(&server);
        // Half of the budget, and the slabs that were read.
        assert!(all < 260 << 10, "{all} bytes were asked for");
    });
}

/// There is room for thousands.
#[test]
fn of_a_small_file_only_some_epochs_are_asked_for_ahead() {
    const READ: usize = 300;
    let files = files(&[1]);
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &StoreConfig { concurrency: 64, ..hasty() }));
    let source = source.expect("it opens").with_budget(Budget::new(4 << 20));
    server.requests();
    block_on(async {
        let endless = Lane { epochs: None, ..Lane::default() };
        let documents = source.lane(endless, &LaneCursor::default()).take(READ);
        assert_eq!(documents.try_collect::<Vec<_>>().await.expect("no error").len(), READ);
    });
    // What is read, a few steps ahead of it, and so many epochs.
    let asked = server.requests().len();
    assert!((READ..READ + 30).contains(&asked), "{asked} requests");
}

#[test]
fn resuming_in_the_middle_asks_for_the_rest_once() {
    let files = files(&[20_000]);
    let len = files[0].1.len() as u64;
    let server = serve(&files);
    for split in [ByteCount(100_000), ByteCount::mib(64)] {
        let config = SourceConfig { split: Some(split), ..remote(&server, &files) };
        let source = block_on(open_source(&config, &hasty())).expect("it opens");
        let source = source.with_budget(Budget::new(400 << 10)).with_slab_bytes(2048);
        let from = async |at: &LaneCursor, most: usize| -> Vec<LaneCursor> {
            let documents = source.documents(at).take(most).map_ok(|document| document.cursor);
            documents.try_collect().await.expect("no error")
        };
        let middle = block_on(from(&LaneCursor::default(), 10_000)).pop().expect("a cursor");
        server.requests();
        assert_eq!(block_on(from(&middle, 20_000)).len(), 10_000);
        let (asked, rest) = (asked(&server), len - files[0].1.len() as u64 / 2);
        // What was planned of the file's first half may be under way before reading has begun.
        let slack = 260 << 10;
        assert!(
            (rest - slack..rest + slack).contains(&asked),
            "{asked} bytes, where {rest} were left ({split})"
        );
    }
}

/// How many bytes were asked for since this was asked last.
fn asked(server: &Server) -> u64 {
    let len = |request: &Request| {
        let (from, to) = request.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(to.parse::<u64>().ok()? + 1 - from.parse::<u64>().ok()?)
    };
    server.requests().iter().filter_map(len).sum()
}

#[test]
fn what_is_at_hand_stays_within_the_budget() {
    let files = files(&[4000, 4000]);
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    for kib in [64, 300, 2000] {
        let budget = Budget::new(kib << 10);
        let found = block_on(async {
            let mut documents = source.clone().with_budget(budget.clone()).documents(&LaneCursor::default());
            let mut found = 0;
            while let Some(document) = documents.next().await {
                document.expect("a document");
                found += 1;
            }
            found
        });
        assert_eq!(found, 8000);
        assert!(budget.peak() <= kib << 10, "{} of {kib} KiB", budget.peak());
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn dropping_a_stream_ends_its_requests() {
    let files = files(&[3000, 3000]);
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    server.requests();
    // Longer than anything here waits: whatever is given up is so because nobody wants it.
    server.with_faults(|_| Fault::Silent(3 * PATIENCE));
    block_on(async {
        let mut documents = source.documents(&LaneCursor::default());
        let requests = || server.state.requests.lock().expect("no panic").len();
        tokio::select! {
            _ = documents.next() => panic!("nothing comes"),
            () = until("requests", || requests() > 1) => {}
        }
        assert_eq!(server.state.given_up.load(Ordering::SeqCst), 0);
        drop(documents);
        let under_way = requests();
        until("their end", || server.state.given_up.load(Ordering::SeqCst) >= under_way).await;
    });
}

#[test]
fn a_run_goes_on_when_its_server_comes_back() {
    let files = files(&[900, 900]);
    let server = serve(&files);
    let config = config(remote(&server, &files));
    let expected = rows(&block_on(batches(&config)).expect("no errors"));
    let asked = Arc::new(AtomicUsize::new(0));
    let nth = asked.clone();
    // A hundred requests without any answer, in the middle.
    server.with_faults(move |_| match nth.fetch_add(1, Ordering::SeqCst) {
        20..120 => Fault::Closed,
        _ => Fault::Nothing,
    });
    assert_eq!(rows(&block_on(batches(&config)).expect("no errors")), expected);
    assert!(asked.load(Ordering::SeqCst) > 120);
}
