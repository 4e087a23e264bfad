//! `millstream tokenizer check`: compares the fast engine's ids with the reference's on a corpus.

use std::num::NonZeroUsize;
use std::time::Instant;

use clap::Args;
use futures::Stream;
use serde::Serialize;

use super::rounds::{on_threads, read};

use super::super::progress::Progress;
use super::super::settings::byte_count;
use super::super::words::count;
use super::super::{ConfigArgs, needs_text, print_json, print_line, progress};
use millstream::config::{ByteCount, Config, TokenizerKind};
use millstream::source::{Lane, Source};
use millstream::tokenizer::hf::{Check, Engine, HfTokenizer};
use millstream::{Document, Error, LaneCursor, Result, Tracked};

pub(super) const HELP: &str = "\
Example: millstream tokenizer check configs/quickstart.toml --bytes 512MiB

Whenever a tokenizer is loaded, its engines are compared on probes and on the first mebibyte of the corpus. This command
compares them on as much text as you like, on all threads. The reference is slow: about 3 MB/s per core. Documents come
in the order of a training stream with one lane, held-out ones included, so another seed compares another sample. If ids
differ, it shows the first such documents and exits with code 1.";

/// How many of the documents that differ are shown.
const SHOWN: usize = 10;

/// How much text is read before it is compared, in bytes for each thread.
const ROUND_BYTES: u64 = 4 << 20;

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How much text to compare. Less if the corpus is smaller.
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = byte_count)]
    bytes: ByteCount,

    /// How many threads encode. Default: one per core.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

/// The result of a comparison.
#[derive(Debug, Default, Serialize)]
struct Counts {
    documents: u64,
    bytes: u64,
    tokens: u64,
    differing: u64,
    /// Documents that the reference fails to encode.
    unknown: u64,
}

#[derive(Serialize)]
struct Report {
    engine: String,
    /// Why the gate refuses it, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(flatten)]
    counts: Counts,
    /// The first documents that differ.
    differences: Vec<String>,
    seconds: f64,
}

pub(super) async fn run(args: CheckArgs, json: bool) -> Result<()> {
    let config = args.config.load()?.data;
    needs_text(&config)?;
    let slow = progress::slow("opening the tokenizer");
    let tokenizer = tokenizer(&config).await?;
    let check = Check::new(&tokenizer)?;
    let refused = match tokenizer.engine() {
        Engine::Reference { reason } => Some(reason),
        _ => None,
    };
    if let Some(reason) = &refused {
        progress::say(&format!("the gate refuses {}: {reason}", check.engine()));
    }
    let source = Source::from_config(&config).await?;
    drop(slow);
    let lane = Lane {
        seed: config.seed,
        shuffle_splits: config.pipeline.shuffle_splits,
        epochs: Some(1),
        ..Lane::default()
    };
    let documents = source.lane(lane, &LaneCursor::default());
    let threads = args.threads.map_or_else(crate::cores, NonZeroUsize::get);
    let begun = Instant::now();
    let (counts, differences) = compare(documents, args.bytes.0, &check, threads).await?;
    if counts.documents == 0 {
        let problem =
            "there is no text to compare: all documents are blank or skipped; look at source.0.paths";
        return Err(Error::Corpus { problem: problem.to_owned() });
    }
    let report = Report {
        engine: check.engine().to_string(),
        refused,
        counts,
        differences,
        seconds: begun.elapsed().as_secs_f64(),
    };
    if json { print_json(&report) } else { print(&report) }?;
    match report.counts.differing {
        0 => Ok(()),
        differing => {
            let documents = count(differing, "document");
            let problem = format!("{} gives other ids than the reference for {documents}", report.engine);
            Err(Error::tokenizer(tokenizer.name(), problem))
        }
    }
}

/// The tokenizer that the config names, or one that is learned from its corpus.
async fn tokenizer(config: &Config) -> Result<HfTokenizer> {
    if config.tokenizer.kind == TokenizerKind::Bytes {
        return Err(Error::config("tokenizer.kind", "bytes have one engine, so there is nothing to check"));
    }
    match config.tokenizer.path {
        Some(_) => HfTokenizer::open(&config.tokenizer),
        None => millstream::loader::learn_tokenizer(config).await,
    }
}

/// Compares the engines on documents of about `bytes` bytes. Gives the first documents that differ, too.
async fn compare<S>(
    mut documents: S,
    bytes: u64,
    check: &Check,
    threads: usize,
) -> Result<(Counts, Vec<String>)>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    let bar = Progress::new(bytes, 0);
    let _slow = bar.is_hidden().then(|| progress::slow("comparing the engines"));
    let (begun, mut counts, mut shown) = (Instant::now(), Counts::default(), Vec::new());
    while let Some(left) = bytes.checked_sub(counts.bytes).filter(|left| *left > 0) {
        let round = read(&mut documents, left.min(ROUND_BYTES * threads as u64)).await?;
        if round.is_empty() {
            break;
        }
        for (more, differences) in on_threads(&round, threads, |chunk| Ok(compare_chunk(check, chunk)))? {
            counts.documents += more.documents;
            counts.bytes += more.bytes;
            counts.tokens += more.tokens;
            counts.differing += more.differing;
            counts.unknown += more.unknown;
            shown.extend(differences);
        }
        shown.truncate(SHOWN);
        let whole = said(&counts, begun.elapsed().as_secs_f64());
        bar.show(counts.bytes, &[whole, format!("{} differ", counts.differing)]);
    }
    bar.clear();
    Ok((counts, shown))
}

fn compare_chunk(check: &Check, chunk: &[Document]) -> (Counts, Vec<String>) {
    let (mut counts, mut shown) = (Counts::default(), Vec::new());
    for document in chunk {
        counts.documents += 1;
        counts.bytes += document.text().len() as u64;
        match check.compare(document.text()) {
            Ok(tokens) => counts.tokens += tokens as u64,
            Err(difference) => {
                let (count, what) = match difference.is_unknown() {
                    true => (&mut counts.unknown, "so the engines cannot be compared here"),
                    false => (&mut counts.differing, "the reference's ids are right"),
                };
                *count += 1;
                if shown.len() < SHOWN {
                    shown.push(document.error(difference.to_string(), what).to_string());
                }
            }
        }
    }
    (counts, shown)
}

fn said(counts: &Counts, seconds: f64) -> String {
    let Counts { documents, bytes, differing, .. } = counts;
    let rate = *bytes as f64 / 1e6 / seconds.max(1e-9);
    format!("{}, {rate:.1} MB/s, {differing} differ", count(*documents, "document"))
}

fn print(report: &Report) -> Result<()> {
    for difference in &report.differences {
        print_line(difference)?;
    }
    let Counts { documents, bytes, tokens, differing, unknown } = &report.counts;
    let unknown = match unknown {
        0 => String::new(),
        some => format!(", {some} cannot be compared"),
    };
    print_line(&format!(
        "{}: {}, {}, {} compared in {:.1} s; {differing} differ{unknown}",
        report.engine,
        count(*documents, "document"),
        count(*bytes, "byte"),
        count(*tokens, "token"),
        report.seconds
    ))
}
