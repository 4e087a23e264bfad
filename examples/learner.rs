//! Trains through burn's `Learner`, with its dashboard.
//!
//!     cargo run --release --features learner --example learner [CONFIG] [STEPS]
//!
//! A `BurnLoader` feeds it. Each epoch takes the next STEPS batches of one stream, and validates on the same first
//! batches of the hold-out. Without a terminal, burn prints lines instead of the dashboard.

use std::sync::Arc;

use burn::lr_scheduler::constant::ConstantLr;
use burn::module::Module;
use burn::optim::AdamWConfig;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor};
use burn::train::metric::LossMetric;
use burn::train::{ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep};
use millstream::loader::open_tokenizer;
use millstream::{Error, Loader, Result};
use millstream_train::model::Gpt;
use millstream_train::{BurnLoader, RunConfig, TensorBatcher, Tensors};

const EPOCHS: usize = 3;
const VALIDATION_BATCHES: usize = 4;

/// The crate's GPT as a model for burn's `Learner`.
#[derive(Module, Debug)]
struct Model {
    gpt: Gpt,
}

impl Model {
    fn forward(&self, batch: Tensors) -> ClassificationOutput {
        let logits = self.gpt.logits(batch.inputs);
        let [rows, length, vocab] = logits.dims();
        let logits = logits.reshape([rows * length, vocab]);
        let targets: Tensor<1, Int> = batch.targets.reshape([rows * length]);
        let nats = log_softmax(logits.clone(), 1).gather(1, targets.clone().unsqueeze_dim(1)).neg();
        let loss = match batch.mask {
            // Padding is not a target.
            Some(mask) => {
                let mask = mask.reshape([rows * length, 1]);
                (nats * mask.clone()).sum() / mask.sum()
            }
            None => nats.mean(),
        };
        ClassificationOutput::new(loss, logits, targets)
    }
}

impl TrainStep for Model {
    type Input = Tensors;
    type Output = ClassificationOutput;

    fn step(&self, batch: Tensors) -> TrainOutput<ClassificationOutput> {
        let output = self.forward(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Model {
    type Input = Tensors;
    type Output = ClassificationOutput;

    fn step(&self, batch: Tensors) -> ClassificationOutput {
        self.forward(batch)
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let config = RunConfig::load(arguments.next().unwrap_or_else(|| "configs/tiny.toml".to_owned()))?;
    let steps = arguments.next().and_then(|steps| steps.parse().ok()).unwrap_or(100);
    let failed = |error: std::io::Error| Error::Train(error.to_string());
    let runtime = tokio::runtime::Runtime::new().map_err(failed)?;
    let tokenizer = runtime.block_on(open_tokenizer(&config.data))?;

    let device = Device::flex().autodiff();
    let (vocab, seq_len) = (tokenizer.vocab_size(), config.data.pipeline.seq_len);
    let model = Model { gpt: Gpt::new(&config.model, vocab, seq_len, config.data.seed, &device) };
    let builder = move || Loader::builder(&config.data).with_tokenizer(tokenizer.clone());
    let train = BurnLoader::training(builder.clone(), steps, TensorBatcher::default(), &device)?;
    let valid = move || builder().with_held_out(true);
    let valid = BurnLoader::validation(valid, VALIDATION_BATCHES, TensorBatcher::default(), &device)?;

    let (train, directory) = (Arc::new(train), tempfile::tempdir().map_err(failed)?);
    let training = SupervisedTraining::new(directory.path(), train.clone(), Arc::new(valid))
        .metric_train_numeric(LossMetric::new())
        .metric_valid_numeric(LossMetric::new())
        .num_epochs(EPOCHS)
        .summary();
    let learner = Learner::new(model, AdamWConfig::new().with_epsilon(1e-8).init(), ConstantLr::new(3e-3));
    if let Some(error) = training.launch(learner).error {
        return Err(Error::Train(error.to_string()));
    }
    // Besides burn's checkpoints, this is all you need to continue.
    let batches = train.cursor().map_or(0, |cursor| cursor.batch());
    println!("trained on {batches} batches");
    Ok(())
}
