//! The law of the budget: what is in flight stays within it, and what does not fit it never stops a stream.

use std::path::Path;

use futures::StreamExt;
use millstream::config::{ByteCount, Config, PackRule, SourceConfig};
use millstream::{Error, Meters, Result};
use proptest::prelude::*;

use crate::corpus::{block_on, lines, open};
use crate::support::wait::ends;

/// The most bytes that a byte of a document takes while it is in flight: its text, in a buffer that may be twice as
/// long, and four bytes for each of its ids.
const PER_BYTE: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_stays_within_the_budget() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 200_000);
    config.pipeline.memory = ByteCount(256 << 10);
    config.pipeline.epochs = Some(2);
    config.pipeline.window = 256.into();
    for pack in [PackRule::Concat, PackRule::BestFit] {
        config.pipeline.pack = pack;
        let mut loader = open(&config, None).await.expect("it opens");
        let mut batches = 0;
        while let Some(batch) = loader.next().await {
            batch.expect("no error");
            batches += 1;
        }
        let meters = loader.meters();
        assert!(batches > 20_000);
        assert!(meters.budget_bytes < 256 << 10);
        assert!(meters.peak_bytes_in_flight > 32 << 10, "{meters:?}");
        assert!(meters.peak_bytes_in_flight <= meters.budget_bytes, "{meters:?}");
        assert_eq!(meters.bytes_in_flight, 0, "what was lent is given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_longer_than_the_budget_passes_it_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 3000);
    let long = "long ".repeat(400_000);
    std::fs::write(directory.path().join("a.txt"), format!("short\n{long}\nshort\n")).expect("a file");
    config.sources[0].paths = vec![format!("{}/*.txt", directory.path().display())];
    config.pipeline.shuffle_splits = false;
    config.pipeline.window = 1.into();
    config.pipeline.memory = ByteCount(256 << 10);
    let mut loader = open(&config, None).await.expect("it opens");
    while let Some(batch) = loader.next().await {
        batch.expect("no error");
    }
    let peak = loader.meters().peak_bytes_in_flight as usize;
    assert!(peak > 5 * long.len() && peak < 6 * long.len() + (256 << 10), "{peak}");
}

/// One file for each lane, of lines with these lengths.
fn lines_of(directory: &Path, lanes: usize, lengths: &[usize]) -> Config {
    for lane in 0..lanes {
        let line = |(number, length): (usize, &usize)| format!("{lane}-{number}-{}\n", "x".repeat(*length));
        let text: String = lengths.iter().enumerate().map(line).collect();
        std::fs::write(directory.join(format!("{lane}.txt")), text).expect("a file");
    }
    let paths = vec![format!("{}/*.txt", directory.display())];
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..lines(directory, 1) };
    std::fs::remove_file(directory.join("lines.txt")).expect("it was there");
    config.pipeline.lanes = lanes.into();
    config
}

/// The digests of all batches, and the meters after the last one.
async fn run(config: &Config) -> Result<(Vec<String>, Meters)> {
    let mut loader = open(config, None).await?;
    let mut digests = Vec::new();
    while let Some(batch) = loader.next().await {
        digests.push(batch?.digest().to_string());
    }
    Ok((digests, loader.meters()))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_document_longer_than_the_budget_passes_in_any_window() {
    const LONG: usize = 1 << 20;
    let directory = tempfile::tempdir().expect("a directory");
    let mut lengths = vec![300; 2000];
    lengths[700] = LONG;
    let mut config = lines_of(directory.path(), 1, &lengths);
    config.pipeline.batch_size = 16;
    config.pipeline.seq_len = 1024;
    for (lanes, window, memory) in [(1, 16, 4 << 20), (1, 64, 1 << 20), (4, 16, 4 << 20), (2, 200, 2 << 20)] {
        config.pipeline.lanes = lanes.into();
        config.pipeline.window = window.into();
        config.pipeline.memory = ByteCount(memory);
        let (_, meters) = ends(run(&config)).await.expect("no error");
        let (peak, budget) = (meters.peak_bytes_in_flight as usize, meters.budget_bytes as usize);
        assert!(peak > 4 * LONG, "{peak}");
        assert!(peak <= budget + PER_BYTE * LONG, "{lanes} lanes, windows of {window}: {peak} of {budget}");
        assert_eq!(meters.bytes_in_flight, 0, "what was lent is given back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_config_that_opens_never_lacks_memory(
        lanes in 1_usize..5,
        window in 1_usize..80,
        memory in 300_u64..4000,
        lengths in prop::collection::vec(
            prop_oneof![20 => 8_usize..400, 3 => 400_usize..20_000, 1 => 20_000_usize..400_000], 1..160,
        ),
        pack in prop::sample::select(vec![PackRule::Concat, PackRule::Pad, PackRule::BestFit]),
        tokens in prop::option::of(256_usize..600),
        bucket_window in 1_usize..40,
        depth in 1_usize..5,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = lines_of(directory.path(), lanes, &lengths);
        let pipeline = &mut config.pipeline;
        (pipeline.window, pipeline.depth, pipeline.pack) = (window.into(), depth.into(), pack);
        (pipeline.batch_tokens, pipeline.bucket_window) = (tokens, bucket_window);
        (pipeline.pack_window, pipeline.seq_len, pipeline.epochs) = (16, 256, Some(2));
        let (expected, _) = block_on(run(&config)).expect("no error");
        config.pipeline.memory = ByteCount(memory << 10);
        let (digests, meters) = match block_on(ends(run(&config))) {
            Ok(ran) => ran,
            // Too little for a loader of this shape, which says how much is enough.
            Err(Error::Config { problem, .. }) => {
                let least = problem.split("must be at least ").nth(1).and_then(|rest| rest.split(',').next());
                config.pipeline.memory = least.expect("a size").parse().expect("a size");
                block_on(ends(run(&config))).expect("it says what is enough")
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(digests, expected);
        prop_assert_eq!(meters.bytes_in_flight, 0);
        // Beyond its budget, a lane holds the documents that wait together and one read that may follow them.
        let mut longest = lengths.clone();
        longest.sort_unstable_by(|a, b| b.cmp(a));
        let together = 2 * window + 16 + bucket_window + 1;
        let most = lanes * PER_BYTE * longest.iter().cycle().take(together).sum::<usize>();
        let (peak, budget) = (meters.peak_bytes_in_flight as usize, meters.budget_bytes as usize);
        prop_assert!(peak <= budget * 13 / 12 + most, "{} of {} and {}", peak, budget, most);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_takes_more_than_the_budget_is_held_all_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines_of(directory.path(), 1, &[20_000; 100]);
    config.pipeline.window = 32.into();
    let (expected, meters) = run(&config).await.expect("no error");
    assert!(meters.peak_bytes_in_flight <= meters.budget_bytes);
    config.pipeline.memory = ByteCount(512 << 10);
    for pack in [PackRule::Concat, PackRule::BestFit] {
        config.pipeline.pack = pack;
        let (digests, meters) = ends(run(&config)).await.expect("no error");
        assert!(pack == PackRule::BestFit || digests == expected);
        assert!(meters.peak_bytes_in_flight > meters.budget_bytes, "{meters:?}");
        assert!(meters.peak_bytes_in_flight < 12 << 20, "two windows at most: {meters:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_cannot_even_hold_the_notes_on_a_window_is_refused_with_what_can() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut shuffled = lines(directory.path(), 20_000);
    shuffled.pipeline.memory = ByteCount(256 << 10);
    let mut fitted = shuffled.clone();
    shuffled.pipeline.window = 50_000.into();
    fitted.pipeline.window = 1.into();
    fitted.pipeline.pack = PackRule::BestFit;
    fitted.pipeline.pack_window = 50_000;
    for mut config in [shuffled, fitted] {
        let Err(Error::Config { key, problem, .. }) = open(&config, None).await.map(drop) else {
            panic!("it must be refused");
        };
        assert_eq!(key, "pipeline.memory");
        assert!(problem.contains("for each lane and source, whose windows hold 500"), "{problem}");
        let least = problem.split("must be at least ").nth(1).and_then(|rest| rest.split(',').next());
        config.pipeline.memory = least.expect("a size").parse().expect("a size");
        ends(run(&config)).await.expect("that is enough");
    }
}
