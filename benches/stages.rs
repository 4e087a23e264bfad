//! Each stage alone: one swept variable a file.
//!
//!     cargo bench -- stages
//!     cargo bench -- stages/shuffle
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

mod batch;
mod jsonl;
mod pack;
mod prefetch;
mod shards;
mod shuffle;
mod source;
mod tokenize;

use std::hint::black_box;

use criterion::Criterion;
use futures::{Stream, StreamExt, stream};
use millstream::{LaneCursor, Result, Tokens, Tracked};

use crate::common::{self, runtime};

/// How many ids the stages that move ids are given.
const TOKENS: usize = 1 << 20;

pub(crate) fn run(c: &mut Criterion) {
    source::bench(c);
    jsonl::bench(c);
    tokenize::bench(c);
    shuffle::bench(c);
    pack::bench(c);
    batch::bench(c);
    prefetch::bench(c);
    shards::bench(c);
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
