//! `millstream tokenizer`: learns a tokenizer without training a model, and compares its engines.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::exchange::check_output;
use super::failure::Failure;
use super::words::count;
use super::{ConfigArgs, print_written, progress};
use millstream::Result;
use millstream::atomic::check_target;

mod check;
pub(super) mod rounds;

pub(super) const HELP: &str = "Example: millstream tokenizer train configs/quickstart.toml -o tokenizer.json";

#[derive(Debug, Subcommand)]
pub(super) enum TokenizerCommand {
    /// Learn a byte-level BPE tokenizer from the config's corpus and save it as a Hugging Face tokenizer.json.
    #[command(after_help = "\
Example: millstream tokenizer train configs/quickstart.toml -o tokenizer.json

It learns from the start of the training stream, tokenizer.train.sample bytes of it, with the settings
of tokenizer.train; held-out documents are never seen.")]
    Train(LearnArgs),
    /// Compare the fast engine with the reference on the config's corpus.
    #[command(after_help = check::HELP)]
    Check(check::CheckArgs),
}

impl TokenizerCommand {
    pub(super) fn config(&self) -> &ConfigArgs {
        match self {
            Self::Train(args) => &args.config,
            Self::Check(args) => &args.config,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct LearnArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// Where to save it. An existing file is replaced, whole or not at all.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(super) async fn run(command: TokenizerCommand, json: bool) -> Result<(), Failure> {
    match command {
        TokenizerCommand::Train(args) => train(args, json).await,
        TokenizerCommand::Check(args) => Ok(check::run(args, json).await?),
    }
}

async fn train(args: LearnArgs, json: bool) -> Result<(), Failure> {
    let config = args.config.load()?.data;
    check_target(&args.output)?;
    check_output("--output", &args.output, [args.config.config.clone()], &config.sources)?;
    let started = std::time::Instant::now();
    let slow = progress::slow("learning a tokenizer from the corpus");
    let tokenizer = millstream::loader::learn_tokenizer(&config).await?;
    drop(slow);
    tokenizer.save(&args.output)?;
    let (path, seconds) = (args.output.display().to_string(), started.elapsed().as_secs_f64());
    let vocab_size = millstream::tokenizer::Tokenizer::vocab_size(&tokenizer);
    let line = format!("{path}: {}, learned in {seconds:.1} s", count(vocab_size as u64, "token"));
    let learned = json!({ "path": path, "vocab_size": vocab_size, "seconds": seconds });
    Ok(print_written(&args.output, &learned, &line, json)?)
}
