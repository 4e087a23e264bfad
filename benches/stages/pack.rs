//! Rows of 1,024 targets, by each rule; the swept variable is the ids of a document.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use millstream::LaneCursor;
use millstream::config::{PackRule, Packing};
use millstream::stage::StageExt;

use super::{TOKENS, drain, runtime, tokens, tracked};

pub(crate) fn bench(c: &mut Criterion) {
    let runtime = runtime();
    let start = LaneCursor::default();
    let mut group = c.benchmark_group("stages/pack");
    group.throughput(Throughput::Elements(TOKENS as u64));
    for length in [32, 512, 8192] {
        let tokens = tokens(length);
        for mode in [PackRule::Concat, PackRule::Pad, PackRule::BestFit] {
            group.bench_with_input(BenchmarkId::new(mode.to_string(), length), &tokens, |b, tokens| {
                b.to_async(&runtime).iter_batched(
                    || tokens.clone(),
                    |tokens| drain(tracked(tokens).pack(Packing::new(mode, 1024), &start)),
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}
