//! Finished rows beside a plain gather of the same rows.
//!
//!     cargo bench -- rows
//!     cargo bench -- rows --mb 400 --document 300 --seq-len 2048 --pairs 9
//!
//! Each side gives batches of 16 rows in a random order to a consumer that sums all ids. `one thread` is the loader with
//! everything in the consumer's thread, `ahead` as it is used. `gather` copies rows out of a file that is read into memory,
//! widens them, and does nothing else: no masks, no places of documents, no checksums, no cursors. The first epoch of a
//! loader compares checksums; later ones do not. `numpy` gathers the same rows out of a memory map. Rates are in millions of
//! targets a second, medians of all pairs.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::StreamExt;
use millstream::config::{Config, SourceConfig, TokenizerKind};
use millstream::prepare::prepare_rows;
use millstream::{Loader, Result};

use crate::common::{median, positive, random, runtime};

/// How many rows a batch has.
const BATCH: usize = 16;

/// How many epochs a run reads.
const EPOCHS: u64 = 4;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The size of the text, in MiB; a token is a byte [default: 200]
    #[arg(long, value_name = "N", value_parser = positive)]
    mb: Option<usize>,
    /// The length of a document
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 2000)]
    document: usize,
    /// The length of a row
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 1024)]
    seq_len: usize,
    /// Lanes
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 16)]
    lanes: usize,
    /// How often each side runs [default: 5]
    #[arg(long, value_name = "N", value_parser = positive)]
    pairs: Option<usize>,
    /// A Python that has numpy
    #[arg(long, value_name = "PYTHON")]
    numpy: Option<String>,
}

pub(crate) fn run(options: &Options, is_trial: bool) -> Result<()> {
    let mb = options.mb.unwrap_or(if is_trial { 1 } else { 200 });
    let pairs = options.pairs.unwrap_or(if is_trial { 1 } else { 5 });
    let runtime = runtime();
    let directory = tempfile::tempdir().expect("a directory");
    let text = directory.path().join("text");
    std::fs::write(&text, lines(mb << 20, options.document)).expect("written");
    let mut config = Config::default().with_source(SourceConfig::text(text.display().to_string()));
    config.tokenizer.kind = TokenizerKind::Bytes;
    let pipeline = &mut config.pipeline;
    (pipeline.seq_len, pipeline.batch_size, pipeline.lanes) = (options.seq_len, BATCH, options.lanes.into());
    let rows = directory.path().join("rows");
    let began = Instant::now();
    let made = runtime.block_on(prepare_rows(&config, &rows, |_| {}))?;
    println!("{} rows, prepared at {:.0} M tokens/s", made.rows, rate(made.tokens, began.elapsed()));

    config.sources = vec![SourceConfig::rows(rows.display().to_string())];
    config.pipeline.epochs = Some(EPOCHS);
    let ids = stored(&rows, options.seq_len + 1);
    let raw = directory.path().join("ids");
    std::fs::write(&raw, ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>()).expect("written");
    let (mut first, mut later, mut ahead, mut gathered) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut by_numpy = Vec::new();
    for _ in 0..pairs {
        let [one, rest] = runtime.block_on(loaded(&config, true))?;
        first.push(one);
        later.push(rest);
        ahead.push(runtime.block_on(loaded(&config, false))?[1]);
        gathered.push(gather(&ids, options.seq_len + 1));
        by_numpy.extend(options.numpy.iter().map(|python| numpy(python, &raw, options.seq_len + 1)));
    }
    for (name, rates) in [
        ("one thread, first epoch", first),
        ("one thread", later),
        ("ahead", ahead),
        ("gather", gathered),
        ("numpy", by_numpy),
    ] {
        if !rates.is_empty() {
            println!("{name:<24} {:>8.0}", median(rates));
        }
    }
    Ok(())
}

/// Text of about `bytes` bytes in lines of about `document`.
fn lines(bytes: usize, document: usize) -> String {
    let mut text = String::with_capacity(bytes + document);
    let mut random = random();
    while text.len() < bytes {
        let end = text.len() + document / 2 + (random() >> 33) as usize % document;
        while text.len() < end {
            text.push_str(&format!("{:x} ", random() >> 41));
        }
        text.push('\n');
    }
    text
}

/// The rates of the first epoch, and of all later ones.
async fn loaded(config: &Config, on_demand: bool) -> Result<[f64; 2]> {
    let mut loader = Loader::builder(config).with_on_demand(on_demand).open().await?;
    let (mut tokens, mut sum, mut began) = ([0, 0], 0_u64, Instant::now());
    let mut first = Duration::ZERO;
    while let Some(batch) = loader.next().await {
        let batch = batch?;
        let epoch = batch.cursor().at(0, 0).epoch;
        if epoch > 0 && first.is_zero() {
            first = began.elapsed();
            began = Instant::now();
        }
        tokens[usize::from(epoch > 0)] += batch.tokens() as u64;
        sum += batch.ids().iter().map(|&id| u64::from(id)).sum::<u64>();
    }
    black_box(sum);
    Ok([rate(tokens[0], first), rate(tokens[1], began.elapsed())])
}

/// The ids of all rows in the segments of a directory, in memory.
fn stored(rows: &Path, stride: usize) -> Vec<u16> {
    let entries = std::fs::read_dir(rows).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut ids = Vec::new();
    for path in entries.filter(|path| path.extension().is_some_and(|extension| extension == "rows")) {
        let bytes = std::fs::read(path).expect("a segment");
        // The table's only row says how many ids there are, behind the header.
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize;
        let table = number(bytes.len() - 24);
        let count = number(table + 16) / stride * stride;
        ids.extend(bytes[64..64 + 2 * count].as_chunks().0.iter().map(|id| u16::from_le_bytes(*id)));
    }
    ids
}

/// Copies rows in a random order, sixteen at a time.
fn gather(ids: &[u16], stride: usize) -> f64 {
    let rows = ids.len() / stride;
    let (mut random, mut sum) = (random(), 0_u64);
    let began = Instant::now();
    let batches = EPOCHS as usize * rows / BATCH;
    for _ in 0..batches {
        let mut batch: Vec<u32> = Vec::with_capacity(BATCH * stride);
        for _ in 0..BATCH {
            let row = (random() >> 33) as usize % rows;
            batch.extend(ids[row * stride..(row + 1) * stride].iter().map(|&id| u32::from(id)));
        }
        sum += batch.iter().map(|&id| u64::from(id)).sum::<u64>();
    }
    black_box(sum);
    rate((batches * BATCH * (stride - 1)) as u64, began.elapsed())
}

/// What numpy's gather out of a memory map reaches.
fn numpy(python: &str, ids: &Path, stride: usize) -> f64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/rows/gather.py");
    let arguments = [stride.to_string(), EPOCHS.to_string()];
    let output = Command::new(python).arg(script).arg(ids).args(arguments).output().expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a rate")
}

/// Millions a second.
fn rate(tokens: u64, time: Duration) -> f64 {
    tokens as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}
