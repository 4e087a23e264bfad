//! `millstream model`: trained models for other programs.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::json;

use super::generate::{date, open_of_run};
use super::settings::{Settings, byte_count};
use super::words::count;
use super::{print_json, print_line, progress};
use millstream::config::ByteCount;
use millstream::render::ChatTemplate;
use millstream::tokenizer::Tokenizer;
use millstream::{Error, Result};
use millstream_train::{Export, Origin, RunDirectory, WeightDtype};

mod card;

pub(super) const HELP: &str = "\
Example: millstream model export runs/quickstart -o quickstart-model";

const EXPORT_HELP: &str = "\
Example: millstream model export runs/quickstart -o quickstart-model
Example: an earlier checkpoint in 16 bits, in files of at most 2 GiB
  millstream model export runs/quickstart --step 400 --dtype bf16 --shard-size 2GiB -o quickstart-400
Example: what a run with train.lora has learned, for PEFT
  millstream model export runs/chat-lora --adapter -o chat-adapter

The directory is one that transformers loads: AutoModelForCausalLM.from_pretrained(\"quickstart-model\"). `train.init`
and `generate` read it too.";

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// Write a run's model as a Hugging Face model directory.
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The directory of the run.
    pub(super) run: PathBuf,

    /// The directory to write: a new or an empty one.
    #[arg(long, short)]
    output: PathBuf,

    /// Export the checkpoint of this step instead of the newest.
    #[arg(long, visible_alias = "at", value_name = "STEP")]
    step: Option<u64>,

    /// What the weights are stored as.
    #[arg(long, default_value = WeightDtype::default().name(), value_parser = dtype())]
    dtype: WeightDtype,

    /// The largest file of weights. A larger model has several files, and an index.
    #[arg(long, value_name = "SIZE", default_value = "5GiB", value_parser = byte_count)]
    shard_size: ByteCount,

    /// Write only the adapters of a run with train.lora, as PEFT keeps them, instead of the model with them merged in.
    #[arg(long)]
    adapter: bool,

    #[command(flatten)]
    pub(super) settings: Settings,
}

fn dtype() -> impl TypedValueParser<Value = WeightDtype> {
    let types = WeightDtype::ALL;
    PossibleValuesParser::new(types.map(WeightDtype::name))
        .map(move |name| types.into_iter().find(|dtype| dtype.name() == name).unwrap_or_default())
}

pub(super) async fn run(command: ModelCommand, json: bool) -> Result<()> {
    match command {
        ModelCommand::Export(args) => export(args, json).await,
    }
}

async fn export(args: ExportArgs, json: bool) -> Result<()> {
    let run = RunDirectory::open(&args.run)?;
    if args.adapter && run.config(&[])?.train.lora.is_none() {
        let problem = "the run has trained all weights of its model, and no adapters; leave it out";
        return Err(Error::config("--adapter", problem));
    }
    let config = run.config_at(args.step.unwrap_or(u64::MAX), args.settings.all())?;
    // The model was trained without the settings of this command.
    let trained = run.config_at(args.step.unwrap_or(u64::MAX), &[])?;
    Export::check(&config.model, &args.output)?;
    let slow = progress::slow("exporting the model");
    let tokenizer = open_of_run(&config.data).await?;
    let (model, checkpoint) = run.model_at(args.step, &config, &*tokenizer)?;
    let origin = Origin::read(&run.init())?;
    let template = run.chat_template(&config, Some(&date(&config.data)))?;
    let ends = template.as_ref().map_or_else(Vec::new, |template| template.ends(&*tokenizer));
    let card = card::card(&trained, checkpoint.state(), &model, args.adapter);
    let export = Export {
        config: &config.model,
        seq_len: trained.data.pipeline.seq_len,
        tokenizer: tokenizer.tokenizer_json(),
        special_tokens: config.data.tokenizer.special_tokens,
        begin: special(config.data.tokenizer.bos.as_deref(), &*tokenizer),
        end: special(config.data.tokenizer.eos.as_deref(), &*tokenizer),
        ends: &ends,
        chat_template: template.as_ref().map(ChatTemplate::source),
        chat_tokens: template.as_ref().map_or(&[], ChatTemplate::tokens),
        card: &card,
        origin: origin.as_ref(),
        dtype: args.dtype,
        shard_bytes: args.shard_size.0,
    };
    let files = match (&trained.train.lora, &trained.train.init) {
        (Some(lora), Some(base)) if args.adapter => export.write_adapter(&model, lora, base, &args.output)?,
        _ => export.write(&model, &args.output)?,
    };
    drop(slow);
    let why = "the run's tokenizer is not one of Hugging Face's, so there is no tokenizer.json";
    let without_tokenizer = export.tokenizer.is_none().then_some(why);
    let step = checkpoint.state().step;
    if json {
        let (output, why) = (args.output.to_string_lossy(), without_tokenizer);
        return print_json(
            &json!({ "output": output, "step": step, "files": files, "without_tokenizer": why }),
        );
    }
    without_tokenizer.iter().for_each(|why| progress::say(why));
    let what = if args.adapter { "the adapters" } else { "the model" };
    let (output, files) = (args.output.display(), count(files.len() as u64, "file"));
    print_line(&format!("wrote {output}: {what} after step {step}, in {files}"))
}

/// A special token with its id.
fn special<'a>(token: Option<&'a str>, tokenizer: &dyn Tokenizer) -> Option<(&'a str, u32)> {
    Some((token?, tokenizer.id(token?)?))
}
