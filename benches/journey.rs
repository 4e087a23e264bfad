//! From files to batches, beside the tokenizer alone on the same documents and threads.
//!
//!     cargo bench --bench journey
//!
//! The swept variable is the number of lanes, over JSON lines of 1 KiB. `loader` reads, splits, tokenizes, shuffles,
//! packs, batches and prefetches; `tokenizer` encodes documents that lie in memory, on as many threads as the loader
//! has workers. Throughput is in bytes of text, so the ratio of the two is the loader's share of the tokenizer's
//! rate; `cargo bench --bench overhead` takes it in pairs, for other documents too.

#[path = "common/mod.rs"]
mod common;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use futures::StreamExt;
use millstream::Loader;
use millstream::config::{Config, SourceConfig, SourceKind};
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::learn::END_OF_TEXT;

const BYTES: usize = 32 << 20;
const FILES: usize = 32;

fn journey(c: &mut Criterion) {
    let text = common::text(BYTES);
    let tokenizer: Arc<dyn Tokenizer> = Arc::new(common::tokenizer(&text[..1 << 20]));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let documents = common::documents(&text, 1 << 10);
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), &documents);
    let mut config = config(directory.path());
    let workers = config.pipeline.most_workers();

    let mut group = c.benchmark_group("journey");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Bytes(documents.iter().map(|document| document.len() as u64).sum()));
    group.bench_function("tokenizer", |b| b.iter(|| encode(&documents, &*tokenizer, workers)));
    for lanes in [1, 2, 4, 16] {
        config.pipeline.lanes = lanes.into();
        group.bench_function(BenchmarkId::new("loader", lanes), |b| {
            b.to_async(&runtime).iter(async || {
                let loader = Loader::builder(&config).with_tokenizer(tokenizer.clone()).open();
                let mut loader = loader.await.expect("it opens");
                while let Some(batch) = loader.next().await {
                    black_box(batch.expect("no error").ids());
                }
            });
        });
    }
    group.finish();
}

/// A config for the documents that lie in `directory`, one epoch of them, 1,024 tokens a row.
fn config(directory: &Path) -> Config {
    let source = SourceConfig {
        kind: SourceKind::Jsonl,
        paths: vec![format!("{}/*", directory.display())],
        field: Some("text".to_owned()),
        ..SourceConfig::default()
    };
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.eos = Some(END_OF_TEXT.to_owned());
    config.pipeline.epochs = Some(1);
    config
}

/// Writes the documents as so many files that every lane has some.
fn write(directory: &Path, documents: &[String]) {
    let line = |document: &String| serde_json::json!({ "id": 1, "text": document }).to_string() + "\n";
    for (number, part) in documents.chunks(documents.len().div_ceil(FILES)).enumerate() {
        let lines: String = part.iter().map(line).collect();
        std::fs::write(directory.join(format!("{number:02}.jsonl")), lines).expect("a file");
    }
}

fn encode(documents: &[String], tokenizer: &dyn Tokenizer, workers: usize) {
    let next = AtomicUsize::new(0);
    let groups: Vec<&[String]> = documents.chunks(documents.len().div_ceil(256)).collect();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut ids = Vec::new();
                while let Some(group) = groups.get(next.fetch_add(1, Relaxed)) {
                    for document in *group {
                        ids.clear();
                        tokenizer.encode(document, &mut ids).expect("it encodes");
                        black_box(&ids);
                    }
                }
            });
        }
    });
}

criterion_group!(benches, journey);
criterion_main!(benches);
