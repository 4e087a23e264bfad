//! Opens a loader to watch with tokio-console: its tasks and blocking jobs have names there.
//!
//!     RUSTFLAGS="--cfg tokio_unstable" cargo run --release --no-default-features --features console --example console
//!     tokio-console

use std::time::Duration;

use millstream::prelude::*;

#[tokio::main]
async fn main() -> Result<()> {
    // Without the flag, tokio reports nothing about its tasks.
    #[cfg(tokio_unstable)]
    console_subscriber::init();
    let mut config = Config::default()
        .with_source(SourceConfig::text("src/**/*.rs"))
        .with_tokenizer(TokenizerConfig::bytes());
    config.pipeline.epochs = Some(1);
    let mut loader = Loader::open(&config).await?;
    while let Some(batch) = loader.next().await {
        batch?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{}", loader.meters().verdict());
    Ok(())
}
