//! A loader to look at with tokio-console: its tasks and blocking jobs have names there.
//!
//!     RUSTFLAGS="--cfg tokio_unstable" cargo run --release --no-default-features --features console --example console
//!     tokio-console

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use millstream::config::SourceConfig;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Config, Loader};

#[tokio::main]
async fn main() -> millstream::Result<()> {
    // Without the flag tokio says nothing of its tasks.
    #[cfg(tokio_unstable)]
    console_subscriber::init();
    let paths = vec!["src/**/*.rs".to_owned()];
    let mut config =
        Config { sources: vec![SourceConfig { paths, ..SourceConfig::default() }], ..Config::default() };
    config.pipeline.epochs = Some(1);
    let mut loader = Loader::builder(&config).tokenizer(Arc::new(ByteTokenizer)).open().await?;
    while let Some(batch) = loader.next().await {
        batch?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{}", loader.meters().verdict());
    Ok(())
}
