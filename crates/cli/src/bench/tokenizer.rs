//! The tokenizer alone: the rate that the loader would have if everything else were free.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::rate;
use crate::tokenizer::rounds::{on_threads, read};
use crate::{ConfigArgs, needs_text, open_tokenizer, print_json, print_line, progress};
use millstream::config::Config;
use millstream::source::{Holdout, Lane, Source};
use millstream::tokenizer::Tokenizer;
use millstream::{Document, LaneCursor, Result, threads};

/// How much text is read before it is encoded, in bytes, so that reading is not measured.
const ROUND_BYTES: u64 = 64 << 20;

pub(super) const HELP: &str = "\
Example: beside the loader, on the same documents
  millstream bench tokenizer configs/quickstart.toml
  millstream bench loader configs/quickstart.toml

Documents are read before the clock starts, so the rate is what the loader would reach if all else were free.";

#[derive(Debug, Args)]
pub(crate) struct TokenizerArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How many batches' documents to encode. Fewer if the sources end earlier.
    #[arg(long, short = 'n', default_value = "500")]
    batches: NonZeroU64,
}

#[derive(Serialize)]
struct Report {
    tokens: u64,
    documents: u64,
    bytes: u64,
    workers: usize,
    seconds: f64,
    tokens_per_second: f64,
    bytes_per_second: f64,
}

pub(super) async fn run(args: TokenizerArgs, json: bool) -> Result<()> {
    let config = args.config.load()?.data;
    needs_text(&config)?;
    let tokenizer = open_tokenizer(&config).await?;
    let slow = progress::slow("measuring the tokenizer");
    let report = measure(&config, &*tokenizer, args.batches.get()).await?;
    drop(slow);
    if json {
        return print_json(&report);
    }
    let Report { tokens, documents, workers, seconds, tokens_per_second, bytes_per_second, .. } = report;
    let (tokens_rate, bytes_rate) = (tokens_per_second / 1e6, bytes_per_second / 1e6);
    print_line(&format!(
        "the tokenizer alone: {tokens_rate:.2} M tokens/s, {bytes_rate:.1} MB/s; workers {workers} ({documents} \
         documents, {tokens} tokens, {seconds:.3} s)"
    ))
}

/// Encodes the documents of `batches` batches in rounds. Each round is read first and then encoded.
async fn measure(config: &Config, tokenizer: &dyn Tokenizer, batches: u64) -> Result<Report> {
    let pipeline = &config.pipeline;
    let wanted = batches.saturating_mul(pipeline.batch_size.saturating_mul(pipeline.seq_len) as u64);
    let source = Source::from_config(config).await?;
    let lane = Lane {
        seed: config.seed,
        shuffle_splits: pipeline.shuffle_splits,
        holdout: Holdout { fraction: pipeline.holdout, ..Holdout::default() },
        epochs: pipeline.epochs,
        ..Lane::default()
    };
    let mut documents = source.lane(lane, &LaneCursor::default());
    let workers = pipeline.most_workers();
    threads::check(workers)?;
    let (mut tokens, mut count, mut bytes, mut time) = (0, 0, 0, Duration::ZERO);
    while tokens < wanted {
        // Less if that has the tokens that are left to encode.
        let round = read(&mut documents, ROUND_BYTES.min((wanted - tokens).saturating_mul(4))).await?;
        if round.is_empty() {
            break;
        }
        count += round.len() as u64;
        bytes += round.iter().map(|document| document.text().len() as u64).sum::<u64>();
        let (encoded, elapsed) = encode(&round, tokenizer, workers)?;
        tokens += encoded;
        time += elapsed;
    }
    let seconds = time.as_secs_f64();
    Ok(Report {
        tokens,
        documents: count,
        bytes,
        workers,
        seconds,
        tokens_per_second: rate(tokens, seconds),
        bytes_per_second: rate(bytes, seconds),
    })
}

/// Encodes all documents on `workers` threads. Gives the number of tokens and the time.
fn encode(documents: &[Document], tokenizer: &dyn Tokenizer, workers: usize) -> Result<(u64, Duration)> {
    let started = Instant::now();
    let tokens = on_threads(documents, workers, |chunk| {
        let (mut ids, mut tokens) = (Vec::new(), 0);
        for document in chunk {
            ids.clear();
            tokenizer.encode(document.text(), &mut ids).map_err(|problem| {
                document.error(problem, "change the tokenizer, or take the document out")
            })?;
            tokens += ids.len() as u64;
        }
        Ok(tokens)
    })?;
    Ok((tokens.into_iter().sum(), started.elapsed()))
}
