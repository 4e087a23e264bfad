//! What latency costs: a corpus behind an HTTP server on loopback, with and without it.
//!
//!     cargo bench -- store
//!     cargo bench -- store shards
//!
//! For each latency it prints how long the first batch took, how fast an epoch came, how many requests there were, and
//! how fast `object_store` alone is: the same ranges, requested again in their order, as many at once. Small files, of
//! 64 KiB, are read twice: with as many requests under way as is the default, and with 512. Token shards are also
//! compared with the same shards on disk.

mod alone;
mod shards;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use millstream::config::{Config, SourceConfig, SourceKind};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Loader, Result};
use parquet::file::properties::WriterProperties;

use crate::common::{runtime, write_parquet};
use crate::server::{Content, Server};

/// How long the corpora are, in bytes.
const BYTES: usize = 512 << 20;

const LINE: &str = "a line of text as it stands in a corpus, neither long nor short, and read by nobody\n";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The only corpus that is read, by its first letters: `long`, `small`, `parquet` or `shards`
    corpus: Option<String>,
}

/// What is read.
struct Corpus {
    name: &'static str,
    kind: SourceKind,
    files: usize,
    /// Requests under way; the default if 0.
    concurrency: usize,
}

pub(crate) fn run(options: &Options, is_trial: bool) -> Result<()> {
    let bytes = if is_trial { 4 << 20 } else { BYTES };
    let corpora = [
        Corpus { name: "long files", kind: SourceKind::Text, files: 4, concurrency: 0 },
        Corpus { name: "small files", kind: SourceKind::Text, files: bytes >> 16, concurrency: 0 },
        Corpus { name: "small, 512", kind: SourceKind::Text, files: bytes >> 16, concurrency: 512 },
        Corpus { name: "parquet", kind: SourceKind::Parquet, files: 4, concurrency: 0 },
    ];
    let is_asked = |name: &str| options.corpus.as_deref().is_none_or(|asked| name.starts_with(asked));
    for corpus in corpora.into_iter().filter(|corpus| is_asked(corpus.name)) {
        let server = corpus.serve(bytes / corpus.files);
        for latency in [0, 50, 200] {
            *server.state.latency.lock().expect("no panic") = Duration::from_millis(latency);
            server.requests();
            let config = corpus.config(&server);
            let (first, ours) = runtime().block_on(epoch(&config))?;
            let requests = alone::ranges(&server);
            let alone = runtime().block_on(alone::replayed(&server, &requests, config.store.concurrency));
            let fetched: u64 = requests.iter().map(|(_, range)| range.end - range.start).sum();
            let (rate, requests) = (fetched as f64 / ours.as_secs_f64() / 1e6, requests.len());
            let share = 100.0 * alone.as_secs_f64() / ours.as_secs_f64();
            let (first, name) = (first.as_secs_f64() * 1e3, corpus.name);
            println!(
                "{name:12} {latency:4} ms latency: first batch {first:5.0} ms, {rate:6.1} MB/s, {requests:5} requests, \
                 {share:3.0}% of object_store alone"
            );
        }
    }
    if is_asked("shards") {
        shards::compare(bytes, if is_trial { 1 } else { shards::ROUNDS })?;
    }
    Ok(())
}

impl Corpus {
    /// Files of about `len` bytes.
    fn serve(&self, len: usize) -> Server {
        let lines = len / LINE.len();
        let content = match self.kind {
            SourceKind::Parquet => {
                // Row groups of about 16 MiB.
                let properties = WriterProperties::builder()
                    .set_dictionary_enabled(false)
                    .set_max_row_group_row_count(Some((16 << 20) / LINE.len()));
                write_parquet(std::iter::repeat_n(LINE, lines), properties.build(), Vec::new())
            }
            _ => LINE.repeat(lines).into_bytes(),
        };
        Server::new((0..self.files).map(|file| (format!("{file}"), Content::new(content.clone()))))
    }

    fn config(&self, server: &Server) -> Config {
        let paths = (0..self.files).map(|file| server.url(&format!("{file}"))).collect();
        let field = (self.kind == SourceKind::Parquet).then(|| "text".to_owned());
        let source = SourceConfig { kind: self.kind, paths, field, ..SourceConfig::default() };
        let mut config = Config { sources: vec![source], ..Config::default() };
        config.pipeline.epochs = Some(1);
        config.pipeline.batch_size = 64;
        if self.concurrency > 0 {
            config.store.concurrency = self.concurrency;
        }
        config
    }
}

/// The time to the first batch and to the end, once the loader is open.
async fn epoch(config: &Config) -> Result<(Duration, Duration)> {
    let mut loader = Loader::builder(config).with_tokenizer(Arc::new(ByteTokenizer)).open().await?;
    let began = Instant::now();
    let mut first = None;
    while loader.try_next().await?.is_some() {
        first.get_or_insert_with(|| began.elapsed());
    }
    Ok((first.unwrap_or_default(), began.elapsed()))
}
