//! `millstream report`: the results of runs, or what one of them read, as tables or as a page.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::failure::{FAILED, Failure};
use super::table::{aligned, left_aligned, several};
use super::words::count;
use super::{print_json, print_line, print_written, progress, settings};
use millstream::{Result, atomic};

mod chart;
mod curve;
mod data;
mod figures;
mod line;
mod page;
mod run;
mod unit;

use data::{Receipt, Table};
use figures::{Figures, table, table_by_value};
use run::Run;

pub(super) const HELP: &str = "\
Example: the figures of two runs, side by side
  millstream report runs/first runs/second
Example: a page with their curves, samples and configs
  millstream report runs/first runs/second --html report.html
Example: what a run read: files and their digests, shares and epochs of the sources, what was skipped and why
  millstream report runs/first --data
Example: the same, after a check that the files still give the batches of the run, at 20 places of it
  millstream report runs/first --data --check -n 20 --html data.html

The page is one file, which opens without a network. A run that still goes on is shown as far as it is.

--check makes batches again, from one cursor of the run's trail to the next, and compares what each lane delivered.
Files that are gone or cannot be read are marked; only --check needs them.
Exit codes: 0 done, 1 batches differ or a failure, 2 wrong usage, 141 the reader of the output is gone.";

/// How many rows of a long table the terminal and the page show.
const SHOWN: usize = 20;
const SHOWN_ON_A_PAGE: usize = 5000;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The directories of the runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Write a page with curves, samples and configs to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Show what the run read instead of its results. Hashes its files.
    #[arg(long)]
    data: bool,

    /// Make batches of the run again, and compare them.
    #[arg(long, requires = "data")]
    check: bool,

    /// At how many places of the run to make batches again. Each has those between two cursors.
    #[arg(long, short = 'n', value_name = "N", default_value = "10", requires = "check")]
    places: NonZeroUsize,

    /// Where a source's files are now, such as --set source.0.paths=moved/*.txt. Repeat it for more sources.
    #[arg(long, value_name = "KEY=VALUE", value_parser = settings::moved_paths, requires = "data")]
    set: Vec<String>,
}

#[derive(Serialize)]
struct Written<'a, T> {
    output: &'a PathBuf,
    runs: Vec<T>,
}

pub(super) async fn run(args: &ReportArgs, json: bool) -> Result<ExitCode, Failure> {
    if let Some(output) = &args.html {
        atomic::check_target(output)?;
    }
    match (args.data, &args.runs[..]) {
        (true, [run]) => data(args, run, json).await,
        (true, _) => Err(Failure::usage("--data", "it shows what one run read; name only one")),
        (false, _) => Ok(results(args, json).map(|()| ExitCode::SUCCESS)?),
    }
}

/// What a run read.
async fn data(args: &ReportArgs, run: &PathBuf, json: bool) -> Result<ExitCode, Failure> {
    let name = run::names(std::slice::from_ref(run)).swap_remove(0);
    let receipt = Receipt::read(name, run, &args.set, args.check.then(|| args.places.get())).await?;
    let code = if receipt.is_same() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) };
    if let Some(output) = &args.html {
        let tables = receipt.tables().into_iter().map(|table| table.first(SHOWN_ON_A_PAGE, "see --json"));
        atomic::write_atomically(output, page::of_tables(&tables.collect::<Vec<_>>()).as_bytes())?;
        let said = format!("wrote {}: the data of {}", output.display(), run.display());
        print_written(output, &Written { output, runs: vec![receipt] }, &said, json)?;
    } else if json {
        print_json(&receipt)?;
    } else {
        for (nth, table) in receipt.tables().into_iter().enumerate() {
            let Table { title, rows, is_words } = table.first(SHOWN, "see --html or --json");
            let gap = (nth > 0).then(String::new);
            let rows = if is_words { left_aligned(&rows) } else { aligned(&rows) };
            let mut lines = gap.into_iter().chain([title]).chain(rows);
            lines.try_for_each(|line| print_line(&line))?;
        }
    }
    Ok(code)
}

/// The results of runs.
fn results(args: &ReportArgs, json: bool) -> Result<()> {
    let slow = progress::slow("reading the runs");
    let named = run::names(&args.runs).into_iter().zip(&args.runs);
    let runs: Vec<Run> = named.map(|(name, path)| Run::read(name, path)).collect::<Result<_>>()?;
    drop(slow);
    let figures: Vec<Figures> = runs.iter().map(|run| run.figures.clone()).collect();
    if let Some(output) = &args.html {
        let said = format!("wrote {}: {}", output.display(), count(runs.len() as u64, "run"));
        atomic::write_atomically(output, page::page(runs).as_bytes())?;
        return print_written(output, &Written { output, runs: figures }, &said, json);
    }
    match json {
        true => figures.iter().try_for_each(print_json),
        false => {
            let tables = [table(&figures.iter().collect::<Vec<_>>()), table_by_value(&figures)];
            several(&tables).iter().try_for_each(|line| print_line(line))?;
            figures.iter().try_for_each(print_ledger)
        }
    }
}

/// What became of the documents and ids of a run.
fn print_ledger(figures: &Figures) -> Result<()> {
    let Some(ledger) = &figures.ledger else { return Ok(()) };
    print_line("")?;
    ledger.lines(Some(&figures.run)).iter().try_for_each(|line| print_line(line))
}
