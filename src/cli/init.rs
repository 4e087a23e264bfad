//! `millstream init`: files in, a config for them out, with comments to go on from.
//!
//! Only the first bytes of a few files are read. What a directory holds is told by the extensions in it, and one file
//! of each is looked into. Before anything is written, the config is loaded and the first document of each source is
//! read with it.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::StreamExt;
use serde::Serialize;
use tempfile::NamedTempFile;

use super::words::count;
use super::{hint, print_json, print_line, print_text, progress};
use crate::atomic::{self, create_atomically, write_atomically};
use crate::config::SourceKind;
use crate::{Config, Error, LaneCursor, Result, Source};

mod dataset;
mod field;
mod head;
mod ids;
mod kind;
mod look;
mod part;
mod plain;
mod plan;
mod records;
mod text;

pub(super) use plan::bytes;

use field::Wish;
use text::Starter;

pub(super) const HELP: &str = "\
Example: a config for all text below a directory
  millstream init corpus
Example: two directories and a tokenizer, with a name for the config
  millstream init web books --tokenizer tokenizer.json -o mixture.toml
Example: look at it without writing a file
  millstream init corpus -o -

It finds out each file's format, the field that holds the text, what a document is in plain text, and settings that
suit the corpus's size. It never writes over a file without --force.";

/// The path that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Files and directories that hold the text.
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

    /// The split of a Hugging Face directory. Default: train.
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
}

#[derive(Serialize)]
struct Report {
    /// Where it is; none if it was printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<PathBuf>,
    sources: usize,
    text_bytes: u64,
    documents: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    toml: Option<String>,
    next: Vec<String>,
}

pub(super) async fn run(args: InitArgs, json: bool) -> Result<()> {
    let InitArgs { paths, output, force, tokenizer, field, subset, part } = args;
    let is_printed = output.as_os_str() == STANDARD_OUTPUT;
    if !is_printed {
        check_target(&output, force)?;
    }
    let wish = Wish { field: field.as_deref(), subset: subset.as_deref(), part: part.as_deref() };
    let slow = progress::slow("looking at the files");
    let parts = look::parts(&paths, wish)?;
    let ids = ids::ids(tokenizer.as_deref(), &paths, &parts)?;
    let starter = Starter::new(parts, ids, text::run_directory(&output));
    let toml = starter.toml();
    let file = draft(&output, is_printed, &toml)?;
    check(file.path()).await?;
    drop(slow);
    let mut report = Report {
        config: None,
        sources: starter.sources.len(),
        text_bytes: starter.size.text,
        documents: starter.size.documents,
        toml: None,
        next: Vec::new(),
    };
    if is_printed {
        return if json { print_json(&Report { toml: Some(toml), ..report }) } else { print_text(&toml) };
    }
    keep(&toml, &output, force)?;
    let name = output.to_string_lossy();
    report.next =
        next_commands().map(|(command, _)| hint::command(command.split(' ').chain([&*name]))).collect();
    if json {
        return print_json(&Report { config: Some(output), ..report });
    }
    print_line(&format!(
        "wrote {name}: {}, about {} of text in about {}",
        count(report.sources as u64, "source"),
        plan::bytes(report.text_bytes),
        count(report.documents, "document")
    ))?;
    let lines = next_commands().zip(&report.next).map(|((_, what), command)| format!("{what:22}{command}"));
    print_line(&lines.collect::<Vec<_>>().join("\n"))
}

/// The commands that a new config is for, and what each of them does.
fn next_commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [
        ("inspect", "look at its batches:"),
        ("bench loader", "measure the loader:"),
        ("train", "train a model:"),
    ];
    all.into_iter().filter(|(command, _)| *command != "train" || cfg!(feature = "burn"))
}

/// Refuses a target that cannot be, before anything is looked at.
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

/// The config in a file beside the one that it is to be, so that it can be loaded.
fn draft(output: &Path, is_printed: bool, toml: &str) -> Result<NamedTempFile> {
    let directory = match output.parent() {
        _ if is_printed => std::env::temp_dir(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let write = || {
        std::fs::create_dir_all(&directory)?;
        let mut file =
            tempfile::Builder::new().prefix(".millstream").suffix(".toml").tempfile_in(&directory)?;
        file.write_all(toml.as_bytes())?;
        Ok(file)
    };
    write().map_err(|e| Error::io(output, "write", e))
}

/// Loads the config, and reads the first document of each source with it.
async fn check(path: &Path) -> Result<()> {
    let config = Config::load(path)?;
    for source in config.sources.iter().filter(|source| source.kind != SourceKind::Shards) {
        let opened =
            Source::open_with(std::slice::from_ref(source), &config.store).await.map_err(by_option)?;
        match opened.documents(&LaneCursor::default()).next().await {
            Some(first) => drop(first.map_err(by_option)?),
            None => {
                let paths = source.paths.join(", ");
                let problem =
                    format!("{paths}: no document can be read there; name other files, or another --field");
                return Err(Error::Corpus { problem });
            }
        }
    }
    Ok(())
}

/// The error with the option that helps, instead of a key of the config that is not there yet.
fn by_option(error: Error) -> Error {
    let Error::Config { key, problem, .. } = &error else { return error };
    let option = key.rsplit('.').next().filter(|key| ["field", "subset", "part"].contains(key));
    match option {
        Some(option) => Error::config(format!("--{option}"), problem),
        None => error,
    }
}

/// Writes the config that was checked.
fn keep(toml: &str, output: &Path, force: bool) -> Result<()> {
    if force {
        return write_atomically(output, toml.as_bytes());
    }
    if create_atomically(output, toml.as_bytes())? { Ok(()) } else { Err(exists(output)) }
}
