//! What resuming costs, early and late in a corpus of 1 GiB, beside reading up to there.
//!
//!     cargo bench -- resume
//!
//! The swept variable is the place: the start, 1 %, 50 % and 99 % of the batches. One run reads the whole corpus and
//! keeps cursors and times; then a loader is opened at each of those cursors, and the time to its first batch is
//! measured, from opening the files on. The corpus is the Rust that cargo has unpacked, again and again with
//! other numbers in it, as JSONL; it is made once and stays in the target directory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use millstream::Cursor;
use millstream::config::{Config, SourceConfig};
use millstream::tokenizer::Tokenizer;

use crate::common::{self, kept, median, one_epoch, open, runtime};

const BYTES: u64 = 1 << 30;
const TEST_BYTES: u64 = 8 << 20;
const FILES: u64 = 8;
/// About the length of a document, in bytes.
const DOCUMENT: usize = 2 << 10;
/// How often a place is resumed at; the median counts.
const REPEATS: usize = 5;

pub(crate) fn run(is_trial: bool) {
    let bytes = if is_trial { TEST_BYTES } else { BYTES };
    let directory = kept(&format!("resume-{}", bytes >> 20), "", |directory| write(bytes, directory));
    let tokenizer: Arc<dyn Tokenizer> = Arc::new(common::learned(&common::text(4 << 20), 4096));
    let mut config = one_epoch(SourceConfig::jsonl(format!("{}/*.jsonl", directory.display()), "text"));
    config.pipeline.lanes = 4.into();
    runtime().block_on(measure(&config, &tokenizer));
}

async fn measure(config: &Config, tokenizer: &Arc<dyn Tokenizer>) {
    let begun = Instant::now();
    let mut loader = open(config, tokenizer, None).await;
    let mut places: Vec<(Cursor, f64)> = Vec::new();
    let mut tokens = 0;
    while let Some(batch) = loader.next().await {
        let batch = batch.expect("no error");
        tokens += batch.tokens();
        places.push((batch.cursor().clone(), begun.elapsed().as_secs_f64()));
    }
    let (batches, whole) = (places.len(), begun.elapsed().as_secs_f64());
    println!("{batches} batches, {tokens} tokens: read through in {whole:.2} s");
    println!(
        "{:>5}  {:>8}  {:>14}  {:>17}  {:>12}",
        "at", "batch", "reading to it", "first after it", "cursor"
    );
    let start = Cursor::clone(open(config, tokenizer, None).await.start());
    let share = |percent: usize| places[(batches * percent / 100).clamp(1, batches - 1) - 1].clone();
    let marks = [(0, (start, 0.0)), (1, share(1)), (50, share(50)), (99, share(99))];
    for (percent, (cursor, reading)) in marks {
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            let begun = Instant::now();
            let mut loader = open(config, tokenizer, Some(&cursor)).await;
            let batch = loader.next().await.expect("a batch").expect("no error");
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            assert_eq!(batch.cursor().batch(), cursor.batch() + 1);
        }
        let bytes = serde_json::to_vec(&cursor).expect("JSON").len();
        println!(
            "{percent:>4}%  {:>8}  {reading:>12.2} s  {:>14.1} ms  {bytes:>6} bytes",
            cursor.batch(),
            median(times)
        );
    }
}

/// Writes JSONL files of so many bytes of text together.
fn write(bytes: u64, directory: &Path) {
    let sources = common::unpacked();
    let mut rounds = (0_u64..).flat_map(|round| sources.iter().map(move |path| (round, path)));
    for file in 0..FILES {
        let path = directory.join(format!("{file}.jsonl"));
        let mut out = BufWriter::new(File::create(path).expect("a file"));
        let mut written = 0;
        while written < bytes / FILES {
            let (round, path) = rounds.next().expect("without end");
            let Ok(text) = std::fs::read_to_string(path) else { continue };
            let text = if round == 0 { text } else { text.replace("self", &format!("self_{round}")) };
            for document in common::documents(&text, DOCUMENT) {
                let line = serde_json::json!({ "text": document }).to_string();
                writeln!(out, "{line}").expect("it is written");
                written += line.len() as u64 + 1;
            }
        }
        out.flush().expect("it is written");
    }
}
