//! `millstream prepare`: tokenizes the sources of a config into token shards.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use futures::FutureExt;
use millstream::prepare::{Prepared, prepare_until, verify_shards};
use millstream::{Config, Result};
use serde::Serialize;

use super::progress::Progress;
use super::words::count;
use super::{ConfigArgs, INTERRUPTED, hint, print_json, print_line, progress, stop};

pub(super) const HELP: &str = "\
Example: millstream prepare configs/quickstart.toml -o shards

Train from them with [[source]] kind = \"shards\", paths = [\"shards\"]. The batches and the cursors are the same as
from the text, byte for byte. You can stop it at any time; run the same command again to continue. With several
sources, each gets a directory of its name: name the directory around them to read all, or each in a [[source]].";

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

pub(super) async fn run(args: PrepareArgs, json: bool) -> Result<ExitCode> {
    // From here on a request to stop is always heard.
    let stop = "stopping once the splits that are done are written; ask again to stop at once";
    let mut stop = pin!(stop::announced(stop, || ()).fuse());
    let config = args.config.load()?;
    let begun = Instant::now();
    let bar = Progress::new(0, 0);
    let shown = bar.clone();
    let slow = Mutex::new(Some(progress::slow("preparing token shards")));
    let prepared = prepare_until(stop.as_mut(), &config, &args.output, move |prepared| {
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
    let is_verified = match prepared.is_whole() {
        true if args.verify => tokio::select! {
            verified = verify(&config, &args.output) => verified.map(|()| true)?,
            () = stop => false,
        },
        _ => false,
    };
    let done = Done { prepared, seconds, verified: args.verify.then_some(is_verified) };
    if !prepared.is_whole() || is_verified != args.verify {
        let Prepared { splits, of, .. } = prepared;
        let so_far = if of > 0 {
            format!("{splits} of {of} splits are done")
        } else {
            "nothing is done yet".to_owned()
        };
        progress::say(&format!("{}: {so_far}", args.output.display()));
        progress::say(&format!("continue with: {}", hint::same_command()));
        if json {
            print_json(&done)?;
        }
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if json {
        return print_json(&done).map(|()| ExitCode::SUCCESS);
    }
    let checked = if is_verified { "; every checksum holds" } else { "" };
    let done = match prepared {
        Prepared { documents: 0, skipped: 0, .. } => "nothing to do: all of them were there".to_owned(),
        _ => format!("{} in {seconds:.1} s", said(&prepared, seconds)),
    };
    let splits = count(prepared.splits, "split");
    print_line(&format!("{}: {splits}, {done}{checked}", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Checks all checksums in the directory of each source.
async fn verify(config: &Config, output: &Path) -> Result<()> {
    let several = config.sources.len() > 1;
    for (index, source) in config.sources.iter().enumerate() {
        let name = source.name.clone().unwrap_or_else(|| index.to_string());
        verify_shards(&if several { output.join(name) } else { output.to_owned() }).await?;
    }
    Ok(())
}

fn said(prepared: &Prepared, seconds: f64) -> String {
    let Prepared { documents, skipped, text_bytes, tokens, .. } = prepared;
    let rate = *text_bytes as f64 / 1e6 / seconds.max(1e-9);
    let skipped = if *skipped > 0 { format!(" ({skipped} skipped)") } else { String::new() };
    let (documents, tokens) = (count(*documents, "document"), count(*tokens, "token"));
    format!("{documents}{skipped}, {tokens}, {rate:.0} MB/s")
}
