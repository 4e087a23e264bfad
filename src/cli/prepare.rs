//! `millstream prepare`: tokenizes the sources of a config into token shards.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use millstream::Result;
use millstream::prepare::{Prepared, prepare, verify_shards};
use serde::Serialize;

use super::progress::Progress;
use super::words::count;
use super::{ConfigArgs, print_json, print_line, progress};

pub(super) const HELP: &str = "\
Example: millstream prepare configs/quickstart.toml -o shards

Train from them with [[source]] kind = \"shards\", paths = [\"shards\"]. The batches and the cursors are the same as
from the text, byte for byte. You can stop it at any time; run the same command again to continue. With several
sources, each gets a directory of its name.";

#[derive(Debug, Args)]
pub(super) struct PrepareArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// Where to write them.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,

    /// Check all checksums afterwards.
    #[arg(long)]
    verify: bool,
}

#[derive(Serialize)]
struct Done {
    #[serde(flatten)]
    prepared: Prepared,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<bool>,
}

pub(super) async fn run(args: PrepareArgs, json: bool) -> Result<()> {
    let config = args.config.load()?;
    let begun = Instant::now();
    let bar = Progress::new(0, 0);
    let shown = bar.clone();
    let slow = Mutex::new(Some(progress::slow("preparing token shards")));
    let prepared = prepare(&config, &args.output, move |prepared| {
        if !shown.is_hidden() {
            // From now on the bar says it.
            slow.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        shown.set_steps(prepared.of);
        let whole = said(&prepared, begun.elapsed().as_secs_f64());
        shown.show(prepared.splits, &[whole, format!("{} documents", prepared.documents)]);
    })
    .await;
    bar.clear();
    let prepared = prepared?;
    let seconds = begun.elapsed().as_secs_f64();
    if args.verify {
        let several = config.sources.len() > 1;
        for (index, source) in config.sources.iter().enumerate() {
            let name = source.name.clone().unwrap_or_else(|| index.to_string());
            verify_shards(&if several { args.output.join(name) } else { args.output.clone() }).await?;
        }
    }
    if json {
        return print_json(&Done { prepared, seconds, verified: args.verify.then_some(true) });
    }
    let checked = if args.verify { "; every checksum holds" } else { "" };
    print_line(&format!(
        "{}: {}, {} in {seconds:.1} s{checked}",
        args.output.display(),
        count(prepared.splits, "split"),
        said(&prepared, seconds),
    ))
}

fn said(prepared: &Prepared, seconds: f64) -> String {
    let Prepared { documents, skipped, text_bytes, tokens, .. } = prepared;
    let rate = *text_bytes as f64 / 1e6 / seconds.max(1e-9);
    let skipped = if *skipped > 0 { format!(" ({skipped} skipped)") } else { String::new() };
    let (documents, tokens) = (count(*documents, "document"), count(*tokens, "token"));
    format!("{documents}{skipped}, {tokens}, {rate:.0} MB/s")
}
