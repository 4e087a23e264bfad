//! `millstream bench`: measures the loader without training, or its tokenizer or the training device alone.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use futures::StreamExt;
use futures::future::{Either, select};
use serde::Serialize;

use super::sight::{Sight, SightArgs};
use super::{ConfigArgs, INTERRUPTED, needs_text, nothing_held_out, print_json, print_line, progress, stop};
use crate::loader::with_rows;
use crate::meter::Verdict;
use crate::{Config, Cursor, Error, Loader, Meters, Result};

mod bare;
pub(super) mod compare;
mod consumer;
mod mixing;
#[cfg(feature = "burn")]
mod peak;
mod process;
mod report;

use compare::SimulatedConsumer;
use consumer::{Consumer, Spend};
use mixing::{Mixed, Watched};
pub(super) use process::peak_rss_bytes;

const HELP: &str = "\
Example: millstream bench configs/quickstart.toml --batches 500
Example: the tokenizer alone, on the same documents, workers and cores, to compare with the loader
  millstream bench configs/quickstart.toml --batches 500 --bare
Example: what overlap is worth at three batch sizes for a trainer that takes 20 ms per batch
  millstream bench configs/quickstart.toml --compare --consume-ms 20 --batch-sizes 4,16,64
Example: a trace of all stages, for ui.perfetto.dev
  millstream bench configs/quickstart.toml --trace trace.json

tokens_per_second leaves out the first batch and the time until it came. The tokenizer is loaded or learned before the
clock starts. wait_share is the share of the time that the consumer waited; without --consume-ms it does nothing but
wait. A line says how well the batches are mixed, and a warning follows if more than 5% of the rows share a document
with another row of their batch.

--compare makes the same batches in three ways: when the consumer asks for them, ahead with one worker, and ahead with
all workers. Each way runs in a separate process, one after the other, and all must deliver the same ids. Token caches
are off, and the rates and shares leave out the first tenth of the batches. It prints a table, and writes the table, a
plot and the figures to --output.";

/// What it can do with a trainer.
const HELP_WITH_TRAINER: &str = "\
Example: what overlap is worth for real training
  millstream bench configs/quickstart.toml --compare --train --batches 60
Example: how fast the device of train.device is at most, for train.peak_tflops
  millstream bench configs/quickstart.toml --peak
";

pub(super) fn help() -> String {
    let trainer = if cfg!(feature = "burn") { HELP_WITH_TRAINER } else { "" };
    format!("{trainer}{HELP}")
}

/// The default number of batches.
const BATCHES: u64 = 500;

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How many batches to read. Default: 500, or 200 each time with --compare. Fewer if the stream ends earlier.
    #[arg(long, short = 'n')]
    batches: Option<NonZeroU64>,

    /// Spend this many milliseconds on each batch, as a trainer would. Default: 0, or 20 with --compare.
    #[arg(long, value_name = "MS", value_parser = consumer::milliseconds)]
    consume_ms: Option<Duration>,

    /// How to spend that time: asleep, as while an accelerator works, or busy on one core.
    #[arg(long, value_enum, default_value_t)]
    consume_by: Spend,

    /// Measure the tokenizer alone, on the documents of that many batches.
    #[arg(long, conflicts_with_all = ["consume_ms", "trace", "metrics_addr"])]
    bare: bool,

    /// Measure the fastest product of matrices on train.device in train.precision. No text is read.
    #[cfg(feature = "burn")]
    #[arg(long, conflicts_with_all = [
        "batches", "consume_ms", "consume_by", "bare", "from", "held_out", "compare", "train", "batch_sizes", "seq_lens",
        "in_flight", "load_all", "rounds", "output", "trace", "metrics_addr",
    ])]
    peak: bool,

    /// Start from this cursor.
    #[arg(long, value_name = "CURSOR_FILE", conflicts_with_all = ["bare", "compare"])]
    from: Option<PathBuf>,

    /// Read the held-out batches instead. A run validates on the first train.validation_batches of them.
    #[arg(long, conflicts_with_all = ["from", "bare", "compare"])]
    held_out: bool,

    #[command(flatten)]
    compare: compare::CompareArgs,

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
    /// What to do if there was nothing to measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    mixing: Option<Mixed>,
    peak_rss_bytes: Option<u64>,
    meters: Meters,
}

pub(super) async fn run(args: BenchArgs, sight: &Sight, json: bool) -> Result<ExitCode> {
    let config = args.config.load()?;
    #[cfg(feature = "burn")]
    if args.peak {
        peak::run(&config, json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.consume_by == Spend::Busy && args.consume_ms.is_none() && !args.compare.compare {
        let problem = "it needs a time to spend; give --consume-ms too";
        return Err(Error::config("--consume-by", problem));
    }
    if args.bare {
        needs_text(&config)?;
    }
    let config = with_rows(&config).await?;
    if args.compare.compare {
        let consumer = SimulatedConsumer { spend: args.consume_by, time: args.consume_ms };
        return compare::run(args.compare, &args.config.config, config, consumer, args.batches, json).await;
    }
    measure(args, config, sight, json).await
}

async fn measure(args: BenchArgs, config: Config, sight: &Sight, json: bool) -> Result<ExitCode> {
    let wanted = args.batches.map_or(BATCHES, NonZeroU64::get);
    if args.bare {
        let tokenizer = super::open_tokenizer(&config).await?;
        let slow = progress::slow("measuring the tokenizer");
        let report = bare::measure(&config, tokenizer, wanted).await?;
        drop(slow);
        if json { print_json(&report) } else { print_line(&report.to_string()) }?;
        return Ok(ExitCode::SUCCESS);
    }

    // Heard also while the consumer is busy with a batch.
    let mut stop = tokio::spawn(stop::requested());
    let (opened, mut loader) = match select(&mut stop, pin!(open(&args, &config))).await {
        Either::Left(_) => return Ok(ExitCode::from(INTERRUPTED)),
        Either::Right((opened, _)) => opened?,
    };
    sight.watch(&loader.watch());
    let mut consumer = Consumer::Simulated(args.consume_by, args.consume_ms.unwrap_or_default());
    let (mut tokens, mut batches, mut first, mut watched) = (0, 0, None, Watched::default());
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
        watched.add(&batch);
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
        mixing: watched.mixed(&config, args.held_out, &meters.setting),
        peak_rss_bytes: peak_rss_bytes(),
        meters,
    };
    if json { print_json(&report) } else { report::print(&report, &config) }?;
    Ok(if stop.is_finished() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// The loader, and when its opening began. The tokenizer is loaded or learned before that.
async fn open(args: &BenchArgs, config: &Config) -> Result<(Instant, Loader)> {
    let builder = if args.held_out { super::held_out(config)? } else { Loader::builder(config) };
    let mut builder = builder.with_tokenizer(super::open_tokenizer(config).await?);
    if let Some(path) = &args.from {
        builder = builder.with_cursor(Cursor::load(path)?);
    }
    let opened = Instant::now();
    let _slow = progress::slow("listing the files");
    Ok((opened, builder.open().await?))
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
