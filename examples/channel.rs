//! Reads custom documents, here from an in-memory channel: no file is touched.
//!
//!     cargo run --release --example channel
//!
//! The origin counts its documents, so that a cursor says how many a lane has had: `LaneCursor::after(n)`. The origin
//! decides whether it can go back to that number. This one can, because what it sends depends only on the number.

use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::prelude::*;
use millstream::{LaneCursor, Tracked};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// The documents of one lane from `start` on, sent by another task.
fn documents(lane: usize, start: &LaneCursor) -> DocumentStream {
    let (sender, receiver) = mpsc::channel(16);
    let first = start.documents;
    tokio::spawn(async move {
        for number in first..500 {
            let text = format!("message {number} of lane {lane}");
            // The loader was dropped and closed the channel.
            if sender.send((number, text)).await.is_err() {
                return;
            }
        }
    });
    let tracked = |(number, text)| Ok(Tracked::new(Document::new(text), LaneCursor::after(number + 1)));
    ReceiverStream::new(receiver).map(tracked).boxed()
}

fn builder() -> LoaderBuilder {
    let mut config = Config::default().with_tokenizer(TokenizerConfig::bytes().with_eos("<|endoftext|>"));
    config.pipeline.lanes = 2.into();
    config.pipeline.window = 64.into();
    config.pipeline.seq_len = 64;
    Loader::builder(&config).documents("messages", documents)
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
        let rest = builder().with_cursor(cursor).open().await?.count().await;
        println!("{rest} batches after batch {batch}");
    }
    Ok(())
}
