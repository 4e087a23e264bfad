//! `millstream check`: the files, lanes and sizes that a config leads to, without reading documents or writing
//! anything.

use clap::Args;
use serde::Serialize;

use super::words::{bytes, count};
use super::{ConfigArgs, print_json, print_line};
use millstream::config::{PipelineConfig, Task};
use millstream::loader::{Checked, CheckedTask, CheckedTokenizer};
use millstream::{Result, loader};

#[cfg(feature = "train")]
mod training;

#[cfg(feature = "train")]
use training::Training;

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
    #[cfg(feature = "train")]
    train: Option<Training<'a>>,
}

pub(super) async fn run(args: CheckArgs, json: bool) -> Result<()> {
    let config = args.config.load()?;
    let checked = loader::check(&config.data).await?;
    // Without `mpi` this trainer has one process. A config for several is another trainer's, and is not reported on.
    #[cfg(feature = "train")]
    let train = match checked.world == 1 || cfg!(feature = "mpi") {
        true => Some(Training::planned(&args.config, &config, checked.tokenizer.vocab_size).await?),
        false => None,
    };
    if !json {
        #[cfg(feature = "train")]
        let more = train.as_ref().map(Training::lines).unwrap_or_default();
        #[cfg(not(feature = "train"))]
        let more = Vec::new();
        return print(&checked, &config.data.pipeline, more);
    }
    print_json(&Report {
        checked: &checked,
        #[cfg(feature = "train")]
        train,
    })
}

/// Prints a report, and after it the trainer's lines: titles and texts.
fn print(checked: &Checked, pipeline: &PipelineConfig, more: Vec<(&str, String)>) -> Result<()> {
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
    for (name, source) in names.iter().zip(&checked.sources) {
        if let Some(found) = &source.task {
            line(name, task(found))?;
        }
    }
    line("tokenizer", tokenizer(&checked.tokenizer))?;
    for (name, commit) in &checked.commits {
        line("commit", format!("{name} is {commit}"))?;
    }
    line("batches", batches(checked, pipeline))?;
    line("loader", format!("up to {} of memory", bytes(checked.memory)))?;
    if checked.holdout > 0.0 {
        line("held out", format!("{}% of the documents", checked.holdout * 100.0))?;
    }
    more.into_iter().try_for_each(|(title, text)| line(title, text))
}

fn task(CheckedTask { task, template, learned_from, .. }: &CheckedTask) -> String {
    let what = match task {
        Task::Chat => "conversations",
        Task::Completion => "prompts with completions",
        Task::Fim => "text with a hole",
        _ => "records",
    };
    let by = template.as_ref().map_or_else(String::new, |template| format!(", rendered by {template}"));
    format!("{what}{by}; learned from: {learned_from}")
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
