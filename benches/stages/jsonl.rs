//! JSON lines; the swept variable is the bytes of a text.

use std::borrow::Cow;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use millstream::LaneCursor;
use millstream::config::SourceConfig;
use millstream::source::Source;
use serde::Deserialize;

use super::{common, drain, runtime};

/// What your own program would parse.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

pub(crate) fn bench(c: &mut Criterion) {
    let runtime = runtime();
    let text = common::text(16 << 20);
    let mut group = c.benchmark_group("stages/jsonl");
    for bytes in [80, 1 << 10, 8 << 10] {
        let documents = common::documents(&text, bytes);
        let line = |text: &String| serde_json::json!({ "id": 1, "text": text }).to_string() + "\n";
        let lines: String = documents.iter().map(line).collect();
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("lines"), &lines).expect("a file");
        let config = SourceConfig::jsonl(format!("{}/*", directory.path().display()), "text");
        let source = runtime.block_on(Source::open(&[config])).expect("it opens");
        group.throughput(Throughput::Bytes(lines.len() as u64));
        group.bench_function(BenchmarkId::new("lines", bytes), |b| {
            b.to_async(&runtime).iter(|| drain(source.documents(&LaneCursor::default())))
        });
        group.bench_function(BenchmarkId::new("serde_json", bytes), |b| {
            b.iter(|| {
                for line in lines.lines() {
                    let line: Line<'_> = serde_json::from_str(line).expect("JSON");
                    black_box(line.text.len());
                }
            })
        });
    }
    group.finish();
}
