//! What latency costs: a corpus behind an HTTP server on loopback, with and without it.
//!
//! `cargo bench --no-default-features --features stores --bench store` prints, for each latency, how long the first
//! batch took and how fast the batches behind the first tenth came.

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/store/server.rs"]
mod server;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use millstream::config::{Config, SourceConfig};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Loader, Result};
use server::{Content, Server};

/// How long the corpora are, in bytes.
const BYTES: usize = 512 << 20;

fn main() -> Result<()> {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let bytes = if is_test { 4 << 20 } else { BYTES };
    for (name, files) in [("long files", 4), ("small files", bytes >> 16)] {
        let server = serve(files, bytes / files);
        for latency in [0, 50, 200] {
            *server.state.latency.lock().expect("no panic") = Duration::from_millis(latency);
            let (first, rate) = measure(&server, files)?;
            let (first, rate) = (first.as_secs_f64() * 1e3, rate / 1e6);
            println!("{name:12} {latency:4} ms latency: first batch {first:7.0} ms, then {rate:7.1} MB/s");
        }
    }
    Ok(())
}

fn serve(files: usize, len: usize) -> Server {
    let line = "a line of text as it stands in a corpus, neither long nor short, and read by nobody\n";
    let text = line.repeat(len / line.len());
    Server::new((0..files).map(|file| (format!("{file}.txt"), Content::new(text.clone()))))
}

/// The time to the first batch, and the bytes of text a second from the tenth part of the corpus on.
fn measure(server: &Server, files: usize) -> Result<(Duration, f64)> {
    let paths = (0..files).map(|file| server.url(&format!("{file}.txt"))).collect();
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..Config::default() };
    config.pipeline.epochs = Some(1);
    config.pipeline.batch_size = NonZeroUsize::new(64).expect("not zero");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut loader = Loader::builder(&config).tokenizer(Arc::new(ByteTokenizer)).open().await?;
        let began = Instant::now();
        let (mut first, mut read, mut from) = (None, 0, None);
        let total: u64 =
            server.state.files.lock().expect("no panic").values().map(|it| it.bytes.len() as u64).sum();
        while let Some(batch) = loader.try_next().await? {
            first.get_or_insert_with(|| began.elapsed());
            read += batch.text_bytes();
            if read > total / 10 {
                from.get_or_insert_with(|| (Instant::now(), read));
            }
        }
        let (since, before) = from.unwrap_or((began, 0));
        let rate = (read - before) as f64 / since.elapsed().as_secs_f64();
        Ok((first.unwrap_or_default(), rate))
    })
}
