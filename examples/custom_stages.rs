//! Three custom stages: a filter, a text normaliser, and a stateful stage that resumes exactly.
//!
//!     cargo run --release --example custom_stages
//!
//! The first two hold nothing back, so a combinator from `futures` is all they need: each item carries its cursor. The
//! third remembers documents. It follows the rule of all stages in the crate, cursor = anchor + skip: it forgets
//! everything at fixed places, and `Anchor` counts from there.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::{Stream, future};
use millstream::config::{PackRule, Packing};
use millstream::conformance;
use millstream::cursor::Anchor;
use millstream::prelude::*;
use millstream::stage::Workers;
use millstream::tokenizer::{ByteTokenizer, Encoder};
use millstream::{LaneCursor, Source, Tracked};

/// Drops documents that came before among the same `block` documents.
struct Dedup<S> {
    documents: S,
    block: usize,
    seen: HashSet<blake3::Hash>,
    read: usize,
    last: LaneCursor,
    anchor: Anchor,
}

impl<S> Dedup<S> {
    fn new(documents: S, block: usize, start: &LaneCursor) -> Self {
        Self { documents, block, seen: HashSet::new(), read: 0, last: *start, anchor: Anchor::resume(start) }
    }
}

impl<S> Stream for Dedup<S>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    type Item = Result<Tracked<Document>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let document = match ready!(self.documents.poll_next_unpin(cx)) {
                Some(Ok(document)) => document,
                end => return Poll::Ready(end),
            };
            if self.read == self.block {
                // Nothing is held any more: resuming here need not read what came before.
                let last = self.last;
                self.anchor.rebase(&last);
                self.seen.clear();
                self.read = 0;
            }
            self.read += 1;
            self.last = document.cursor;
            if !self.seen.insert(blake3::hash(document.value.text().as_bytes())) {
                continue;
            }
            // `None` means that it was delivered before the interruption.
            if let Some(cursor) = self.anchor.deliver(&document.cursor) {
                return Poll::Ready(Some(Ok(Tracked::new(document.value, cursor))));
            }
        }
    }
}

/// The documents after all three stages.
fn stages(
    source: &Source,
    start: &LaneCursor,
) -> impl Stream<Item = Result<Tracked<Document>>> + Unpin + Send + use<> {
    let documents = source
        .documents(start)
        // A filter: whatever it drops, it drops again after a resume.
        .try_filter(|document| future::ready(document.value.text().len() > 3))
        // A normaliser: another text, the same position and cursor.
        .map_ok(|document| {
            document.map(|document| document.with_text(document.text().trim_start().to_lowercase()))
        });
    Dedup::new(documents, 1000, start)
}

#[tokio::main]
async fn main() -> Result<()> {
    let source = Source::open(&[SourceConfig::text("src/**/*.rs")]).await?;

    // Resume at each of the first 300 documents: every resume is exact.
    let open = async |start: &LaneCursor| {
        Ok(stages(&source, start).map_ok(|document| (document.value.text().to_owned(), document.cursor)))
    };
    match conformance::check(&LaneCursor::default(), open, 300).await {
        Ok(()) => println!("the stages keep the laws of order and resume"),
        Err(problem) => println!("the stages break a law: {problem}"),
    }

    // The stages fit anywhere in the chain; what follows does not need to know about them.
    let start = Cursor::default();
    let encoder = Encoder::new(Arc::new(ByteTokenizer)).with_eos("<|endoftext|>")?;
    let at = start.at(0, 0);
    let batches = stages(&source, at)
        .tokenize(&encoder, &Workers::new(2))
        .shuffle(256, 42, at)
        .pack(Packing::new(PackRule::Concat, 128), at)
        .batch(16, encoder.pad(), &start)
        .prefetch(4);
    let batches: Vec<_> = batches.try_collect().await?;
    println!("{} batches of distinct lines", batches.len());
    Ok(())
}
