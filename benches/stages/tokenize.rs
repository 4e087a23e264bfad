//! Groups of documents on blocking threads; the swept variable is the bytes of a document.

use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use millstream::Document;
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::Encoder;

use super::{common, drain, runtime, tracked};

pub(crate) fn bench(c: &mut Criterion) {
    let text = common::text(4 << 20);
    let encoder = Encoder::new(Arc::new(common::learned(&text[..1 << 20], 4096)));
    let runtime = runtime();
    let mut group = c.benchmark_group("stages/tokenize");
    group.sample_size(20);
    for size in [32, 1 << 10, 16 << 10] {
        let documents: Vec<Document> =
            common::documents(&text, size).into_iter().map(Document::new).collect();
        group.throughput(Throughput::Elements(documents.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(size), &documents, |b, documents| {
            b.to_async(&runtime).iter_batched(
                || documents.clone(),
                |documents| drain(tracked(documents).tokenize(&encoder, &Workers::new(2))),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}
