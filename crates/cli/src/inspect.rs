//! `millstream inspect`: shows the ids that the trainer sees, where they come from, and what is learned from.
//!
//! - `mask`: what is learned from, shown and counted
//! - `check`: the proof that it is the model's own turns

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use futures::StreamExt;
use serde_json::{Value, json};

mod check;
mod mask;

use check::Check;
use mask::Shares;

use super::words::count;
use super::{ConfigArgs, RunConfig, nothing_held_out, print_json, print_line, progress};
use millstream::batch::Piece;
use millstream::document::ColumnValue;
use millstream::loader::with_stored_tokenizer;
use millstream::{Batch, Config, Cursor, Error, Loader, Result};
#[cfg(feature = "train")]
use millstream::{trail, world::World};
#[cfg(feature = "train")]
use millstream_train::{Checkpoint, RunDirectory};

pub(super) const HELP: &str = "\
Example: millstream inspect configs/quickstart.toml --batches 2
Example: the loss rose at batch 740 of the run in train.out; see what was in it
  millstream inspect configs/quickstart.toml --batch 740
Example: see what a chat is learned from, and prove it on a hundred batches
  millstream inspect configs/chat.toml --mask
  millstream inspect configs/chat.toml --mask --check

A piece is the part of a row that comes from one document. `from` and `to` are places in the row; `path`, `line` and
`byte` say where the document begins. The values of source.columns follow, if there are any.

Batches are counted from 0, and training steps from 1. While a run uses all its batches, step s has the train.accumulate
batches before batch s * train.accumulate. Batches that are excluded or have no target are of no step, so later steps
have later batches; `millstream when` says the exact steps of a document.

With --batch the stream is opened at the nearest cursor before that batch: that of --from, or else one of the run in
train.out (cursors.jsonl). Without a cursor it is read from its start.

With --check no batch is shown. Each record is read and rendered again: what is learned from must be what the model
writes after the template's prompt, with the token that stops it, and nothing else. Exit codes: 0 it is, 1 it is not,
and the message says where and why.";

/// How many batches are proved by default.
const PROVED: NonZeroU64 = NonZeroU64::new(100).expect("it is not zero");

/// How many characters of a piece are shown: fewer than a hundred with the margin.
const EXCERPT: usize = 90;

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How many batches to show, or to prove. Default: 1, and with --check 100.
    #[arg(long, short = 'n')]
    batches: Option<NonZeroU64>,

    /// Begin with this batch, counted from 0.
    #[arg(long, value_name = "N")]
    batch: Option<u64>,

    /// Begin where this cursor says.
    #[arg(long, value_name = "CURSOR_FILE")]
    from: Option<PathBuf>,

    /// Show the held-out batches instead: the first train.validation_batches of them are what a run validates on.
    #[arg(long, conflicts_with_all = ["batch", "from"])]
    held_out: bool,

    /// Show all of the text, and what of it is learned from: in color, or in brackets.
    #[arg(long)]
    mask: bool,

    /// Prove that the model's own turns are learned from, all of them and nothing else.
    #[arg(long, requires = "mask")]
    check: bool,
}

pub(super) async fn run(args: InspectArgs, json: bool) -> Result<()> {
    let run = args.config.load()?;
    let config = with_stored_tokenizer(&run.data).await?;
    let cursor = match (&args.from, args.batch) {
        (Some(path), _) => Some(Cursor::load(path)?),
        (None, Some(batch)) => of_run(&run, batch)?,
        (None, None) => None,
    };
    let mut loader = match args.held_out {
        true => super::open(&config, super::held_out(&config)?).await?,
        false => open(&config, cursor, args.from.is_some()).await?,
    };
    let begun = loader.start().batch();
    let first = args.batch.unwrap_or(begun);
    if first < begun {
        let problem = format!("batch {first} is before the cursor, which is of batch {begun}");
        return Err(Error::config("--batch", problem));
    }
    let mut check = match args.mask {
        true => Check::open(&loader, first > 0, args.check).await?,
        false => Check::default(),
    };
    let mut shares = Shares::default();
    let wanted = args.batches.map_or(if args.check { PROVED.get() } else { 1 }, NonZeroU64::get);
    let mut left = wanted;
    let mut on_the_way = (begun < first).then(|| progress::slow("reading up to the batch"));
    while left > 0 {
        let Some(batch) = loader.next().await else { break };
        let batch = batch?;
        if batch.number() < first {
            if let Some(slow) = &on_the_way {
                slow.detail(|| format!("{} of {first}", batch.number()));
            }
            continue;
        }
        on_the_way = None;
        if left == wanted
            && let Some(asked) = args.batch
            && batch.number() > asked
        {
            return Err(not_delivered(&config, asked, batch.number()));
        }
        left -= 1;
        check.add(&batch).await?;
        shares.add(&batch);
        match (args.check, json, args.mask) {
            (true, ..) => {}
            (false, true, with_mask) => print_json(&shown(&batch, with_mask))?,
            (false, false, true) => mask::print(&batch, &loader)?,
            (false, false, false) => print_batch(&batch, &loader)?,
        }
    }
    if args.held_out && left == wanted {
        progress::say(&nothing_held_out(&config));
    }
    match args.batch {
        Some(batch) if left == wanted => {
            Err(Error::config("--batch", format!("the stream ends before batch {batch}")))
        }
        _ if args.mask => check.finish(&shares, json),
        _ => Ok(()),
    }
}

/// The nearest cursor before a batch that the run in `train.out` left, if there is one with the lanes of this process.
#[cfg(feature = "train")]
fn of_run(run: &RunConfig, batch: u64) -> Result<Option<Cursor>> {
    let (world, out) = (World::launched(&run.data.pipeline)?, &run.train.out);
    let knows = |cursor: &Cursor| {
        (0..cursor.lanes()).filter(|&lane| world.owns(lane)).all(|lane| cursor.lane(lane).is_some())
    };
    match trail::nearest(out.join(trail::FILE), batch)? {
        Some(cursor) if !knows(&cursor) => {}
        nearest => return Ok(nearest),
    }
    // The trail of several ranks has the first one's lanes, and checkpoints have all.
    let checkpoints = RunDirectory::open(out)?.checkpoints();
    for step in Checkpoint::steps(&checkpoints)?.into_iter().rev() {
        let checkpoint = Checkpoint::after(&checkpoints, step)?;
        let cursor = checkpoint.map(|checkpoint| checkpoint.cursor()).transpose()?.flatten();
        if let Some(cursor) = cursor.filter(|cursor| cursor.batch() <= batch) {
            return Ok(Some(cursor));
        }
    }
    progress::say(
        "the run's trail has only the first rank's lanes, and no checkpoint is before this batch: reading from the start",
    );
    Ok(None)
}

/// Without the trainer there are no runs.
#[cfg(not(feature = "train"))]
fn of_run(_: &RunConfig, _: u64) -> Result<Option<Cursor>> {
    Ok(None)
}

/// The error for a batch that is not delivered: `next` is the first one that is.
fn not_delivered(config: &Config, batch: u64, next: u64) -> Error {
    let is_excluded = config.exclude.batches.iter().any(|&(from, to)| (from..to).contains(&batch));
    let why = if is_excluded { "excluded (exclude.batches)" } else { "another rank's" };
    Error::config("--batch", format!("batch {batch} is {why}; the next one here is batch {next}"))
}

/// Opens the stream at `cursor`. A cursor of another order or with other exclusions is skipped, unless it
/// `is_asked_for`.
async fn open(config: &Config, cursor: Option<Cursor>, is_asked_for: bool) -> Result<Loader> {
    let Some(cursor) = cursor else { return super::open(config, Loader::builder(config)).await };
    let batch = cursor.batch();
    match super::open(config, Loader::builder(config).with_cursor(cursor)).await {
        Err(error) if !is_asked_for && is_of_another_stream(&error) => {
            tracing::warn!(%error, "the cursors in train.out belong to another stream; reading from the start");
            super::open(config, Loader::builder(config)).await
        }
        Ok(loader) => {
            tracing::info!(batch, "opened at a cursor");
            Ok(loader)
        }
        refused => refused,
    }
}

/// Whether a cursor was refused because its run read or excluded other documents than the config says.
fn is_of_another_stream(error: &Error) -> bool {
    match error {
        Error::Fingerprint { .. } => true,
        Error::Config { key, .. } => key.starts_with("exclude."),
        _ => false,
    }
}

/// The batch for scripts. Its mask has a row of 0 and 1 for each row of ids.
fn shown(batch: &Batch, with_mask: bool) -> Value {
    let piece = |piece: &Piece| {
        let (path, line) = (batch.path(piece).display().to_string(), batch.line(piece));
        let Piece { row, from, to, position, .. } = piece;
        let mut shown = json!({
            "row": row, "from": from, "to": to, "path": path, "line": line, "byte": position.byte,
        });
        let columns: BTreeMap<&str, &ColumnValue> = batch.columns(piece).collect();
        if !columns.is_empty() {
            shown["columns"] = json!(columns);
        }
        shown
    };
    let ids: Vec<&[u32]> = (0..batch.rows()).map(|row| batch.row(row)).collect();
    let pieces: Vec<Value> = batch.pieces().iter().map(piece).collect();
    let mut shown = json!({ "batch": batch.number(), "ids": ids, "pieces": pieces });
    if with_mask {
        shown["mask"] = json!(mask::rows(batch));
    }
    shown
}

/// The beginning of a text in quotes, with unprintable characters escaped.
fn excerpt(text: &str) -> String {
    let mut shown = String::from("\"");
    let mut length = 0;
    for char in text.chars() {
        let escaped = char.escape_debug();
        length += escaped.clone().count();
        if length > EXCERPT {
            shown.push('…');
            break;
        }
        shown.extend(escaped);
    }
    shown + "\""
}

fn print_batch(batch: &Batch, loader: &Loader) -> Result<()> {
    print_line(&title(batch))?;
    for piece in batch.pieces() {
        let ids = &batch.row(piece.row as usize)[piece.from as usize..piece.to as usize];
        let text = loader.tokenizer().decode(ids);
        print_line(&place(batch, piece))?;
        print_line(&format!("      {}", excerpt(&text)))?;
    }
    Ok(())
}

fn title(batch: &Batch) -> String {
    format!(
        "batch {}: {} of {}, {}",
        batch.number(),
        count(batch.rows() as u64, "row"),
        count(batch.width() as u64, "id"),
        count(batch.tokens() as u64, "target")
    )
}

/// Where a piece stands in its row, where its document comes from, and the columns that came along.
fn place(batch: &Batch, piece: &Piece) -> String {
    let line = batch.line(piece);
    let columns = batch.columns(piece).map(|(name, value)| match value {
        ColumnValue::Text(text) => format!(", {name} = {}", excerpt(text)),
        other => format!(", {name} = {other}"),
    });
    format!(
        "  row {:>3} [{:>5}..{:>5}] {}{} ({} {}){}{}",
        piece.row,
        piece.from,
        piece.to,
        batch.path(piece).display(),
        if line > 0 { format!(":{line}") } else { String::new() },
        batch.unit(piece),
        piece.position.byte,
        if piece.offset > 0 { format!(", from its token {}", piece.offset) } else { String::new() },
        columns.collect::<String>(),
    )
}
