//! `millstream generate`: text from a trained model.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use millstream::tokenizer::Tokenizer;
use millstream::train::{RunDirectory, Sampling, generate};
use millstream::{Config, Error, Result};
use serde::Serialize;

use super::settings::Settings;
use super::{ConfigArgs, STANDARD_OUTPUT_NAME, print_json, print_line, progress};

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
    #[arg(long, default_value_t = Sampling::default().temperature, value_parser = temperature)]
    temperature: f64,

    /// Draw only from this many of the most likely tokens.
    #[arg(long)]
    top_k: Option<NonZeroUsize>,

    /// Draw only from the most likely tokens that together have this probability.
    #[arg(long, value_parser = probability)]
    top_p: Option<f64>,

    /// The seed of the random draws.
    #[arg(long, default_value_t = Sampling::default().seed)]
    seed: u64,

    /// Use the checkpoint of this step instead of the newest.
    #[arg(long, value_name = "STEP")]
    at: Option<u64>,

    #[command(flatten)]
    settings: Settings,
}

/// A temperature as it is written.
fn temperature(text: &str) -> std::result::Result<f64, String> {
    let valid = text.parse().ok().filter(|value: &f64| *value >= 0.0 && value.is_finite());
    valid.ok_or_else(|| "give a number that is at least 0, such as 0.8".to_owned())
}

/// A probability as it is written.
fn probability(text: &str) -> std::result::Result<f64, String> {
    let valid = text.parse().ok().filter(|value: &f64| *value > 0.0 && *value <= 1.0);
    valid.ok_or_else(|| "give a number that is more than 0 and at most 1, such as 0.95".to_owned())
}

impl GenerateArgs {
    /// The run's config.
    pub(super) fn config(&self) -> Option<ConfigArgs> {
        let config = RunDirectory::open(&self.run).ok()?.config_path();
        Some(ConfigArgs { config, settings: self.settings.clone() })
    }
}

#[derive(Serialize)]
struct Generated<'a> {
    prompt: &'a str,
    text: String,
}

pub(super) async fn run(args: GenerateArgs, json: bool) -> Result<()> {
    let run = RunDirectory::open(&args.run)?;
    let config = run.config_at(args.at.unwrap_or(u64::MAX), args.settings.all())?;
    // The prompt is not of the corpus, which may be gone.
    let alone = Config { tokenizer: config.tokenizer.clone(), ..Config::default() };
    let tokenizer = millstream::loader::open_tokenizer(&alone).await?;
    let default = sampling(&config, &*tokenizer, args.tokens);
    let sampling = Sampling {
        temperature: args.temperature,
        top_k: args.top_k.map(NonZeroUsize::get).or(default.top_k),
        top_p: args.top_p.or(default.top_p),
        seed: args.seed,
        ..default
    };
    let prompt = args.prompt.as_str();
    let mut slow = Some(progress::slow("loading the model"));
    if json {
        let text = complete(&config, args.at, &*tokenizer, prompt, &sampling, |_| Ok(()))?;
        drop(slow);
        return print_json(&Generated { prompt, text });
    }
    // Print nothing before the first piece is there, so that errors come first.
    let mut begun = false;
    let text = complete(&config, args.at, &*tokenizer, prompt, &sampling, |piece| {
        slow = None;
        let before = if std::mem::replace(&mut begun, true) { "" } else { prompt };
        let mut out = std::io::stdout();
        write!(out, "{before}{piece}").and_then(|()| out.flush())
    })?;
    drop(slow);
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
