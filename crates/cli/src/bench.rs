//! `millstream bench`: measures the loader without training, the tokenizer alone, the training device alone, and the gain
//! of overlap. Each has a subcommand and a file.

use std::process::ExitCode;

use clap::Subcommand;

use super::ConfigArgs;
use super::failure::Failure;
use super::telemetry::{Telemetry, TelemetryArgs};
use millstream::Result;

pub(super) mod compare;
mod consumer;
#[cfg(feature = "train")]
mod device;
mod loader;
mod process;
mod tokenizer;

pub(super) use process::peak_rss_bytes;

pub(super) const HELP: &str = "Example: millstream bench loader configs/quickstart.toml";

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Measure the loader without training.
    #[command(after_help = loader::HELP)]
    Loader(loader::LoaderArgs),
    /// Measure the tokenizer alone, on the same documents, workers and cores.
    #[command(after_help = tokenizer::HELP)]
    Tokenizer(tokenizer::TokenizerArgs),
    #[cfg(feature = "train")]
    /// Measure the fastest matrix product on train.device in train.precision.
    #[command(after_help = device::HELP)]
    Device(ConfigArgs),
    /// Compare three ways to make the same batches: on demand, ahead with one worker, ahead with all workers.
    #[command(after_help = compare::HELP)]
    Compare(compare::CompareArgs),
}

impl BenchCommand {
    pub(super) fn config(&self) -> &ConfigArgs {
        match self {
            Self::Loader(args) => &args.config,
            Self::Tokenizer(args) => &args.config,
            #[cfg(feature = "train")]
            Self::Device(config) => config,
            Self::Compare(args) => &args.config,
        }
    }

    /// The trace and metrics options.
    pub(super) fn telemetry(&self) -> Option<&TelemetryArgs> {
        match self {
            Self::Loader(args) => Some(&args.telemetry),
            _ => None,
        }
    }
}

pub(super) async fn run(
    command: BenchCommand,
    telemetry: &Telemetry,
    json: bool,
) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Loader(args) => return Ok(loader::run(args, telemetry, json).await?),
        BenchCommand::Tokenizer(args) => tokenizer::run(args, json).await?,
        #[cfg(feature = "train")]
        BenchCommand::Device(config) => device::run(&config, json)?,
        BenchCommand::Compare(args) => return compare::run(args, json).await,
    }
    Ok(ExitCode::SUCCESS)
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
