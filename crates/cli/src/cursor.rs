//! `millstream cursor`: shows cursors, and merges the cursors of several ranks.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use super::words::{count, toml_of};
use super::{print_json, print_line, print_written};
use millstream::cursor::{Event, SourceState};
use millstream::{Cursor, Result};

pub(super) const HELP: &str = "\
Example: four ranks saved their cursors after the same batch; resume with two ranks
  millstream cursor merge rank-*.json -o cursor.json
  millstream digest my.toml --from cursor.json --set pipeline.rank=0 --set pipeline.world=2";

#[derive(Debug, Subcommand)]
pub(super) enum CursorCommand {
    /// Merge the cursors that all ranks saved after the same batch. Any number of ranks can resume from the result.
    #[command(after_help = HELP)]
    Merge {
        /// The cursors of the ranks, in any order.
        #[arg(required = true, value_name = "CURSOR_FILE")]
        cursors: Vec<PathBuf>,

        /// The file for the merged cursor.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Show a cursor: its batch, its lanes, the digest of all batches before it, its history.
    Show {
        /// The cursor.
        #[arg(value_name = "CURSOR_FILE")]
        cursor: PathBuf,
    },
}

#[derive(Serialize)]
struct Shown {
    batch: u64,
    turn: u64,
    lanes: usize,
    known_lanes: Vec<usize>,
    digest: String,
    sources: Vec<ShownSource>,
    history: Vec<Event>,
}

#[derive(Serialize)]
struct ShownSource {
    name: String,
    /// None with a token budget.
    rows: Option<u64>,
    /// How many documents lie before the place where a resume begins to read.
    documents: u64,
    skipped: u64,
    /// The epoch of the lane that has read furthest.
    epoch: u64,
}

pub(super) fn run(command: CursorCommand, json: bool) -> Result<()> {
    match command {
        CursorCommand::Merge { cursors, output } => {
            let whole = Cursor::merge_files(&cursors)?;
            whole.save(&output)?;
            let shown = Shown::new(&whole);
            print_written(&output, &shown, &shown.lines(), json)
        }
        CursorCommand::Show { cursor } => {
            let shown = Shown::new(&Cursor::load(cursor)?);
            if json { print_json(&shown) } else { print_line(&shown.lines()) }
        }
    }
}

impl Shown {
    fn new(cursor: &Cursor) -> Self {
        let known: Vec<usize> = cursor.known_lanes().collect();
        // With a token budget, a cursor counts only the rows before the windows that are being delivered.
        let counts_rows = !cursor.fingerprint().0.contains_key("pipeline.batch_tokens");
        let source = |(index, name): (usize, &String)| {
            let states =
                || known.iter().filter_map(|lane| cursor.lane(*lane)).map(|lane| &lane.sources[index]);
            // A file that was edited by hand may hold any numbers.
            let sum = |count: fn(&SourceState) -> u64| states().map(count).fold(0, u64::saturating_add);
            ShownSource {
                name: name.clone(),
                rows: counts_rows.then(|| sum(|state| state.rows)),
                documents: sum(|state| state.at.documents),
                skipped: sum(|state| state.at.skipped),
                epoch: states().map(|state| state.at.epoch).max().unwrap_or_default(),
            }
        };
        Self {
            batch: cursor.batch(),
            turn: cursor.turn(),
            lanes: cursor.lanes(),
            digest: cursor.digest().to_string(),
            sources: cursor.sources().iter().enumerate().map(source).collect(),
            history: cursor.history().to_vec(),
            known_lanes: known,
        }
    }

    fn lines(&self) -> String {
        let Self { batch, turn, lanes, known_lanes, digest, sources, history } = self;
        let known = known_lanes.len();
        let first = format!("after batch {batch} (turn {turn}), {known} of {lanes} lanes, digest {digest}");
        let source = |ShownSource { name, rows, documents, skipped, epoch }: &ShownSource| {
            let rows = rows.map_or_else(String::new, |rows| format!("{}, ", count(rows, "row")));
            let behind = count(*documents, "document");
            format!(
                "  source {name}: {rows}{skipped} skipped, epoch {epoch}; {behind} need not be read again"
            )
        };
        let sources = sources.iter().map(source);
        let history = history.iter().map(|event| format!("  {}", change(event).join(": ")));
        [first].into_iter().chain(sources).chain(history).collect::<Vec<_>>().join("\n")
    }
}

/// When a stream was changed, and the setting that did.
pub(super) fn change(event: &Event) -> [String; 2] {
    match event {
        Event::Weights { batch, row, shares } => {
            [format!("from batch {batch} (row {row}) on"), format!("weights = {}", toml_of(shares))]
        }
        Event::ExcludedBatches { from, to } => {
            [format!("batches {from} to {}", to - 1), format!("exclude.batches = [[{from}, {to}]]")]
        }
        Event::ExcludedDocuments { batch, documents, .. } => {
            [format!("from batch {batch} on"), format!("exclude.documents = {}", toml_of(documents))]
        }
    }
}
