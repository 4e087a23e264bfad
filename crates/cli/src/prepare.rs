//! `millstream prepare`: tokenizes the sources of a config into token shards.

use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use futures::FutureExt;
use serde_json::json;

use super::progress::Progress;
use super::stop::Words;
use super::words::count;
use super::{ConfigArgs, INTERRUPTED, hint, print_json, print_line, progress, stop};
use millstream::Result;
use millstream::config::Config;
use millstream::prepare::{self, PrepareStatus, Prepared, prepare_until, verify_shards};
use millstream::world::World;

pub(super) const HELP: &str = "\
Example: millstream prepare configs/quickstart.toml -o shards
Example: the third of a hundred processes that share nothing but the output
  millstream prepare configs/quickstart.toml -o /mnt/shards --part 3/100

Train from them with [[source]] kind = \"shards\", paths = [\"shards\"]. The batches and the cursors are the same as
from the text, byte for byte. You can stop it at any time; run the same command again to continue. With several
sources, each gets a directory of its name: name the parent directory to read all, or each in a [[source]].

Slurm job arrays, srun, torchrun, mpirun and Kubernetes indexed jobs say which part it is, without --part. All parts
together make what one process makes, byte for byte. Any of them can continue on another machine.";

#[derive(Debug, Args)]
pub(super) struct PrepareArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// Where to write them: a directory, or a prefix in a store, such as s3://bucket/tokens.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,

    /// Make only this part of the shards, counted from 1. The default is what the launcher says, or everything.
    #[arg(long, value_name = "PART/PARTS", value_parser = part)]
    part: Option<World>,

    /// Say which parts are done, and do nothing. The exit code is 1 while something is missing. It reads the output alone,
    /// so it does not notice text that has changed since.
    #[arg(long, conflicts_with = "verify")]
    status: bool,

    /// Check all checksums afterwards, if everything is there. If not, it says so, and checks nothing.
    #[arg(long)]
    verify: bool,
}

/// More parts than any corpus has segments.
const MOST_PARTS: usize = 1_000_000;

/// Parses a part, such as `3/100`.
fn part(text: &str) -> Result<World, String> {
    let refused = || format!("{text:?} is not a part: write the third of a hundred as 3/100");
    let (part, size) = text.split_once('/').ok_or_else(refused)?;
    let [part, size] = [part, size].map(|number| number.trim().parse::<usize>().map_err(|_| refused()));
    match (part?, size?) {
        (_, 0) => Err(format!("{text} is not a part: there must be at least one part, as in 1/1")),
        (_, size) if size > MOST_PARTS => Err(format!("{size} parts are too many: at most {MOST_PARTS}")),
        (part, size) if (1..=size).contains(&part) => Ok(World { rank: part - 1, size }),
        (part, size) => Err(format!("there is no part {part} of {size}: parts count from 1 to {size}")),
    }
}

/// What was made in so many seconds, in words.
fn made(prepared: &Prepared, seconds: f64) -> String {
    let Prepared { documents, skipped, text_bytes, tokens, .. } = prepared;
    let rate = *text_bytes as f64 / 1e6 / seconds.max(1e-9);
    let skipped = if *skipped > 0 { format!(" ({skipped} skipped)") } else { String::new() };
    let (documents, tokens) = (count(*documents, "document"), count(*tokens, "token"));
    format!("{documents}{skipped}, {tokens}, {rate:.0} MB/s")
}

pub(super) async fn run(args: PrepareArgs, json: bool) -> Result<ExitCode> {
    // Requests to stop are caught from here on.
    let words = Words {
        first: "stopping; ask again to stop at once",
        second: "stopped at once, as was asked: the same command goes on with the last file that is whole",
        json,
    };
    let mut stop = pin!(stop::announced(Some(words), || ()).fuse());
    let config = args.config.load()?.data;
    if args.status {
        return said_status(
            &prepare::status(&config, &args.output, args.part.map(|part| part.size)).await?,
            json,
        );
    }
    let world = args.part.map_or_else(World::of_preparing, Ok)?;
    let begun = Instant::now();
    let bar = Progress::new(0, 0);
    let prepared = prepare_until(stop.as_mut(), &config, &args.output, world, shown(&bar, begun)).await;
    bar.clear();
    finished(&args, &config, (prepared?, begun, world), stop, json).await
}

fn shown(bar: &Progress, begun: Instant) -> impl Fn(Prepared) + Send + Sync + 'static {
    let shown = bar.clone();
    let slow = Mutex::new(Some(progress::slow("preparing token shards")));
    move |prepared: Prepared| {
        if !shown.is_hidden() {
            // The bar shows it from here on.
            slow.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        shown.set_steps(prepared.of);
        let short = format!("{} documents", prepared.documents);
        shown.show(prepared.splits, &[made(&prepared, begun.elapsed().as_secs_f64()), short]);
    }
}

/// Checks what was made, if that is wanted, and says it.
async fn finished(
    args: &PrepareArgs,
    config: &Config,
    (prepared, begun, world): (Prepared, Instant, World),
    stop: impl Future<Output = ()>,
    json: bool,
) -> Result<ExitCode> {
    let seconds = begun.elapsed().as_secs_f64();
    let is_whole = prepared.is_whole();
    let is_verified = match is_whole {
        true if args.verify => tokio::select! {
            verified = verify_shards(config, &args.output) => verified.map(|_| true)?,
            () = stop => false,
        },
        _ => false,
    };
    let (output, Prepared { splits, of, left_to_others, .. }) = (args.output.display(), prepared);
    let mut done = json!(prepared);
    done["seconds"] = json!(seconds);
    if args.verify {
        done["verified"] = json!(is_verified);
    }
    if prepared.is_stopped || is_whole && is_verified != args.verify {
        let so_far = match of {
            0 => "nothing is done yet".to_owned(),
            _ => format!("{splits} of {of} splits are done"),
        };
        progress::say(&format!("{output}: {so_far}"));
        progress::say(&format!("continue with: {}", hint::same_command()));
        if json {
            // All is saved, and whoever asked may have stopped reading.
            drop(print_json(&done));
        }
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if json {
        return print_json(&done).map(|()| ExitCode::SUCCESS);
    }
    let checked = match (is_verified, args.verify) {
        (true, _) => "; every checksum holds",
        (false, true) => "; no checksum was compared: --verify waits until everything is there",
        (false, false) => "",
    };
    let made = match prepared.documents + prepared.skipped {
        // Splits come in segments, of which there may be fewer than parts.
        0 if of == 0 && world.size > 1 => "nothing to do: this part has no segments".to_owned(),
        0 => "nothing to do: all of them were there".to_owned(),
        _ => format!("{} in {seconds:.1} s", made(&prepared, seconds)),
    };
    let part = match world {
        World::ALONE => String::new(),
        World { rank, size } => format!("part {} of {size}, ", rank + 1),
    };
    let left = match left_to_others {
        0 => String::new(),
        left => format!("; {} of other parts are not there yet", count(left, "split")),
    };
    print_line(&format!("{output}: {part}{}, {made}{left}{checked}", count(splits, "split")))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the progress of each source's shards. The exit code is 0 if nothing is missing.
fn said_status(all: &[PrepareStatus], json: bool) -> Result<ExitCode> {
    for status in all {
        match json {
            true => print_json(status)?,
            false => print_line(&format!("{}: {status}", status.directory.display()))?,
        }
    }
    Ok(if all.iter().all(PrepareStatus::is_whole) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
