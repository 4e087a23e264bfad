//! `millstream cursor`: shows cursors, and merges the cursors of several ranks.

use std::path::PathBuf;

use clap::Subcommand;
use millstream::cursor::SourceState;
use millstream::{Cursor, Result};
use serde::Serialize;

use super::words::count;
use super::{print_json, print_line};

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
        #[arg(long, short = 'o', value_name = "FILE")]
        out: PathBuf,
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
    history: Vec<millstream::cursor::Event>,
}

#[derive(Serialize)]
struct ShownSource {
    name: String,
    rows: u64,
    documents: u64,
    skipped: u64,
    /// The epoch of the lane that is furthest.
    epoch: u64,
}

pub(super) fn run(command: CursorCommand, json: bool) -> Result<()> {
    match command {
        CursorCommand::Merge { cursors, out } => {
            let cursors = cursors.iter().map(Cursor::load).collect::<Result<Vec<_>>>()?;
            let whole = Cursor::merge(&cursors)?;
            whole.save(&out)?;
            show(&whole, json)
        }
        CursorCommand::Show { cursor } => show(&Cursor::load(cursor)?, json),
    }
}

fn show(cursor: &Cursor, json: bool) -> Result<()> {
    let known: Vec<usize> = (0..cursor.lanes()).filter(|lane| cursor.lane(*lane).is_some()).collect();
    let source = |(index, name): (usize, &String)| {
        let states = || known.iter().filter_map(|lane| cursor.lane(*lane)).map(|lane| &lane.sources[index]);
        // A file that was edited by hand may hold any numbers.
        let sum = |count: fn(&SourceState) -> u64| states().map(count).fold(0, u64::saturating_add);
        ShownSource {
            name: name.clone(),
            rows: sum(|state| state.rows),
            documents: sum(|state| state.at.documents),
            skipped: sum(|state| state.at.skipped),
            epoch: states().map(|state| state.at.epoch).max().unwrap_or_default(),
        }
    };
    let shown = Shown {
        batch: cursor.batch(),
        turn: cursor.turn(),
        lanes: cursor.lanes(),
        digest: cursor.digest().to_string(),
        sources: cursor.sources().iter().enumerate().map(source).collect(),
        history: cursor.history().to_vec(),
        known_lanes: known,
    };
    if json {
        return print_json(&shown);
    }
    print_line(&format!(
        "after batch {} (turn {}), {} of {} lanes, digest {}",
        shown.batch,
        shown.turn,
        shown.known_lanes.len(),
        shown.lanes,
        shown.digest
    ))?;
    for ShownSource { name, rows, documents, skipped, epoch } in &shown.sources {
        print_line(&format!(
            "  source {name}: {}, windows start at document {documents}, {skipped} skipped, epoch {epoch}",
            count(*rows, "row")
        ))?;
    }
    shown.history.iter().try_for_each(|event| print_line(&format!("  {}", describe(event))))
}

fn describe(event: &millstream::cursor::Event) -> String {
    use millstream::cursor::Event;
    match event {
        Event::Weights { batch, row, shares } => {
            let shares: Vec<String> = shares.iter().map(|(name, share)| format!("{name} {share}")).collect();
            format!("from batch {batch} (row {row}) on: {}", shares.join(", "))
        }
        Event::ExcludedBatches { from, to } => format!("batches {from}..{to} excluded"),
        Event::ExcludedDocuments { batch, documents } => {
            let documents: Vec<String> = documents
                .iter()
                .map(|document| format!("{} at byte {}", document.path.display(), document.byte))
                .collect();
            format!("from batch {batch} on without {}", documents.join(", "))
        }
        other => format!("{other:?}"),
    }
}
