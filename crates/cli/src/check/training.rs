//! The run that `train` would begin.

use serde::Serialize;

use crate::ConfigArgs;
use crate::cost::{operations, parameters};
use crate::generate::open_alone;
use crate::words::{bytes, word};
use millstream::Result;
use millstream_train::config::TrainConfig;
use millstream_train::cost::{Flops, Memory, Parameters};
use millstream_train::{Checkpoint, Pretrained, RunConfig, RunDirectory};

/// The run that `train` would begin.
#[derive(Serialize)]
pub(super) struct Training<'a> {
    #[serde(flatten)]
    config: &'a TrainConfig,
    /// The device's name in its driver, if it is a GPU.
    device_name: Option<String>,
    /// The step of the newest checkpoint in `train.out`.
    checkpoint_step: Option<u64>,
    cost: Cost,
    /// Warnings that the run may not fit into memory, or its checkpoints on the disk.
    warnings: Vec<String>,
}

/// The predicted cost of the run.
#[derive(Serialize)]
struct Cost {
    parameters: f64,
    /// How many are trained: all of them, or only those of the adapters.
    trained: f64,
    /// The floating-point operations of a step.
    flops_per_step: f64,
    /// At the peak, in bytes.
    memory: Memory,
}

impl Cost {
    fn of(config: &RunConfig, vocab: usize) -> Self {
        let (RunConfig { model, train, .. }, pipeline) = (config, &config.data.pipeline);
        let vocab = model.vocab_size.unwrap_or(vocab);
        let places = pipeline.batch_tokens.unwrap_or(pipeline.batch_size.saturating_mul(pipeline.seq_len));
        let per_place = Flops::for_run(config, vocab).per_place(pipeline.seq_len);
        let parameters = Parameters::new(model, vocab).total();
        let adapters = train.lora.as_ref().map(|lora| Parameters::of_adapters(model, lora));
        Self {
            parameters,
            trained: adapters.unwrap_or(parameters),
            flops_per_step: per_place * places as f64 * train.accumulate as f64,
            memory: Memory::new(config, vocab),
        }
    }
}

impl<'a> Training<'a> {
    /// The run of a config whose tokenizer has so many ids.
    pub(super) async fn planned(args: &ConfigArgs, config: &'a RunConfig, vocab: usize) -> Result<Self> {
        millstream_train::ready(config)?;
        let resolved = millstream_train::load(&args.config, args.settings.all())?;
        if let Some(directory) = &config.train.init {
            let tokenizer = open_alone(&config.data).await?;
            let pretrained = Pretrained::open(directory)?;
            pretrained.check_tokenizer(&*tokenizer)?;
            pretrained.warn(config);
        }
        let cost = Cost::of(&resolved, vocab);
        cost.memory.check(config)?;
        let run = RunDirectory::open(&config.train.out);
        let steps = run.as_ref().map(|run| Checkpoint::steps(&run.checkpoints()).unwrap_or_default());
        let there = steps.map_or(0, |steps| steps.len());
        let run = run.and_then(|run| run.latest());
        Ok(Self {
            config: &config.train,
            device_name: millstream_train::device::name(&config.train)?,
            checkpoint_step: run.ok().map(|checkpoint| checkpoint.state().step),
            warnings: [cost.memory.warning(config), cost.memory.disk_warning(config, there)]
                .into_iter()
                .flatten()
                .collect(),
            cost,
        })
    }

    /// The lines to print: titles and texts.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let Self { config, device_name, checkpoint_step, cost, warnings } = self;
        let part = device_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let numbers: Vec<String> = config.devices.iter().map(|number| format!(" {number}")).collect();
        let device = format!("{}{}{part} in {}", config.device, numbers.join(","), word(&config.precision));
        let step = operations(cost.flops_per_step);
        let adapters = match config.lora {
            Some(_) => format!(", {} more in the adapters that are trained", parameters(cost.trained)),
            None => String::new(),
        };
        let out = config.out.display();
        let mut lines = vec![
            ("training", format!("{} steps on {device}", config.steps)),
            ("model", format!("{} parameters{adapters}, {step} a step", parameters(cost.parameters))),
            ("memory", format!("about {} for the model at its peak", bytes(cost.memory.total() as u64))),
        ];
        lines.extend(warnings.iter().map(|warning| ("", warning.clone())));
        lines.push(match checkpoint_step {
            None => ("run", format!("{out}")),
            Some(step) => ("run", format!("{out}, which has a run at step {step}: train --resume goes on")),
        });
        lines
    }
}
