//! Each stage alone: one swept variable a file.
//!
//!     cargo bench --bench stages
//!     cargo bench --bench stages -- shuffle
//!
//! | group | swept | beside it, in the same run |
//! |---|---|---|
//! | `source` | bytes of a line | finding the line ends of the same text in memory |
//! | `jsonl` | bytes of a text | parsing the same lines in memory |
//! | `tokenize` | bytes of a document | |
//! | `shuffle` | documents of a window | |
//! | `pack` | ids of a document, by each rule | |
//! | `batch` | rows of a batch | copying the same ids |
//! | `prefetch` | depth | |
//! | `shards` | the shape of a batch | copying the same ids |
//!
//! Stages stand over items that lie in memory, but for `source`, `jsonl` and `shards`, which read files that the
//! system has in memory. Throughput is in bytes of text for the first two, in tokens where ids are moved, and in
//! documents or batches elsewhere.

#[path = "stages/batch.rs"]
mod batch;
#[path = "common/mod.rs"]
mod common;
#[path = "stages/jsonl.rs"]
mod jsonl;
#[path = "stages/pack.rs"]
mod pack;
#[path = "stages/prefetch.rs"]
mod prefetch;
#[path = "stages/shards.rs"]
mod shards;
#[path = "stages/shuffle.rs"]
mod shuffle;
#[path = "stages/source.rs"]
mod source;
#[path = "stages/tokenize.rs"]
mod tokenize;

use std::hint::black_box;

use criterion::{criterion_group, criterion_main};
use futures::{Stream, StreamExt, stream};
use millstream::{LaneCursor, Result, Tokens, Tracked};

/// How many ids the stages that move ids are given.
const TOKENS: usize = 1 << 20;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

fn tracked<T>(values: Vec<T>) -> impl Stream<Item = Result<Tracked<T>>> + Unpin {
    stream::iter(
        values
            .into_iter()
            .enumerate()
            .map(|(i, value)| Ok(Tracked::new(value, LaneCursor::after(i as u64 + 1)))),
    )
}

/// Documents of so many ids.
fn tokens(length: usize) -> Vec<Tokens> {
    (0..TOKENS / length).map(|_| Tokens::new((0..length as u32).collect(), 4 * length)).collect()
}

async fn drain<S: Stream + Unpin>(mut stream: S) {
    while let Some(item) = stream.next().await {
        black_box(&item);
    }
}

criterion_group!(
    benches,
    source::bench,
    jsonl::bench,
    tokenize::bench,
    shuffle::bench,
    pack::bench,
    batch::bench,
    prefetch::bench,
    shards::bench
);
criterion_main!(benches);
