//! A loader over a stream of one's own, an in-memory channel here: no file is touched.
//!
//!     cargo run --release --example channel
//!
//! A source that counts its documents can say where it is: `LaneCursor::after(n)`. Whether it can go
//! back there is up to the source; this one can, because what it sends is a function of the number.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use millstream::config::{Pack, Packing};
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{ByteTokenizer, Encoder};
use millstream::{Cursor, Document, LaneCursor, Result, Tracked};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const WINDOW: NonZeroUsize = NonZeroUsize::new(64).unwrap();
const BATCH_SIZE: NonZeroUsize = NonZeroUsize::new(8).unwrap();
const DEPTH: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// Documents from `start` on, as another task sends them.
fn documents(start: &LaneCursor) -> impl Stream<Item = Result<Tracked<Document>>> + Unpin + use<> {
    let (sender, receiver) = mpsc::channel(16);
    let first = start.documents;
    tokio::spawn(async move {
        for number in first..1000 {
            // A loader that was dropped has closed the channel.
            if sender.send((number, format!("message {number} of many"))).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(receiver)
        .map(|(number, text)| Ok(Tracked::new(Document::new(text), LaneCursor::after(number + 1))))
}

fn batches(start: &Cursor) -> Result<impl Stream<Item = Result<millstream::Batch>> + Unpin + use<>> {
    let encoder = Encoder::new(Arc::new(ByteTokenizer)).with_eos("<|endoftext|>")?;
    let at = start.at(0, 0);
    Ok(documents(at)
        .tokenize(&encoder, &Workers::new(2))
        .shuffle(WINDOW, 42, at)
        .pack(Packing::new(Pack::Concat, 64), at)
        .batch(BATCH_SIZE, encoder.pad(), start)
        .prefetch(DEPTH))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut loader = batches(&Cursor::default())?;
    let (mut count, mut tokens, mut middle) = (0, 0, None);
    while let Some(batch) = loader.next().await {
        let batch = batch?;
        tokens += batch.tokens();
        count += 1;
        if count == 20 {
            middle = Some(batch.cursor().clone());
        }
    }
    println!("{count} batches, {tokens} tokens out of a channel");

    if let Some(cursor) = middle {
        let rest = batches(&cursor)?.count().await;
        println!("{rest} batches after batch {}", cursor.batch());
    }
    Ok(())
}
