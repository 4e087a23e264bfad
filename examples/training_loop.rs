//! A custom training loop: await a batch, step, save, validate, generate.
//!
//!     cargo run --release --example training_loop [CONFIG]
//!
//! A step blocks its thread, so the loop is the root future of a multi-thread runtime: the loader works on the other
//! threads.

use burn::module::Module;
use millstream::prelude::*;
use millstream_train::{RunConfig, Sampling, Trainer, generate};

#[tokio::main]
async fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "configs/tiny.toml".to_owned());
    let config = RunConfig::load(path)?;

    let mut loader = Loader::open(&config.data).await?;
    let tokenizer = loader.tokenizer().clone();
    let mut trainer = Trainer::new(&config, &*tokenizer)?;
    while trainer.state().step < config.train.steps
        && let Some(batch) = loader.next().await
    {
        if let Some(step) = trainer.step(&[batch?])?
            && trainer.state().step % 10 == 1
        {
            println!("step {:>3}  loss {:.3}", trainer.state().step, step.loss);
        }
    }

    let held_out =
        Loader::builder(&config.data).with_tokenizer(tokenizer.clone()).with_held_out(true).open().await?;
    if let Some(validation) = trainer.validate(held_out).await? {
        println!(
            "validation loss {:.3}; tokens alone give {:.3}",
            validation.validation_loss,
            trainer.unigram_loss()?
        );
    }

    // The checkpoint holds the cursor: `Trainer::resume` and `Loader::resume` continue from there.
    let checkpoints = std::env::temp_dir().join(format!("millstream-loop-{}", std::process::id()));
    println!("saved {}", trainer.save(&checkpoints)?.display());
    std::fs::remove_dir_all(&checkpoints).map_err(|e| Error::io(&checkpoints, "remove", e))?;

    let sampling = Sampling { tokens: 40, ..Sampling::default() };
    let text = generate(&trainer.model().valid(), &*tokenizer, "pub fn ", &sampling, |_| Ok(()))?;
    println!("pub fn {text}");
    Ok(())
}
