//! `millstream report`: the results of runs, as a table or as a page with their curves.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::table::aligned;
use super::words::count;
use super::{print_json, print_line, print_written, progress};
use millstream::{Result, atomic};

mod chart;
mod curve;
mod figures;
mod line;
mod page;
mod run;
mod unit;

use figures::{Figures, table, table_by_value};
use run::Run;

pub(super) const HELP: &str = "\
Example: the figures of two runs, side by side
  millstream report runs/first runs/second
Example: a page with their curves, samples and configs
  millstream report runs/first runs/second --html report.html

The page is one file, which opens without a network. A run that still goes on is shown as far as it is.";

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The directories of the runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Write a page with curves, samples and configs to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Serialize)]
struct Written<'a> {
    output: &'a PathBuf,
    runs: Vec<Figures>,
}

pub(super) fn run(args: &ReportArgs, json: bool) -> Result<()> {
    if let Some(output) = &args.html {
        atomic::check_target(output)?;
    }
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
            let by_value = aligned(&table_by_value(&figures));
            let gap = (!by_value.is_empty()).then(String::new);
            let mut lines =
                aligned(&table(&figures.iter().collect::<Vec<_>>())).into_iter().chain(gap).chain(by_value);
            lines.try_for_each(|line| print_line(&line))?;
            figures.iter().try_for_each(print_ledger)
        }
    }
}

/// What became of the documents and ids of a run.
fn print_ledger(figures: &Figures) -> Result<()> {
    let Some(ledger) = &figures.ledger else { return Ok(()) };
    let mut rows = ledger.rows();
    if let Some(head) = rows.first_mut().and_then(|row| row.first_mut()) {
        *head = format!("{} after {head}", figures.run);
    }
    print_line("")?;
    aligned(&rows).iter().try_for_each(|line| print_line(line))
}
