//! `millstream model`: trained models for other programs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use millstream::config::ByteCount;
use millstream::train::{Export, RunDirectory};
use millstream::{Config, Result, loader};
use serde::Serialize;

use super::words::count;
use super::{print_json, print_line, progress};

mod card;

pub(super) const HELP: &str = "\
Example: millstream model export runs/quickstart -o quickstart-model";

const EXPORT_HELP: &str = "\
Example: millstream model export runs/quickstart -o quickstart-model
Example: an earlier checkpoint, in files of at most 2 GiB
  millstream model export runs/quickstart --step 400 --shard-size 2GiB -o quickstart-400

The directory is one that transformers loads: AutoModelForCausalLM.from_pretrained(\"quickstart-model\"). `train.init`
and `generate` read it too. Weights are f32.";

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// Write a run's model as a directory of the Hugging Face libraries.
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The directory of the run.
    run: PathBuf,

    /// The directory to write: a new or an empty one.
    #[arg(long, short)]
    output: PathBuf,

    /// Export the checkpoint of this step instead of the newest.
    #[arg(long, value_name = "STEP")]
    step: Option<u64>,

    /// The most that one file of weights has. Larger models have several, and an index.
    #[arg(long, value_name = "SIZE", default_value = "5GiB", value_parser = size)]
    shard_size: ByteCount,
}

/// A number of bytes as it is written.
fn size(text: &str) -> std::result::Result<ByteCount, String> {
    let size = text.parse().ok().filter(|size: &ByteCount| size.0 > 0);
    size.ok_or_else(|| "give a number of bytes that is at least 1, such as 2GiB".to_owned())
}

#[derive(Serialize)]
struct Report {
    output: PathBuf,
    step: u64,
    files: Vec<String>,
    /// Why there is no tokenizer among them.
    without_tokenizer: Option<&'static str>,
}

pub(super) async fn run(command: ModelCommand, json: bool) -> Result<()> {
    match command {
        ModelCommand::Export(args) => export(args, json).await,
    }
}

async fn export(args: ExportArgs, json: bool) -> Result<()> {
    let run = RunDirectory::open(&args.run)?;
    let config = run.config_at(args.step.unwrap_or(u64::MAX), &[])?;
    Export::check(&config.model, &args.output)?;
    let _slow = progress::slow("exporting the model");
    let checkpoint = args.step.map_or_else(|| run.latest(), |step| run.after(step))?;
    // The tokenizer is the run's own: the corpus may be gone.
    let alone = Config { tokenizer: config.tokenizer.clone(), ..Config::default() };
    let tokenizer = loader::open_tokenizer(&alone).await?;
    let model = checkpoint.load_model(&config, &*tokenizer)?;
    let eos = config.tokenizer.eos.as_deref();
    let card = card::card(&config, checkpoint.state(), &model);
    let export = Export {
        config: &config.model,
        seq_len: config.pipeline.seq_len,
        tokenizer: tokenizer.tokenizer_json(),
        end: eos.and_then(|eos| Some((eos, tokenizer.id(eos)?))),
        card: &card,
        shard_bytes: args.shard_size.0,
    };
    let files = export.write(&model, &args.output)?;
    let why = "the run's tokenizer is not one of Hugging Face's, so there is no tokenizer.json";
    let without_tokenizer = export.tokenizer.is_none().then_some(why);
    let step = checkpoint.state().step;
    let Some(why) = without_tokenizer else {
        return print(&args, step, files, None, json);
    };
    progress::say(why);
    print(&args, step, files, Some(why), json)
}

fn print(
    args: &ExportArgs,
    step: u64,
    files: Vec<String>,
    without_tokenizer: Option<&'static str>,
    json: bool,
) -> Result<()> {
    let output = args.output.clone();
    match json {
        true => print_json(&Report { output, step, files, without_tokenizer }),
        false => print_line(&format!(
            "wrote {}: the model after step {step}, in {}",
            output.display(),
            count(files.len() as u64, "file")
        )),
    }
}
