//! What latency costs: a corpus behind an HTTP server on loopback, with and without it.
//!
//!     cargo bench -- store
//!     cargo bench -- store shards
//!
//! For each latency it prints how long the first batch took, how fast the batches behind the first tenth came, and how
//! many requests there were. Small files, of 64 KiB, are read twice: with as many requests under way as is the default,
//! and with 512. Token shards are read beside `object_store` alone, and beside the same shards on disk.

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
            let (first, rate) = corpus.measure(&server)?;
            let requests = server.requests().len();
            let (first, rate, name) = (first.as_secs_f64() * 1e3, rate / 1e6, corpus.name);
            println!(
                "{name:12} {latency:4} ms latency: first batch {first:7.0} ms, then {rate:7.1} MB/s, {requests:6} requests"
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

    /// The time to the first batch, and the bytes of text a second from the tenth part of the corpus on.
    fn measure(&self, server: &Server) -> Result<(Duration, f64)> {
        let paths = (0..self.files).map(|file| server.url(&format!("{file}"))).collect();
        let field = (self.kind == SourceKind::Parquet).then(|| "text".to_owned());
        let source = SourceConfig { kind: self.kind, paths, field, ..SourceConfig::default() };
        let mut config = Config { sources: vec![source], ..Config::default() };
        config.pipeline.epochs = Some(1);
        config.pipeline.batch_size = 64;
        if self.concurrency > 0 {
            config.store.concurrency = self.concurrency;
        }
        runtime().block_on(async {
            let mut loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer)).open().await?;
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
}
