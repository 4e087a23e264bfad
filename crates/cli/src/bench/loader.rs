//! The loader without training: how fast its batches come, what the consumer waits for, and how well they are mixed.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use futures::StreamExt;
use futures::future::{Either, select};
use serde::Serialize;

use super::consumer::{Consumer, Spend, milliseconds};
use super::{peak_rss_bytes, rate};
use crate::telemetry::{Telemetry, TelemetryArgs};
use crate::words::count;
use crate::{
    ConfigArgs, INTERRUPTED, held_out, nothing_held_out, open_tokenizer, print_json, print_line, progress,
    stop,
};
use millstream::config::PipelineConfig;
use millstream::loader::with_stored_tokenizer;
use millstream::meter::Verdict;
use millstream::{Config, Cursor, Loader, Meters, Result};

mod mixing;

use mixing::{Mixed, MixingSample};

pub(super) const HELP: &str = "\
Example: millstream bench loader configs/quickstart.toml --batches 500
Example: a trace of all stages, for ui.perfetto.dev
  millstream bench loader configs/quickstart.toml --trace trace.json

tokens_per_second leaves out the first batch and the time until it came. The tokenizer is loaded or learned before the
clock starts. wait_share is the share of the time that the consumer waited; without --consume-ms it does nothing but
wait. A line says how well the batches are mixed, and a warning follows if more than 5% of the rows share a document
with another row of their batch.";

#[derive(Debug, Args)]
pub(crate) struct LoaderArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How many batches to read. Fewer if the stream ends earlier.
    #[arg(long, short = 'n', default_value = "500")]
    batches: NonZeroU64,

    /// Spend this many milliseconds on each batch, as a trainer would.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    consume_ms: Duration,

    /// How to spend that time: asleep, as while an accelerator works, or busy on one core.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, requires = "consume_ms")]
    consume_by: Spend,

    /// Start from this cursor.
    #[arg(long, value_name = "CURSOR_FILE")]
    from: Option<PathBuf>,

    /// Read the held-out batches instead. A run validates on the first train.validation_batches of them.
    #[arg(long, conflicts_with = "from")]
    held_out: bool,

    #[command(flatten)]
    pub(super) telemetry: TelemetryArgs,
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
    /// What to do if there was nothing to measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    mixing: Option<Mixed>,
    peak_rss_bytes: Option<u64>,
    meters: Meters,
}

pub(super) async fn run(args: LoaderArgs, telemetry: &Telemetry, json: bool) -> Result<ExitCode> {
    let config = with_stored_tokenizer(&args.config.load()?.data).await?;
    let wanted = args.batches.get();
    // On a thread, so that a busy consumer hears of it too.
    let mut stop = tokio::spawn(stop::requested());
    let (opened, mut loader) = match select(&mut stop, pin!(open(&args, &config))).await {
        Either::Left(_) => {
            progress::say("interrupted before the first batch");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Either::Right((opened, _)) => opened?,
    };
    telemetry.watch(&loader.watch());
    let mut consumer = Consumer::Simulated(args.consume_by, args.consume_ms);
    let (mut tokens, mut batches, mut first, mut mixing) = (0, 0, None, MixingSample::default());
    let slow = progress::slow("measuring");
    while batches < wanted {
        slow.detail(|| format!("batch {batches} of {wanted}"));
        let batch = match select(&mut stop, loader.next()).await {
            Either::Left(_) => break,
            Either::Right((Some(batch), _)) => batch?,
            Either::Right((None, _)) => break,
        };
        first.get_or_insert_with(|| (Instant::now(), batch.tokens() as u64));
        consumer.take(&batch, || stop.is_finished())?;
        mixing.add(&batch);
        tokens += batch.tokens() as u64;
        batches += 1;
    }
    drop(slow);
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
        hint: (args.held_out && batches == 0 && !stop.is_finished()).then(|| nothing_held_out(&config)),
        mixing: mixing.mixed(&config, args.held_out, &meters.setting),
        peak_rss_bytes: peak_rss_bytes(),
        meters,
    };
    if json { print_json(&report) } else { report.print(&config) }?;
    Ok(if stop.is_finished() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// The loader, and when its opening began. The tokenizer is loaded or learned before that.
async fn open(args: &LoaderArgs, config: &Config) -> Result<(Instant, Loader)> {
    let builder = if args.held_out { held_out(config)? } else { Loader::builder(config) };
    let mut builder = builder.with_tokenizer(open_tokenizer(config).await?);
    if let Some(path) = &args.from {
        builder = builder.with_cursor(Cursor::load(path)?);
    }
    let opened = Instant::now();
    let _slow = progress::slow("listing the files");
    Ok((opened, builder.open().await?))
}

impl Report {
    /// Prints it for people.
    fn print(&self, config: &Config) -> Result<()> {
        let Self { tokens, batches, seconds, tokens_per_second, first_batch_seconds, .. } = self;
        print_line(&format!(
            "{}, {}; the first after {:.1} ms, the rest in {seconds:.3} s",
            count(*batches, "batch"),
            count(*tokens, "token"),
            first_batch_seconds * 1e3
        ))?;
        let PipelineConfig { workers, depth, shuffle, window, .. } = &config.pipeline;
        let shuffled = match config.pipeline.shuffles_globally() {
            true => format!("shuffle {shuffle}"),
            false => format!("window {window}"),
        };
        let millions = tokens_per_second / 1e6;
        print_line(&format!("{millions:.2} M tokens/s; workers {workers}, depth {depth}, {shuffled}"))?;
        print_line(&self.verdict.to_string())?;
        if let Some(hint) = &self.hint {
            print_line(hint)?;
        }
        if let Some(mixing) = &self.mixing {
            print_line(&mixing.line())?;
            if let Some(warning) = &mixing.warning {
                print_line(&format!("warning: {warning}"))?;
            }
        }
        if let Some(peak) = self.peak_rss_bytes {
            // Reserved for the most that text can become; some of it is never used.
            let (taken, budget) = (self.meters.peak_bytes_in_flight, self.meters.budget_bytes);
            let reserved = format!("{} of {} MiB of the budget reserved", taken >> 20, budget >> 20);
            print_line(&format!("peak memory: {} MiB of the whole process, {reserved}", peak >> 20))?;
        }
        print_line(&self.meters.table().to_string())
    }
}
