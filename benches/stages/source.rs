//! Lines of text; the swept variable is the bytes of a line.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use millstream::LaneCursor;
use millstream::config::SourceConfig;
use millstream::source::Source;

use super::{common, drain, runtime};

pub(crate) fn bench(c: &mut Criterion) {
    let runtime = runtime();
    let text = common::text(16 << 20);
    let mut group = c.benchmark_group("stages/source");
    for bytes in [32, 128, 1 << 10, 8 << 10] {
        let lines = common::documents(&text, bytes).into_iter().map(|line| line.replace('\n', " ") + "\n");
        let lines: String = lines.collect();
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("lines"), &lines).expect("a file");
        let config = SourceConfig::text(format!("{}/*", directory.path().display()));
        let source = runtime.block_on(Source::open(&[config])).expect("it opens");
        group.throughput(Throughput::Bytes(lines.len() as u64));
        group.bench_function(BenchmarkId::new("lines", bytes), |b| {
            b.to_async(&runtime).iter(|| drain(source.documents(&LaneCursor::default())))
        });
        group.bench_function(BenchmarkId::new("memchr", bytes), |b| {
            b.iter(|| memchr::memchr_iter(b'\n', black_box(lines.as_bytes())).count())
        });
    }
    group.finish();
}
