//! A loader over token shards, all stages on; the swept variable is the shape of a batch.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use millstream::Loader;
use millstream::config::{Config, SourceConfig, TokenizerConfig};
use millstream::prepare::prepare;

use super::{common, drain, runtime};

pub(crate) fn bench(c: &mut Criterion) {
    let runtime = runtime();
    let directory = tempfile::tempdir().expect("a directory");
    let text = common::text(16 << 20);
    std::fs::write(directory.path().join("text"), &text).expect("a file");
    let place = |name: &str| directory.path().join(name).display().to_string();
    let of = |source: SourceConfig| {
        let mut config = Config::default().with_source(source).with_tokenizer(TokenizerConfig::bytes());
        config.pipeline.window = 1024.into();
        config.pipeline.epochs = Some(1);
        config
    };
    let config = of(SourceConfig::text(place("text")));
    let shards = directory.path().join("shards");
    runtime.block_on(prepare(&config, &shards, |_| {})).expect("prepared");
    let tokens: usize = text.lines().filter(|line| !line.trim().is_empty()).map(str::len).sum();
    let copied = vec![7_u32; tokens];
    let mut group = c.benchmark_group("stages/shards");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Elements(tokens as u64));
    for (rows, seq_len) in [(4, 256), (16, 1024), (64, 2048)] {
        let mut config = of(SourceConfig::shards(place("shards")));
        (config.pipeline.batch_size, config.pipeline.seq_len) = (rows, seq_len);
        let shape = format!("{rows}x{seq_len}");
        group.bench_function(BenchmarkId::new("loader", &shape), |b| {
            b.to_async(&runtime).iter(async || {
                drain(Loader::open(&config).await.expect("it opens")).await;
            });
        });
        group.bench_function(BenchmarkId::new("memcpy", &shape), |b| {
            b.iter(|| copied.chunks(rows * (seq_len + 1)).for_each(|ids| drop(black_box(ids.to_vec()))));
        });
    }
    group.finish();
}
