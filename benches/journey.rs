//! From files to batches, beside the tokenizer alone on the same documents and threads.
//!
//!     cargo bench -- journey
//!
//! The swept variable is the number of lanes, over JSON lines of 1 KiB. `loader` reads, splits, tokenizes, shuffles,
//! packs, batches and prefetches; `tokenizer` encodes documents that lie in memory, on as many threads as the loader
//! has workers. Throughput is in bytes of text, so the ratio of the two is the loader's share of the tokenizer's
//! rate; `cargo bench -- overhead` takes it in pairs, for other documents too.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use futures::StreamExt;
use millstream::config::SourceConfig;
use millstream::tokenizer::Tokenizer;

use crate::common::{self, one_epoch, open, runtime};

const BYTES: usize = 32 << 20;
const FILES: usize = 32;

pub(crate) fn run(c: &mut Criterion) {
    let text = common::text(BYTES);
    let tokenizer: Arc<dyn Tokenizer> = Arc::new(common::learned(&text[..1 << 20], 4096));
    let runtime = runtime();
    let documents = common::documents(&text, 1 << 10);
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), &documents);
    let mut config = one_epoch(SourceConfig::jsonl(format!("{}/*", directory.path().display()), "text"));
    let workers = config.pipeline.most_workers();

    let mut group = c.benchmark_group("journey");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Bytes(documents.iter().map(|document| document.len() as u64).sum()));
    group.bench_function("tokenizer", |b| b.iter(|| common::encode(&documents, &*tokenizer, workers)));
    for lanes in [1, 2, 4, 16] {
        config.pipeline.lanes = lanes.into();
        group.bench_function(BenchmarkId::new("loader", lanes), |b| {
            b.to_async(&runtime).iter(async || {
                let mut loader = open(&config, &tokenizer, None).await;
                while let Some(batch) = loader.next().await {
                    black_box(batch.expect("no error").ids());
                }
            });
        });
    }
    group.finish();
}

/// Writes the documents as so many files that every lane has some.
fn write(directory: &Path, documents: &[String]) {
    let line = |document: &String| serde_json::json!({ "id": 1, "text": document }).to_string() + "\n";
    for (number, part) in documents.chunks(documents.len().div_ceil(FILES)).enumerate() {
        let lines: String = part.iter().map(line).collect();
        std::fs::write(directory.join(format!("{number:02}.jsonl")), lines).expect("a file");
    }
}
