//! Windows of documents of 64 ids; the swept variable is the documents of a window.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use millstream::LaneCursor;
use millstream::stage::StageExt;

use super::{drain, runtime, tokens, tracked};

pub(crate) fn bench(c: &mut Criterion) {
    let runtime = runtime();
    let start = LaneCursor::default();
    let tokens = tokens(64);
    let mut group = c.benchmark_group("stages/shuffle");
    group.throughput(Throughput::Elements(tokens.len() as u64));
    for window in [1, 64, 1024, 16 << 10] {
        group.bench_function(BenchmarkId::from_parameter(window), |b| {
            b.to_async(&runtime).iter_batched(
                || tokens.clone(),
                |tokens| drain(tracked(tokens).shuffle(window, 42, &start)),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}
