//! `millstream init`: files in, a config for them out, with comments for the next steps.
//!
//! The library recognizes each path and its fields. Before anything is written, some documents of each source are read
//! with the settings of the new config.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::words::{bytes, count};
use super::{RunConfig, hint, print_json, print_line, print_text, progress};
use millstream::atomic::{self, create_atomically, write_atomically};
use millstream::config::Task;
use millstream::render::ChatTemplate;
use millstream::source::Estimate;
use millstream::{Error, Result};

mod look;
mod part;
mod patterns;
mod text;
mod tokenizer;

use look::Found;

pub(super) const HELP: &str = "\
Example: a config for all text below a directory
  millstream init corpus
Example: two directories and a tokenizer, with a name for the config
  millstream init web books --tokenizer tokenizer.json -o mixture.toml
Example: a dataset on the Hugging Face Hub
  millstream init hf://datasets/OWNER/NAME
Example: look at it without writing a file
  millstream init corpus -o -

It finds out each file's format, the field that holds the text, what a document is in plain text, and settings that
suit the corpus's size. It never writes over a file without --force.";

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Files and directories that hold the text, or a dataset on the Hugging Face Hub: hf://datasets/OWNER/NAME.
    #[arg(default_value = ".")]
    paths: Vec<PathBuf>,

    /// The config to write; - prints it.
    #[arg(long, short, value_name = "FILE", default_value = "millstream.toml")]
    output: PathBuf,

    /// Write over the config if it is there.
    #[arg(long)]
    force: bool,

    /// The tokenizer: a tokenizer.json. Without it, one that lies beside the text is taken, or else one is learned.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// The field or column that holds the text, instead of the one that looks like it.
    #[arg(long, value_name = "NAME")]
    field: Option<String>,

    /// The subset of a Hugging Face directory.
    #[arg(long, value_name = "NAME")]
    subset: Option<String>,

    /// The part of a Hugging Face directory, called a split there. Default: train.
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
}

pub(super) async fn run(args: InitArgs, json: bool) -> Result<()> {
    let output = &args.output;
    let is_printed = output.as_os_str() == "-";
    if !is_printed {
        check_target(output, args.force)?;
    }
    let slow = progress::slow("looking at the files");
    let Found { parts, left_out } = look::look(&args).await.map_err(by_option)?;
    let mut size = Estimate::default();
    parts.iter().for_each(|part| size += part.size);
    let tokenizer = tokenizer::choose(&args, &parts, size.text)?;
    let toml = text::toml(&parts, size, &tokenizer, output);
    RunConfig::from_toml(&toml)?;
    drop(slow);
    if is_printed && !json {
        look::told(&left_out).iter().for_each(|line| progress::say(line));
        return print_text(&toml);
    }
    let (sources, text, documents) = (parts.len(), size.text, size.documents);
    let needs_template = parts.iter().any(|part| part.config.task == Task::Chat)
        && ChatTemplate::beside(&tokenizer, None)?.is_none();
    let mut report = json!({
        "sources": sources, "text_bytes": text, "documents": documents, "needs_template": needs_template,
        "left_out": left_out, "next": [],
    });
    if is_printed {
        report["toml"] = json!(toml);
        return print_json(&report);
    }
    if args.force {
        write_atomically(output, toml.as_bytes())?;
    } else if !create_atomically(output, toml.as_bytes())? {
        return Err(exists(output));
    }
    let name = output.to_string_lossy();
    let next = [
        ("inspect", "look at its batches:"),
        ("bench loader", "measure the loader:"),
        ("train", "train a model:"),
    ];
    let next = next.iter().filter(|(command, _)| *command != "train" || cfg!(feature = "train"));
    let commands = next.clone().map(|(command, _)| hint::command(command.split(' ').chain([&*name])));
    let commands: Vec<String> = commands.collect();
    if json {
        (report["config"], report["next"]) = (json!(name), json!(commands));
        return print_json(&report);
    }
    let (sources, documents) = (count(sources as u64, "source"), count(documents, "document"));
    let wrote = format!("wrote {name}: {sources}, about {} of text in about {documents}", bytes(text));
    let mut lines = vec![wrote];
    lines.extend(look::told(&left_out));
    if needs_template {
        lines.push(format!(
            "first name the model's chat template in {name}: tokenizer.path with the template beside it, or \
             source.chat.template"
        ));
    }
    lines.extend(next.zip(&commands).map(|((_, what), command)| format!("{what:22}{command}")));
    print_line(&lines.join("\n"))
}

/// Refuses a target that cannot be written, before any file is read.
fn check_target(output: &Path, force: bool) -> Result<()> {
    if output.extension().is_none_or(|extension| extension != "toml") {
        let problem =
            format!("{} is not a .toml file; name one, such as -o millstream.toml", output.display());
        return Err(Error::config("--output", problem));
    }
    atomic::check_target(output)?;
    match output.try_exists().map_err(|e| Error::io(output, "look at", e))? {
        true if !force => Err(exists(output)),
        _ => Ok(()),
    }
}

fn exists(output: &Path) -> Error {
    let problem =
        format!("{} exists already; name another file, or write over it with --force", output.display());
    Error::config("--output", problem)
}

/// The error with the option that helps, instead of a key: the config does not exist yet.
fn by_option(error: Error) -> Error {
    let Error::Config { key, problem, .. } = &error else { return error };
    let option = key.rsplit('.').next().filter(|key| ["field", "subset", "part"].contains(key));
    match option {
        Some(option) => Error::config(format!("--{option}"), problem),
        None => error,
    }
}
