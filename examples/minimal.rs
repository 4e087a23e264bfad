//! Opens a loader from a config file and awaits its batches.
//!
//!     cargo run --release --example minimal [CONFIG]

use millstream::prelude::*;

#[tokio::main]
async fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "configs/tiny.toml".to_owned());
    let config = Config::load(path)?;

    let mut loader = Loader::open(&config).await?;
    let mut tokens = 0;
    let mut batches = 0;
    while let Some(batch) = loader.next().await {
        let batch = batch?;
        tokens += batch.tokens();
        batches += 1;
        if batches == 20 {
            break;
        }
    }

    let meters = loader.meters();
    println!("{batches} batches, {tokens} tokens, {:.1}% of the time waiting", meters.wait_share * 100.0);
    Ok(())
}
