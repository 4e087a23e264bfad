//! `millstream generate`: text from a trained model.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use millstream::tokenizer::Tokenizer;
use millstream::train::{RunDirectory, Sampling, generate};
use millstream::{Config, Error, Result};
use serde::Serialize;

use super::{STANDARD_OUTPUT_NAME, print_json, print_line};

pub(super) const HELP: &str = "\
Example: millstream generate runs/quickstart \"pub fn \" --tokens 200 --temperature 0.7

The same arguments give the same text; --seed gives another.";

#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// The directory of the run.
    run: PathBuf,

    /// The beginning of the text.
    prompt: String,

    /// The most tokens to add.
    #[arg(long, short = 'n', default_value_t = Sampling::default().tokens)]
    tokens: usize,

    /// Divides the logits. 0 always takes the most likely token.
    #[arg(long, default_value_t = Sampling::default().temperature)]
    temperature: f64,

    /// Draw only from this many of the most likely tokens.
    #[arg(long)]
    top_k: Option<usize>,

    /// Draw only from the most likely tokens that together have this probability.
    #[arg(long)]
    top_p: Option<f64>,

    /// The seed of the random draws.
    #[arg(long, default_value_t = Sampling::default().seed)]
    seed: u64,

    /// Use the checkpoint of this step instead of the newest.
    #[arg(long, value_name = "STEP")]
    at: Option<u64>,

    /// Override a key of the run's config, for example --set train.device=cuda. Repeat it for more keys.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Serialize)]
struct Generated<'a> {
    prompt: &'a str,
    text: String,
}

pub(super) async fn run(args: GenerateArgs, json: bool) -> Result<()> {
    let run = RunDirectory::open(&args.run)?;
    let config = run.config_at(args.at.unwrap_or(u64::MAX), &args.set)?;
    // The prompt is not of the corpus, which may be gone.
    let alone = Config { tokenizer: config.tokenizer.clone(), ..Config::default() };
    let tokenizer = millstream::loader::open_tokenizer(&alone).await?;
    let default = sampling(&config, &*tokenizer, args.tokens);
    let sampling = Sampling {
        temperature: args.temperature,
        top_k: args.top_k.or(default.top_k),
        top_p: args.top_p.or(default.top_p),
        seed: args.seed,
        ..default
    };
    let prompt = args.prompt.as_str();
    if json {
        let text = complete(&config, args.at, &*tokenizer, prompt, &sampling, |_| Ok(()))?;
        return print_json(&Generated { prompt, text });
    }
    // Print nothing before the first piece is there, so that errors come first.
    let mut begun = false;
    let text = complete(&config, args.at, &*tokenizer, prompt, &sampling, |piece| {
        let before = if std::mem::replace(&mut begun, true) { "" } else { prompt };
        let mut out = std::io::stdout();
        write!(out, "{before}{piece}").and_then(|()| out.flush())
    })?;
    print_line(if text.is_empty() { prompt } else { "" })
}

/// The default way to sample from a config's model.
pub(super) fn sampling(config: &Config, tokenizer: &dyn Tokenizer, tokens: usize) -> Sampling {
    let end = config.tokenizer.eos.as_deref().and_then(|eos| tokenizer.id(eos));
    Sampling { tokens, end, ..Sampling::default() }
}

/// Continues `prompt` with the checkpoint of step `at` of the config's run, or the newest; pieces are printed as they
/// come.
pub(super) fn complete(
    config: &Config,
    at: Option<u64>,
    tokenizer: &dyn Tokenizer,
    prompt: &str,
    sampling: &Sampling,
    mut print: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<String> {
    let run = RunDirectory::open(&config.train.out)?;
    let model = match at {
        Some(step) => run.after(step)?.load_model(config, tokenizer)?,
        None => run.model(config, tokenizer)?,
    };
    let mut printed = Ok(());
    let text = generate(&model, tokenizer, prompt, sampling, |piece| {
        if printed.is_ok() {
            printed = print(piece);
        }
    })?;
    printed.map_err(|e| Error::io(STANDARD_OUTPUT_NAME, "write", e))?;
    Ok(text)
}
