//! `millstream bench`: how fast the loader is by itself, and how fast its tokenizer would be.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use futures::StreamExt;
use futures::future::{Either, select};
use millstream::meter::Verdict;
use millstream::{Batch, Cursor, Loader, Meters, Result};
use serde::Serialize;

use super::sight::{Sight, SightArgs};
use super::{ConfigArgs, INTERRUPTED, print_json, print_line, stop};

mod bare;
mod report;

pub(super) const HELP: &str = "\
Example: millstream bench configs/quickstart.toml --batches 500
Example: the ratio of the loader to its tokenizer, on the same documents, workers and cores
  millstream bench configs/quickstart.toml --batches 500 --bare

Example: a trace of all stages, to be opened in ui.perfetto.dev
  millstream bench configs/quickstart.toml --trace trace.json

tokens_per_second counts what came after the first batch, in the seconds after it. The tokenizer is
loaded or learned before the clock starts. wait_share is the share of those seconds that the consumer
spent waiting; without --consume-ms it does nothing else.";

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// How many batches to read; fewer if the stream ends before.
    #[arg(long, short = 'n', default_value = "500")]
    batches: NonZeroU64,

    /// Take so long over each batch, in milliseconds, as a trainer would.
    #[arg(long, value_name = "MS", default_value = "0")]
    consume_ms: f64,

    /// Measure the tokenizer alone, on the documents of as many batches.
    #[arg(long, conflicts_with = "consume_ms")]
    bare: bool,

    /// Begin where this cursor says.
    #[arg(long, value_name = "CURSOR_FILE", conflicts_with = "bare")]
    from: Option<PathBuf>,

    #[command(flatten)]
    pub(super) sight: SightArgs,
}

#[derive(Serialize)]
struct Report {
    tokens: u64,
    batches: u64,
    seconds: f64,
    tokens_per_second: f64,
    first_batch_seconds: f64,
    wait_share: f64,
    verdict: Verdict,
    peak_rss_bytes: Option<u64>,
    meters: Meters,
}

pub(super) async fn run(args: BenchArgs, sight: &Sight, json: bool) -> Result<ExitCode> {
    let config = args.config.load()?;
    let tokenizer = millstream::loader::open_tokenizer(&config).await?;
    if args.bare {
        let report = bare::measure(&config, tokenizer, args.batches.get()).await?;
        if json { print_json(&report) } else { print_line(&report.to_string()) }?;
        return Ok(ExitCode::SUCCESS);
    }

    let mut builder = Loader::builder(&config).tokenizer(Arc::clone(&tokenizer));
    if let Some(path) = &args.from {
        builder = builder.cursor(Cursor::load(path)?);
    }

    let opened = Instant::now();
    let mut loader = builder.open().await?;
    sight.watch(&loader.watch());
    let mut stop = pin!(stop::requested());
    let mut is_stopped = false;
    let pause = Duration::try_from_secs_f64(args.consume_ms / 1e3).unwrap_or_default();
    let (mut tokens, mut batches, mut first) = (0, 0, None);
    while batches < args.batches.get() {
        let batch = match select(stop.as_mut(), loader.next()).await {
            Either::Left(_) => {
                is_stopped = true;
                break;
            }
            Either::Right((Some(batch), _)) => batch?,
            Either::Right((None, _)) => break,
        };
        first.get_or_insert_with(|| (Instant::now(), batch.tokens() as u64));
        consume(&batch, pause);
        tokens += batch.tokens() as u64;
        batches += 1;
    }
    let (first, first_tokens) = first.unwrap_or((opened, 0));
    let seconds = first.elapsed().as_secs_f64();
    let meters = loader.meters();
    let report = Report {
        tokens,
        batches,
        seconds,
        tokens_per_second: rate(tokens - first_tokens, seconds),
        first_batch_seconds: (first - opened).as_secs_f64(),
        wait_share: meters.wait_share,
        verdict: meters.verdict(),
        peak_rss_bytes: peak_rss_bytes(),
        meters,
    };
    if json { print_json(&report) } else { report::print(&report, &config) }?;
    Ok(if is_stopped { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Reads every id, as a copy to a device would, and takes its time over it.
fn consume(batch: &Batch, pause: Duration) {
    std::hint::black_box(batch.ids().iter().fold(0_u32, |sum, id| sum.wrapping_add(*id)));
    if !pause.is_zero() {
        std::thread::sleep(pause);
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// The most memory that the process ever had, in bytes, as the system counts it.
fn peak_rss_bytes() -> Option<u64> {
    #[cfg(unix)]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
        getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| usage.max_rss() as u64 * unit)
    }
    #[cfg(not(unix))]
    None
}
