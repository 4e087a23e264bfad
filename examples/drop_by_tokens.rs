//! Drops documents that have too few or too many tokens: a custom stage after the tokenizer.
//!
//!     cargo run --release --example drop_by_tokens
//!
//! The stage holds nothing back, so the cursor in each item is all that it needs to resume. It works the same on text,
//! on token shards and with a token cache.

use std::future::ready;
use std::ops::Range;

use millstream::loader::LoaderBuilder;
use millstream::prelude::*;

const NAME: &str = "20 to 100 tokens";

/// Keeps documents with at least `lengths.start` and fewer than `lengths.end` tokens.
fn drop_by_tokens(loader: LoaderBuilder, lengths: Range<usize>) -> LoaderBuilder {
    loader.token_stage(NAME, move |documents, _start| {
        let lengths = lengths.clone();
        documents.try_filter(move |document| ready(lengths.contains(&document.value.len()))).boxed()
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut config = Config::default().with_source(SourceConfig::text("src/**/*.rs"));
    config.tokenizer = TokenizerConfig::bytes();
    config.pipeline.seq_len = 256;
    config.pipeline.epochs = Some(1);

    let mut loader = drop_by_tokens(Loader::builder(&config), 20..100).open().await?;
    let mut tokens = 0;
    while let Some(batch) = loader.next().await {
        tokens += batch?.tokens();
    }

    // Each custom stage has its own line in the meters, under its name.
    let meters = loader.meters();
    let documents = |stage| meters.stage(stage).map_or(0, |stage| stage.documents);
    println!("{} of {} documents kept, {tokens} tokens", documents(NAME), documents("tokenize"));
    Ok(())
}
