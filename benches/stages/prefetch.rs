//! The queue behind the pipeline's task; the swept variable is the depth.

use criterion::{BenchmarkId, Criterion, Throughput};
use futures::stream;
use millstream::stage::StageExt;

use super::{drain, runtime};

pub(crate) fn bench(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("stages/prefetch");
    group.throughput(Throughput::Elements(10_000));
    for depth in [1, 4, 16] {
        group.bench_with_input(BenchmarkId::from_parameter(depth), &depth, |b, &depth| {
            b.to_async(&runtime)
                .iter(|| async { drain(stream::iter((0..10_000).map(Ok)).prefetch(depth)).await });
        });
    }
    group.finish();
}
