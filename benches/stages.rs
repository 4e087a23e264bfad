//! Each stage alone, over items that lie in memory.
//!
//!     cargo bench --bench stages
//!
//! The swept variable is the length of the documents. Throughput is in documents for the source, the
//! shuffle and the tokenizer's stage, and in tokens for packing and batching.

#[path = "common/mod.rs"]
mod common;

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::{Stream, StreamExt, stream};
use millstream::config::{Pack, Packing, SourceConfig};
use millstream::source::Source;
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::Encoder;
use millstream::{Cursor, Document, LaneCursor, Result, Tokens, Tracked};

const LENGTHS: [usize; 3] = [32, 512, 8192];
const TOKENS: usize = 1 << 20;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

fn n(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("not zero")
}

fn tracked<T>(values: Vec<T>) -> impl Stream<Item = Result<Tracked<T>>> + Unpin {
    stream::iter(
        values
            .into_iter()
            .enumerate()
            .map(|(i, value)| Ok(Tracked::new(value, LaneCursor::after(i as u64 + 1)))),
    )
}

fn tokens(length: usize) -> Vec<Tokens> {
    (0..TOKENS / length).map(|_| Tokens::new((0..length as u32).collect(), 4 * length)).collect()
}

async fn drain<S: Stream + Unpin>(mut stream: S) {
    while let Some(item) = stream.next().await {
        black_box(&item);
    }
}

fn source(c: &mut Criterion) {
    let text = common::text(8 << 20);
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("lines"), &text).expect("a file");
    let paths = vec![format!("{}/*", directory.path().display())];
    let runtime = runtime();
    let source = runtime
        .block_on(Source::open(&[SourceConfig { paths, ..SourceConfig::default() }]))
        .expect("it opens");
    let mut group = c.benchmark_group("source");
    group.throughput(Throughput::Elements(text.lines().filter(|line| !line.is_empty()).count() as u64));
    group.bench_function("lines", |b| {
        b.to_async(&runtime).iter(|| drain(source.documents(&LaneCursor::default())))
    });
    group.finish();
}

fn tokenize(c: &mut Criterion) {
    let text = common::text(4 << 20);
    let encoder = Encoder::new(Arc::new(common::tokenizer(&text[..1 << 20])));
    let runtime = runtime();
    let mut group = c.benchmark_group("tokenize");
    group.sample_size(20);
    for size in [0, 1 << 10, 16 << 10] {
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

fn shuffle(c: &mut Criterion) {
    let runtime = runtime();
    let start = LaneCursor::default();
    let mut group = c.benchmark_group("shuffle");
    for length in LENGTHS {
        let tokens = tokens(length);
        group.throughput(Throughput::Elements(tokens.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(length), &tokens, |b, tokens| {
            b.to_async(&runtime).iter_batched(
                || tokens.clone(),
                |tokens| drain(tracked(tokens).shuffle(n(2048), 42, &start)),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn pack(c: &mut Criterion) {
    let runtime = runtime();
    let start = LaneCursor::default();
    for mode in [Pack::Concat, Pack::Pad, Pack::BestFit] {
        let mut group = c.benchmark_group(format!("pack/{mode}"));
        group.throughput(Throughput::Elements(TOKENS as u64));
        for length in LENGTHS {
            let tokens = tokens(length);
            group.bench_with_input(BenchmarkId::from_parameter(length), &tokens, |b, tokens| {
                b.to_async(&runtime).iter_batched(
                    || tokens.clone(),
                    |tokens| drain(tracked(tokens).pack(Packing::new(mode, 1024), &start)),
                    BatchSize::LargeInput,
                );
            });
        }
        group.finish();
    }
}

fn batch(c: &mut Criterion) {
    let runtime = runtime();
    let start = Cursor::default();
    let mut group = c.benchmark_group("pack and batch");
    group.throughput(Throughput::Elements(TOKENS as u64));
    for length in LENGTHS {
        let tokens = tokens(length);
        group.bench_with_input(BenchmarkId::from_parameter(length), &tokens, |b, tokens| {
            b.to_async(&runtime).iter_batched(
                || tokens.clone(),
                |tokens| {
                    drain(tracked(tokens).pack(Packing::new(Pack::Concat, 1024), start.at(0, 0)).batch(
                        n(16),
                        0,
                        &start,
                    ))
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn prefetch(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("prefetch");
    group.throughput(Throughput::Elements(10_000));
    for depth in [1, 4, 16] {
        group.bench_with_input(BenchmarkId::from_parameter(depth), &depth, |b, &depth| {
            b.to_async(&runtime)
                .iter(|| async { drain(stream::iter((0..10_000).map(Ok)).prefetch(n(depth))).await });
        });
    }
    group.finish();
}

criterion_group!(benches, source, tokenize, shuffle, pack, batch, prefetch);
criterion_main!(benches);
