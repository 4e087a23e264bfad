//! Token shards on a server, beside `object_store` alone. Then with a cache that has everything, beside the same shards on disk. Last with all documents
//! shuffled together, beside windows: in the store, and on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use millstream::config::{Config, ShuffleRule, SourceConfig, TokenizerConfig};
use millstream::prepare::prepare;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Loader, Result};

use super::{LINE, alone};
use crate::common::{median, runtime, serve};

/// How often each pair is measured; the median counts.
pub(crate) const ROUNDS: usize = 5;

/// How many batches of documents that are shuffled together are read: in a store each document is a request.
const SHUFFLED: usize = 40;

/// How many lines a document has.
const LINES: usize = 24;

/// Prints how fast shards of `bytes` of text are read.
pub(crate) fn compare(bytes: usize, rounds: usize) -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = runtime();
    let shards = directory.path().join("shards");
    runtime.block_on(made(bytes, directory.path(), &shards))?;
    let server = serve(&shards);
    for latency in [0, 50] {
        *server.state.latency.lock().expect("no panic") = Duration::from_millis(latency);
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            let far = config(server.url("corpus"));
            server.requests();
            let ours = runtime.block_on(epoch(&far, usize::MAX))?;
            let ranges = alone::ranges(&server);
            let fetched: u64 = ranges.iter().map(|(_, range)| range.end - range.start).sum();
            let alone = runtime.block_on(alone::replayed(&server, &ranges, far.store.concurrency));
            let rate = |time: Duration| fetched as f64 / time.as_secs_f64() / 1e6;
            println!(
                "shards       {latency:4} ms latency: {:7.1} MB/s, object_store alone {:7.1} MB/s, {:6} requests",
                rate(ours),
                rate(alone),
                ranges.len()
            );
            ratios.push(alone.as_secs_f64() / ours.as_secs_f64());
        }
        println!("shards       {latency:4} ms latency: {:.0}% of object_store alone", 100.0 * median(ratios));
    }
    // Everything is kept at the first reading.
    let mut kept = config(server.url("corpus"));
    kept.store.cache = Some(directory.path().join("cache"));
    runtime.block_on(epoch(&kept, usize::MAX))?;
    let near = config(shards.display().to_string());
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let [ours, local] = [&kept, &near].map(|config| runtime.block_on(epoch(config, usize::MAX)));
        ratios.push(local?.as_secs_f64() / ours?.as_secs_f64());
    }
    println!("shards       from a warm cache: {:.0}% of the rate from disk", 100.0 * median(ratios));
    for (place, config) in [("at 50 ms latency", config(server.url("corpus"))), ("on disk", near)] {
        let mut shuffled = config.clone();
        shuffled.pipeline.shuffle = ShuffleRule::Global;
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            let [all, windows] = [&shuffled, &config].map(|config| runtime.block_on(epoch(config, SHUFFLED)));
            ratios.push(windows?.as_secs_f64() / all?.as_secs_f64());
        }
        println!(
            "shards       {place}, shuffle = \"global\": {:.0}% of the rate of windows",
            100.0 * median(ratios)
        );
    }
    Ok(())
}

/// Prepares shards of some text.
async fn made(bytes: usize, directory: &Path, shards: &Path) -> Result<()> {
    let document = LINE.trim_end().repeat(LINES) + "\n";
    let path = directory.join("text.txt");
    std::fs::write(&path, document.repeat(bytes / document.len())).expect("written");
    let source = SourceConfig::text(path.display().to_string());
    let config = Config::default().with_source(source).with_tokenizer(TokenizerConfig::bytes());
    prepare(&config, shards, |_| {}).await.map(drop)
}

fn config(place: String) -> Config {
    let mut config = Config::default().with_source(SourceConfig::shards(place));
    (config.pipeline.epochs, config.pipeline.batch_size) = (Some(1), 64);
    config
}

/// How long it takes to read all batches, or so many, once the loader is open.
async fn epoch(config: &Config, batches: usize) -> Result<Duration> {
    let mut loader = Loader::builder(config).with_tokenizer(Arc::new(ByteTokenizer)).open().await?;
    let began = Instant::now();
    let mut left = batches;
    while left > 0 && loader.try_next().await?.is_some() {
        left -= 1;
    }
    Ok(began.elapsed())
}
