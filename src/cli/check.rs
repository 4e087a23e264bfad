//! `millstream check`: what a config would read, without reading or writing anything.

use clap::Args;
use millstream::config::{PipelineConfig, TrainConfig};
use millstream::loader::{Checked, CheckedTokenizer};
use millstream::train::cost::{Flops, Memory, Parameters};
use millstream::train::{self, Pretrained, RunDirectory};
use millstream::{Config, Result, loader};
use serde::Serialize;

use super::cost::{operations, parameters, precision};
use super::generate::open_alone;
use super::init::bytes;
use super::words::count;
use super::{ConfigArgs, print_json, print_line};

pub(super) const HELP: &str = "\
Example: millstream check configs/quickstart.toml
Example: with the settings of a run on 4 processes
  millstream check configs/quickstart.toml --set pipeline.world=4

It checks the config's keys, lists the files, and checks lanes, ranks, memory, tokenizer, device and run directory
against them. No document is read, no tokenizer is learned, and nothing is written. Every command that reads a config
makes the same checks before it learns a tokenizer; the device and the run directory matter to `train` alone. Exit
codes: 0 the config can be used, 1 it cannot, and the message says where and why.";

/// The widest that a source's name is shown, in characters.
const NAME: usize = 40;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    checked: &'a Checked,
    train: Option<Training<'a>>,
}

/// The run that `train` would begin.
#[derive(Serialize)]
struct Training<'a> {
    #[serde(flatten)]
    config: &'a TrainConfig,
    /// What a GPU's driver calls it.
    device_name: Option<String>,
    /// The step of the newest checkpoint in `train.out`.
    checkpoint_step: Option<u64>,
    cost: Cost,
    /// If the run may not fit into the machine's memory.
    warning: Option<String>,
}

/// What the run would take.
#[derive(Serialize)]
struct Cost {
    parameters: f64,
    /// The floating-point operations of a step.
    flops_per_step: f64,
    /// At the peak, in bytes.
    memory: Memory,
}

impl Cost {
    fn of(config: &Config, vocab: usize) -> Self {
        let Config { model, pipeline, train, .. } = config;
        let vocab = model.vocab_size.unwrap_or(vocab);
        let places = pipeline.batch_tokens.unwrap_or(pipeline.batch_size.saturating_mul(pipeline.seq_len));
        let of_place = Flops::of(model, vocab).of_place(pipeline.seq_len);
        Self {
            parameters: Parameters::of(model, vocab).total(),
            flops_per_step: of_place * places as f64 * train.accumulate as f64,
            memory: Memory::of(config, vocab),
        }
    }
}

pub(super) async fn run(args: CheckArgs, json: bool) -> Result<()> {
    let config = args.config.load()?;
    let checked = loader::check(&config).await?;
    // A trainer of one process has nothing to say of several: the config may be that of another trainer.
    let train = match checked.world == 1 || cfg!(feature = "mpi") {
        true => Some(training(&args.config, &config, checked.tokenizer.vocab_size).await?),
        false => None,
    };
    if json {
        return print_json(&Report { checked: &checked, train });
    }
    print(&checked, &config.pipeline, train.as_ref())
}

async fn training<'a>(args: &ConfigArgs, config: &'a Config, vocab: usize) -> Result<Training<'a>> {
    train::ready(config)?;
    let resolved = train::load(&args.config, args.settings.all())?;
    if let Some(directory) = &config.train.init {
        let tokenizer = open_alone(config).await?;
        let pretrained = Pretrained::open(directory)?;
        pretrained.check_tokenizer(&*tokenizer)?;
        pretrained.warn(config);
    }
    let cost = Cost::of(&resolved, vocab);
    cost.memory.check(config)?;
    let run = RunDirectory::open(&config.train.out).and_then(|run| run.latest());
    Ok(Training {
        config: &config.train,
        device_name: train::device::name(&config.train)?,
        checkpoint_step: run.ok().map(|checkpoint| checkpoint.state().step),
        warning: cost.memory.warning(config),
        cost,
    })
}

fn print(checked: &Checked, pipeline: &PipelineConfig, train: Option<&Training<'_>>) -> Result<()> {
    let name = |name: &str| match name.chars().count() > NAME {
        true => format!("{}…", name.chars().take(NAME - 1).collect::<String>()),
        false => name.to_owned(),
    };
    let names: Vec<String> = checked.sources.iter().map(|source| name(&source.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("tokenizer".len());
    let title = "source";
    print_line(&format!("{title:width$}  kind         {:>9}  {:>13}  {:>9}", "files", "bytes", "splits"))?;
    for (name, source) in names.iter().zip(&checked.sources) {
        print_line(&format!(
            "{name:width$}  {:11}  {:>9}  {:>13}  {:>9}",
            source.kind.to_string(),
            source.files,
            bytes(source.bytes),
            source.splits
        ))?;
    }
    let line = |title: &str, text: String| print_line(&format!("{title:width$}  {text}"));
    line("tokenizer", tokenizer(&checked.tokenizer))?;
    line("batches", batches(checked, pipeline))?;
    if checked.holdout > 0.0 {
        line("held out", format!("{}% of the documents", checked.holdout * 100.0))?;
    }
    let Some(Training { config, device_name, checkpoint_step, cost, warning }) = train else { return Ok(()) };
    let part = device_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let numbers: Vec<String> = config.devices.iter().map(|number| format!(" {number}")).collect();
    let device = format!("{}{}{part} in {}", config.device, numbers.join(","), precision(config.precision));
    line("training", format!("{} steps on {device}", config.steps))?;
    let step = operations(cost.flops_per_step);
    line("model", format!("{} parameters, {step} a step", parameters(cost.parameters)))?;
    line("memory", format!("about {} at the peak", bytes(cost.memory.total() as u64)))?;
    if let Some(warning) = warning {
        line("", warning.clone())?;
    }
    let out = config.out.display();
    match checkpoint_step {
        None => line("run", format!("{out}")),
        Some(step) => line("run", format!("{out}, which has a run at step {step}: train --resume goes on")),
    }
}

fn tokenizer(CheckedTokenizer { name, vocab_size, .. }: &CheckedTokenizer) -> String {
    match name {
        Some(name) => format!("{name}, {vocab_size} tokens"),
        None => format!("learned from the corpus, {vocab_size} tokens"),
    }
}

fn batches(checked: &Checked, pipeline: &PipelineConfig) -> String {
    let inputs = checked.seq_len;
    let rows = match (checked.batch_size, pipeline.batch_tokens) {
        (Some(rows), _) => format!("{} of {inputs} inputs", count(rows as u64, "row")),
        (None, tokens) => {
            format!("rows of up to {inputs} inputs, as many as fit {} tokens", tokens.unwrap_or_default())
        }
    };
    let ranks = if checked.world > 1 { format!(" over {} ranks", checked.world) } else { String::new() };
    match checked.lanes {
        1 => format!("{rows}{ranks}, from one lane"),
        lanes => format!("{rows}{ranks}, from {lanes} lanes"),
    }
}
