//! `millstream when`: the steps of a run that trained on a document.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::steps::{self, Steps};
use super::words::count;
use super::{print_json, print_line, progress, settings};
use millstream::Result;
use millstream::when::{Asked, Found, Place, Search};

/// The exit code if the run was not trained on the document. A failure has another.
const NOT_TRAINED_ON: u8 = 3;

pub(super) const HELP: &str = "\
Example: in which steps was the run in runs/first trained on the document on line 120 of a file?
  millstream when runs/first --document corpus/3.jsonl:120
Example: the same of a file that is one document, by the end of its path
  millstream when runs/first --document letters/17.txt

The document is named as `inspect` names it: PATH:LINE, where LINE is the line that it begins on. Where a format has no
lines, LINE is the byte or row. PATH leads to a file, or is the end of its path if only one path ends so.

Each place is a line: the step, counted from 1; the batch and the epoch, counted from 0; the row of the batch, and from
where to where in it; and the source, if several read the file. Only the batches around the document are read again: the
run's trail of cursors (cursors.jsonl, train.trail_every) tells where it was read. Without a trail, all batches are read.

Exit codes: 0 it was trained on, 3 it was not, and the output says why, 1 failed, 2 wrong usage, 141 the reader of the
output is gone.";

#[derive(Debug, Args)]
pub(super) struct WhenArgs {
    /// The directory of the run.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// The document, as `inspect` names it; without a line, a file that is one document.
    #[arg(long, value_name = "PATH:LINE")]
    document: OsString,

    /// Where a source's files are now, such as --set source.0.paths=moved/*.txt. Repeat it for more sources.
    #[arg(long, value_name = "KEY=VALUE", value_parser = settings::moved_paths)]
    set: Vec<String>,
}

#[derive(Serialize)]
struct Shown<'a> {
    document: &'a Asked,
    found: Vec<ShownPlace<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    read_batches: u64,
    of_batches: u64,
}

#[derive(Serialize)]
struct ShownPlace<'a> {
    step: u64,
    #[serde(flatten)]
    place: Place,
    /// The name of its source.
    source: &'a str,
}

pub(super) async fn run(args: WhenArgs, json: bool) -> Result<ExitCode> {
    let (run, steps) = steps::read(&args.run, &args.set)?;
    let slow = progress::slow("looking for the document in the files");
    let search = Search::open(run).await?;
    // `inspect` and the search show names alike where they are not UTF-8.
    let document = args.document.to_string_lossy();
    let (path, line) = named(&document);
    let asked = search.document(path, line).await?;
    drop(slow);
    let slow = progress::slow("reading batches again");
    let mut is_said = false;
    let found = search.find(&asked, |read, of| {
        if !std::mem::replace(&mut is_said, true) {
            progress::say(&format!("reading {} again", count(of, "batch")));
        }
        slow.detail(|| format!("{read} of {of}"));
    });
    let found = found.await?;
    drop(slow);
    print(&asked, &found, &steps, json)?;
    Ok(if found.found.is_empty() { ExitCode::from(NOT_TRAINED_ON) } else { ExitCode::SUCCESS })
}

/// The path and the line of a document.
fn named(document: &str) -> (&str, Option<u64>) {
    let parts = document.rsplit_once(':');
    let parts = parts.and_then(|(path, line)| Some((path, line.parse().ok()?)));
    parts.map_or((document, None), |(path, line)| (path, Some(line)))
}

fn print(asked: &Asked, found: &Found, steps: &Steps, json: bool) -> Result<()> {
    let Found { found, reason, read_batches, of_batches } = found;
    let sources = asked.sources();
    let places = found.iter().map(|&place| ShownPlace {
        step: steps.of(place.batch),
        place,
        source: sources.get(&place.source).copied().unwrap_or_default(),
    });
    if json {
        let (reason, found) = (reason.as_deref(), places.collect());
        let (read_batches, of_batches) = (*read_batches, *of_batches);
        return print_json(&Shown { document: asked, found, reason, read_batches, of_batches });
    }
    let line = asked.line.map_or_else(String::new, |line| format!(":{line}"));
    let document = format!("{}{line}", asked.path.display());
    if let Some(reason) = reason {
        print_line(&format!("{document}: {reason}"))?;
    } else {
        print_line(&format!("{document}: {}", count(found.len() as u64, "place")))?;
    }
    for ShownPlace { step, place: Place { batch, row, from, to, epoch, .. }, source } in places {
        let epoch = epoch.map_or_else(|| "unknown".to_owned(), |epoch| epoch.to_string());
        // One source needs no name.
        let source = if sources.len() > 1 { format!(" of source {source}") } else { String::new() };
        print_line(&format!(
            "  step {step}, batch {batch}, row {row:>3} [{from:>5}..{to:>5}], epoch {epoch}{source}"
        ))?;
    }
    progress::say(&format!("read {read_batches} of {}", count(*of_batches, "batch")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_number_behind_the_last_colon() {
        assert_eq!(named("a/b.txt:7"), ("a/b.txt", Some(7)));
        assert_eq!(named("s3://a/b.txt:7"), ("s3://a/b.txt", Some(7)));
        assert_eq!(named("s3://a/b.txt"), ("s3://a/b.txt", None));
        assert_eq!(named("a.txt:x"), ("a.txt:x", None));
    }
}
