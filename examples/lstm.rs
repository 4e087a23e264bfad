//! Trains a model that is not the crate's own, and resumes it exactly: an LSTM behind [`LanguageModel`].
//!
//!     cargo run --release --example lstm [CONFIG]
//!
//! The trainer needs only the loss of each target. Schedules, clipping, accumulation, checkpoints, validation and
//! metrics are then those of `millstream train`.

use std::future::pending;

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor};
use millstream::prelude::*;
use millstream_train::{LanguageModel, Outcome, RunConfig, RunDirectory, Tensors, Trainer, drive};

const WIDTH: usize = 64;
const STEPS: u64 = 12;
const STOPPED_AFTER: usize = 5;

/// Reads a row from left to right, and predicts each next id from what it remembers.
#[derive(Module, Debug)]
struct Reader {
    embedding: Embedding,
    lstm: Lstm,
    head: Linear,
}

impl Reader {
    fn new(vocab: usize, device: &Device) -> Self {
        // The weights are drawn on the device: two readers begin the same.
        device.seed(42);
        Self {
            embedding: EmbeddingConfig::new(vocab, WIDTH).init(device),
            lstm: LstmConfig::new(WIDTH, WIDTH, true).init(device),
            head: LinearConfig::new(WIDTH, vocab).init(device),
        }
    }
}

impl LanguageModel for Reader {
    fn losses(&self, tensors: &Tensors) -> Tensor<2> {
        let (read, _) = self.lstm.forward(self.embedding.forward(tensors.inputs.clone()), None);
        let targets = tensors.targets.clone().unsqueeze_dim(2);
        log_softmax(self.head.forward(read), 2).gather(2, targets).neg().squeeze_dim(2)
    }
}

/// Trains on the next batches of a loader, in the run's directory.
async fn train(
    trainer: Trainer<Reader>,
    run: &RunDirectory,
    config: &Config,
    most: usize,
) -> Result<Outcome> {
    let loader = match trainer.cursor() {
        Some(cursor) => Loader::resume(config, cursor).await?,
        None => Loader::open(config).await?,
    };
    let held_out = async || Loader::builder(config).with_held_out(true).open().await.map(Some);
    drive(trainer, run, loader.take(most), held_out, &mut (), pending()).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "configs/tiny.toml".to_owned());
    let root = std::env::temp_dir().join(format!("millstream-lstm-{}", std::process::id()));
    let in_run = |name: &str| -> Result<RunConfig> {
        let mut config = RunConfig::load(&path)?;
        config.train.out = root.join(name);
        config.train.steps = STEPS;
        Ok(config)
    };
    let config = in_run("whole")?;
    let tokenizer = millstream::loader::open_tokenizer(&config.data).await?;
    let new = |config: &RunConfig| {
        Trainer::with_model(config, &*tokenizer, |device| Reader::new(tokenizer.vocab_size(), device))
    };

    // All steps without interruption.
    let run = RunDirectory::create(&config, tokenizer.tokenizer_json())?;
    let whole = train(new(&config)?, &run, &config.data, usize::MAX).await?;

    // The same in two sessions. The second has only what the first has saved.
    let config = in_run("halves")?;
    let run = RunDirectory::create(&config, tokenizer.tokenizer_json())?;
    let first = train(new(&config)?, &run, &config.data, STOPPED_AFTER).await?;
    let trainer = new(&config)?.restored(&run.latest()?)?;
    let second = train(trainer, &run, &config.data, usize::MAX).await?;

    let losses = |outcome: &Outcome| (outcome.loss, outcome.validation_loss);
    assert_eq!(losses(&second), losses(&whole), "a resumed run ends where the whole one does");
    println!("steps 1 to {} and {} to {}, in two sessions", first.step, first.step + 1, second.step);
    println!("the loss is {:.6} in both runs", whole.loss.unwrap_or(f64::NAN));
    println!("validation loss {:.3}", whole.validation_loss.unwrap_or(f64::NAN));
    std::fs::remove_dir_all(&root).map_err(|e| Error::io(&root, "remove", e))
}
