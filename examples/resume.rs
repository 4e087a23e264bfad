//! Stops a run after five batches, and resumes it from its cursor.
//!
//!     cargo run --release --example resume [CONFIG]

use millstream::prelude::*;

#[tokio::main]
async fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "configs/tiny.toml".to_owned());
    let config = Config::load(path)?;

    // Ten batches without interruption.
    let loader = Loader::open(&config).await?;
    let expected: Vec<_> = loader.take(10).map_ok(|batch| batch.digest()).try_collect().await?;

    // Five batches; only the last one's cursor is kept.
    let file = std::env::temp_dir().join(format!("millstream-resume-{}.json", std::process::id()));
    let mut loader = Loader::open(&config).await?;
    for _ in 0..5 {
        if let Some(batch) = loader.next().await {
            batch?.cursor().save(&file)?;
        }
    }
    drop(loader);

    // Another process could do this, on another machine, with more workers.
    let cursor = Cursor::load(&file)?;
    let loader = Loader::resume(&config, &cursor).await?;
    let rest: Vec<_> = loader.take(5).map_ok(|batch| batch.digest()).try_collect().await?;

    assert_eq!(rest, expected[5..], "what follows the cursor is what would have come");
    println!("batches {} to {} are the same after the resume", cursor.batch(), cursor.batch() + 5);
    std::fs::remove_file(&file).map_err(|e| Error::io(&file, "remove", e))
}
