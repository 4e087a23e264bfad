//! A loader over documents of one's own, out of an in-memory channel here: no file is touched.
//!
//!     cargo run --release --example channel
//!
//! The origin counts its documents, so that a cursor says how many a lane had: `LaneCursor::after(n)`. Whether
//! it can go back there is up to the origin; this one can, because what it sends is a function of the number.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::StreamExt;
use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Config, Document, LaneCursor, Loader, Result, Tracked};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// The documents of one lane from `start` on, as another task sends them.
fn documents(lane: usize, start: &LaneCursor) -> DocumentStream {
    let (sender, receiver) = mpsc::channel(16);
    let first = start.documents;
    tokio::spawn(async move {
        for number in first..500 {
            let text = format!("message {number} of lane {lane}");
            // A loader that was dropped has closed the channel.
            if sender.send((number, text)).await.is_err() {
                return;
            }
        }
    });
    let tracked = |(number, text)| Ok(Tracked::new(Document::new(text), LaneCursor::after(number + 1)));
    ReceiverStream::new(receiver).map(tracked).boxed()
}

fn builder() -> LoaderBuilder {
    let mut config = Config::default();
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    config.pipeline.lanes = NonZeroUsize::new(2).expect("two").into();
    config.pipeline.window = NonZeroUsize::new(64).expect("some").into();
    config.pipeline.seq_len = 64;
    Loader::builder(&config).tokenizer(Arc::new(ByteTokenizer)).documents("messages", documents)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut loader = builder().open().await?;
    let (mut count, mut tokens, mut middle) = (0, 0, None);
    while let Some(batch) = loader.next().await {
        let batch = batch?;
        tokens += batch.tokens();
        count += 1;
        if count == 10 {
            middle = Some(batch.cursor().clone());
        }
    }
    println!("{count} batches, {tokens} tokens out of channels");

    if let Some(cursor) = middle {
        let batch = cursor.batch();
        let rest = builder().cursor(cursor).open().await?.count().await;
        println!("{rest} batches after batch {batch}");
    }
    Ok(())
}
