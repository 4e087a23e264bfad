//! Packed rows of 1,024 targets, from documents of 512 ids; the swept variable is the rows of a batch.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use futures::{TryStreamExt, stream};
use millstream::config::{PackRule, Packing};
use millstream::stage::StageExt;
use millstream::{Cursor, Sequence, Tracked};

use super::{drain, runtime, tokens, tracked};

pub(crate) fn bench(c: &mut Criterion) {
    let runtime = runtime();
    let start = Cursor::default();
    let packed = tracked(tokens(512)).pack(Packing::new(PackRule::Concat, 1024), start.at(0, 0));
    let rows: Vec<Tracked<Sequence>> = runtime.block_on(packed.try_collect()).expect("no error");
    let ids: usize = rows.iter().map(|row| row.value.len()).sum();
    let copied = vec![7_u32; ids];
    let mut group = c.benchmark_group("stages/batch");
    group.throughput(Throughput::Elements(ids as u64));
    for size in [1, 4, 16, 64, 256] {
        group.bench_function(BenchmarkId::new("rows", size), |b| {
            b.to_async(&runtime).iter_batched(
                || rows.clone(),
                |rows| drain(stream::iter(rows.into_iter().map(Ok)).batch(size, 0, &start)),
                BatchSize::LargeInput,
            );
        });
        group.bench_function(BenchmarkId::new("memcpy", size), |b| {
            b.iter(|| copied.chunks(size * 1025).for_each(|ids| drop(black_box(ids.to_vec()))));
        });
    }
    group.finish();
}
