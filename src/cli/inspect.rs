//! `millstream inspect`: what the trainer will see, and where it came from.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use futures::StreamExt;
use millstream::{Batch, Cursor, Loader, Piece, Result};
use serde::Serialize;

use super::{ConfigArgs, print_json, print_line};

pub(super) const HELP: &str = "\
Example: millstream inspect configs/quickstart.toml --batches 2

A piece is a run of one document in a row: from and to are places in the row, path and line
where the document begins.";

/// How much of a piece is shown on a terminal, in characters.
const EXCERPT: usize = 96;

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// How many batches to show.
    #[arg(long, short = 'n', default_value = "1")]
    batches: NonZeroU64,

    /// Begin where this cursor says.
    #[arg(long, value_name = "CURSOR_FILE")]
    from: Option<PathBuf>,
}

#[derive(Serialize)]
struct Shown<'a> {
    batch: u64,
    ids: Vec<&'a [u32]>,
    pieces: Vec<ShownPiece>,
}

#[derive(Serialize)]
struct ShownPiece {
    row: u32,
    from: u32,
    to: u32,
    path: String,
    line: u64,
    byte: u64,
}

pub(super) async fn run(args: InspectArgs, json: bool) -> Result<()> {
    let mut builder = Loader::builder(&args.config.load()?);
    if let Some(path) = &args.from {
        builder = builder.cursor(Cursor::load(path)?);
    }
    let mut loader = builder.open().await?;
    let first = loader.start().batch();
    for number in first..first + args.batches.get() {
        let Some(batch) = loader.next().await else { break };
        let batch = batch?;
        if json {
            print_json(&shown(number, &batch))?;
        } else {
            print_batch(number, &batch, &loader)?;
        }
    }
    Ok(())
}

fn shown(number: u64, batch: &Batch) -> Shown<'_> {
    let piece = |piece: &Piece| ShownPiece {
        row: piece.row,
        from: piece.from,
        to: piece.to,
        path: batch.path(piece).display().to_string(),
        line: batch.line(piece),
        byte: piece.position.byte,
    };
    Shown {
        batch: number,
        ids: (0..batch.rows()).map(|row| batch.row(row)).collect(),
        pieces: batch.pieces().iter().map(piece).collect(),
    }
}

fn print_batch(number: u64, batch: &Batch, loader: &Loader) -> Result<()> {
    print_line(&format!(
        "batch {number}: {} rows of {} ids, {} targets",
        batch.rows(),
        batch.width(),
        batch.tokens()
    ))?;
    for piece in batch.pieces() {
        let ids = &batch.row(piece.row as usize)[piece.from as usize..piece.to as usize];
        let text = loader.tokenizer().decode(ids);
        let mut excerpt: String = text.chars().take(EXCERPT).collect();
        if excerpt.len() < text.len() {
            excerpt.push('…');
        }
        print_line(&format!(
            "  row {:>3} [{:>5}..{:>5}] {}:{}{}",
            piece.row,
            piece.from,
            piece.to,
            batch.path(piece).display(),
            batch.line(piece),
            if piece.offset > 0 { format!(" (from its token {})", piece.offset) } else { String::new() },
        ))?;
        print_line(&format!("      {excerpt:?}"))?;
    }
    Ok(())
}
