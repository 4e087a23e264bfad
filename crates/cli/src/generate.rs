//! `millstream generate`: text from a trained model, and talks with one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::settings::Settings;
use super::words::today;
use super::{STANDARD_OUTPUT_NAME, print_json, print_line, progress};
use millstream::render::ChatTemplate;
use millstream::tokenizer::{Encoder, Tokenizer};
use millstream::{Config, Error, Result};
use millstream_train::model::Gpt;
use millstream_train::{Pretrained, RunConfig, RunDirectory, Sampling, generate};

mod chat;

use chat::Chat;

pub(super) const HELP: &str = "\
Example: millstream generate runs/quickstart \"pub fn \" --tokens 200 --temperature 0.7
Example: with a Hugging Face model directory, such as one that was exported
  millstream generate SmolLM-135M \"The mill \"
Example: talk with a model that was tuned on conversations, line by line
  millstream generate runs/chat --chat
Example: ask it one question
  millstream generate runs/chat --chat \"Where is Ferrow?\"

The same arguments give the same text; --seed gives another.";

/// The most ids that a Hugging Face model sees at once, unless `pipeline.seq_len` is set. The tables of positions for 128 Ki
/// ids would be larger than a small model.
const SEEN: usize = 4096;

#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// The directory of a run, or a Hugging Face model directory.
    #[arg(value_name = "RUN")]
    pub(super) model: PathBuf,

    /// The beginning of the text. With --chat it is a question; if you leave it out then, each line of standard input is one.
    #[arg(required_unless_present = "chat")]
    prompt: Option<String>,

    /// Talk with the model: its chat template renders the conversation, and it answers each question.
    #[arg(long)]
    chat: bool,

    /// The message of the system that the conversation begins with.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,

    /// The most tokens to add.
    #[arg(long, short = 'n', default_value_t = Sampling::default().tokens)]
    tokens: usize,

    /// Divides the logits. 0 always takes the most likely token.
    #[arg(long, default_value_t = Sampling::default().temperature, value_parser = temperature)]
    temperature: f64,

    /// Draw only from this many of the most likely tokens. 0 draws from all of them.
    #[arg(long, default_value_t = Sampling::default().top_k.unwrap_or_default())]
    top_k: usize,

    /// Draw only from the most likely tokens that together have this probability. 1 draws from all of them.
    #[arg(long, default_value_t = Sampling::default().top_p.unwrap_or(1.0), value_parser = probability)]
    top_p: f64,

    /// The seed of the random draws.
    #[arg(long, default_value_t = Sampling::default().seed)]
    seed: u64,

    /// Use the checkpoint of this step instead of the newest.
    #[arg(long, value_name = "STEP")]
    at: Option<u64>,

    #[command(flatten)]
    pub(super) settings: Settings,
}

fn temperature(text: &str) -> std::result::Result<f64, String> {
    let valid = text.parse().ok().filter(|value: &f64| *value >= 0.0 && value.is_finite());
    valid.ok_or_else(|| "give a number that is at least 0, such as 0.8".to_owned())
}

fn probability(text: &str) -> std::result::Result<f64, String> {
    let valid = text.parse().ok().filter(|value: &f64| *value > 0.0 && *value <= 1.0);
    valid.ok_or_else(|| "give a number that is more than 0 and at most 1, such as 0.95".to_owned())
}

/// A model with its config and tokenizer.
struct Loaded {
    model: Gpt,
    tokenizer: Arc<dyn Tokenizer>,
    /// With the ids that begin a document, and those that end one.
    sampling: Sampling,
    /// Its chat template, if one is needed and there is one.
    chat_template: Option<ChatTemplate>,
}

impl Loaded {
    async fn of_run(args: &GenerateArgs) -> Result<Self> {
        let run = RunDirectory::open(&args.model)?;
        let config = run.config_at(args.at.unwrap_or(u64::MAX), args.settings.all())?;
        let tokenizer = open_of_run(&config.data).await?;
        let (model, _) = run.model_at(args.at, &config, &*tokenizer)?;
        let sampling = sampling(&config.data, &*tokenizer, args.tokens);
        let chat_template = match args.chat {
            true => run.chat_template(&config, Some(&date(&config.data)))?,
            false => None,
        };
        Ok(Self { model, tokenizer, sampling, chat_template })
    }

    async fn of_hugging_face(args: &GenerateArgs) -> Result<Self, Failure> {
        let pretrained = Pretrained::open(&args.model)?;
        if args.at.is_some() {
            let problem = "a Hugging Face model directory has no checkpoints; leave it out";
            return Err(Failure::usage("--at", problem));
        }
        let mut base = RunConfig::default().with_model(pretrained.model().clone());
        base.data.pipeline.seq_len = pretrained.max_seq_len().min(SEEN);
        base.data.tokenizer.special_tokens = pretrained.special_tokens()?;
        let mut config = base.with_settings(args.settings.all())?;
        if config.data.tokenizer.train.is_some() {
            let problem =
                "the model has a tokenizer, and the ids of another one would mean other text; leave it out";
            return Err(Error::config("tokenizer.train", problem).into());
        }
        if config.data.tokenizer.is_learned() {
            config.data.tokenizer = config.data.tokenizer.with_json(pretrained.own_tokenizer()?);
        }
        let tokenizer = open_alone(&config.data).await?;
        let model = pretrained.model_without_autodiff(&config, &*tokenizer)?;
        let mut sampling = sampling(&config.data, &*tokenizer, args.tokens);
        if sampling.begin.is_empty() {
            sampling.begin = pretrained.begin()?;
        }
        if sampling.ends.is_empty() {
            sampling.ends = pretrained.ends()?;
        }
        let chat_template = match args.chat {
            true => ChatTemplate::beside(&config.data.tokenizer, Some(&date(&config.data)))?,
            false => None,
        };
        Ok(Self { model, tokenizer, sampling, chat_template })
    }
}

/// Opens the tokenizer of a run without its corpus.
pub(super) async fn open_of_run(config: &Config) -> Result<Arc<dyn Tokenizer>> {
    if config.tokenizer.is_learned() {
        let problem = "the run has learned its tokenizer, and its tokenizer.json is gone; put it back into the run's \
                       directory";
        return Err(Error::Corpus { problem: problem.to_owned() });
    }
    open_alone(config).await
}

/// Opens a config's tokenizer without its corpus, which may be gone.
pub(super) async fn open_alone(config: &Config) -> Result<Arc<dyn Tokenizer>> {
    let alone = Config { tokenizer: config.tokenizer.clone(), ..Config::default() };
    let tokenizer = millstream::loader::open_tokenizer(&alone).await?;
    // It must know the tokens that the config names.
    let mut encoder = Encoder::new(tokenizer.clone());
    if let Some(bos) = &config.tokenizer.bos {
        encoder = encoder.with_bos(bos)?;
    }
    if let Some(eos) = &config.tokenizer.eos {
        encoder.with_eos(eos)?;
    }
    Ok(tokenizer)
}

pub(super) async fn run(args: GenerateArgs, json: bool) -> Result<(), Failure> {
    let mut slow = Some(progress::slow("loading the model"));
    // A run has a config.toml, and a Hugging Face model directory a config.json.
    let loaded = match RunDirectory::open(&args.model) {
        Ok(_) => Loaded::of_run(&args).await?,
        Err(_) => Loaded::of_hugging_face(&args).await?,
    };
    let sampling = Sampling {
        temperature: args.temperature,
        top_k: Some(args.top_k).filter(|k| *k > 0),
        top_p: Some(args.top_p),
        seed: args.seed,
        ..loaded.sampling
    };
    let tokenizer = &*loaded.tokenizer;
    if args.chat {
        let Some(template) = loaded.chat_template else { return Err(without_template(&args.model).into()) };
        drop(slow);
        let chat = Chat::new(&loaded.model, tokenizer, &template, sampling, args.system.as_deref());
        return Ok(chat.run(args.prompt.as_deref(), json)?);
    }
    let prompt = args.prompt.as_deref().unwrap_or_default();
    // Print nothing before the first piece is there, so that errors come first.
    let mut begun = false;
    let text = generate(&loaded.model, tokenizer, prompt, &sampling, |piece| {
        if json {
            return Ok(());
        }
        slow = None;
        let before = if std::mem::replace(&mut begun, true) { "" } else { prompt };
        write(&format!("{before}{piece}"))
    })?;
    drop(slow);
    match json {
        true => print_json(&json!({ "prompt": prompt, "text": text }))?,
        false => print_line(if text.is_empty() { prompt } else { "" })?,
    }
    Ok(())
}

/// Writes text to standard output at once.
fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    let written = write!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|e| Error::io(STANDARD_OUTPUT_NAME, "write", e))
}

/// The error that a model has no chat template.
fn without_template(model: &Path) -> Error {
    let problem = format!(
        "the model in {} has no chat template; leave --chat out, or put the template beside the model's tokenizer.json, as \
         chat_template.jinja",
        model.display()
    );
    Error::config("--chat", problem)
}

/// The date that a config's conversations were rendered with, or else today's, for templates that ask for it.
pub(super) fn date(config: &Config) -> String {
    config.sources.iter().find_map(|source| source.chat.date.clone()).unwrap_or_else(today)
}

/// The sampling settings that a config sets.
pub(super) fn sampling(config: &Config, tokenizer: &dyn Tokenizer, tokens: usize) -> Sampling {
    let id =
        |token: &Option<String>| token.as_deref().and_then(|token| tokenizer.id(token)).into_iter().collect();
    let (begin, ends) = (id(&config.tokenizer.bos), id(&config.tokenizer.eos));
    Sampling { tokens, begin, ends, ..Sampling::default() }
}
