//! What resuming costs, early and late in a corpus of 1 GiB, beside reading up to there.
//!
//!     cargo bench --bench resume
//!
//! The swept variable is the place: the start, 1 %, 50 % and 99 % of the batches. One run reads the whole corpus and
//! keeps cursors and times; then a loader is opened at each of those cursors, and the time to its first batch is
//! measured, from opening the files on. The corpus is the Rust that cargo has unpacked, again and again with
//! other numbers in it, as JSONL; it is made once and stays in the target directory.

#[path = "common/mod.rs"]
mod common;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use millstream::config::{Config, SourceConfig, SourceKind};
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::learn::END_OF_TEXT;
use millstream::{Cursor, Loader};

const BYTES: u64 = 1 << 30;
const TEST_BYTES: u64 = 8 << 20;
const FILES: u64 = 8;
/// About the length of a document, in bytes.
const DOCUMENT: usize = 2 << 10;
/// How often a place is resumed at; the median counts.
const REPEATS: usize = 5;

fn main() {
    // A test of the benchmarks runs them without `--bench`, or with `--test`.
    let has = |argument: &str| std::env::args().any(|given| given == argument);
    let bytes = if has("--bench") && !has("--test") { BYTES } else { TEST_BYTES };
    let directory = corpus(bytes);
    let text = common::text(4 << 20);
    let tokenizer: Arc<dyn Tokenizer> = Arc::new(common::tokenizer(&text));
    let config = config(&directory);
    tokio::runtime::Runtime::new().expect("a runtime").block_on(measure(&config, &tokenizer));
}

async fn measure(config: &Config, tokenizer: &Arc<dyn Tokenizer>) {
    let begun = Instant::now();
    let mut loader = open(config, tokenizer, None).await;
    let mut places: Vec<(Cursor, Duration)> = Vec::new();
    let mut tokens = 0;
    while let Some(batch) = loader.next().await {
        let batch = batch.expect("no error");
        tokens += batch.tokens();
        places.push((batch.cursor().clone(), begun.elapsed()));
    }
    let (batches, whole) = (places.len(), begun.elapsed());
    println!("{batches} batches, {tokens} tokens: read through in {:.2} s", whole.as_secs_f64());
    println!(
        "{:>5}  {:>8}  {:>14}  {:>17}  {:>12}",
        "at", "batch", "reading to it", "first after it", "cursor"
    );
    let start = Cursor::clone(open(config, tokenizer, None).await.start());
    let share = |percent: usize| places[(batches * percent / 100).clamp(1, batches - 1) - 1].clone();
    let marks = [(0, (start, Duration::ZERO)), (1, share(1)), (50, share(50)), (99, share(99))];
    for (percent, (cursor, reading)) in marks {
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            let begun = Instant::now();
            let mut loader = open(config, tokenizer, Some(&cursor)).await;
            let batch = loader.next().await.expect("a batch").expect("no error");
            times.push(begun.elapsed());
            assert_eq!(batch.cursor().batch(), cursor.batch() + 1);
        }
        times.sort();
        let bytes = serde_json::to_vec(&cursor).expect("JSON").len();
        println!(
            "{percent:>4}%  {:>8}  {:>12.2} s  {:>14.1} ms  {bytes:>6} bytes",
            cursor.batch(),
            reading.as_secs_f64(),
            times[REPEATS / 2].as_secs_f64() * 1e3
        );
    }
}

async fn open(config: &Config, tokenizer: &Arc<dyn Tokenizer>, cursor: Option<&Cursor>) -> Loader {
    let builder = Loader::builder(config).with_tokenizer(tokenizer.clone());
    let builder = match cursor {
        Some(cursor) => builder.with_cursor(cursor.clone()),
        None => builder,
    };
    builder.open().await.expect("it opens")
}

fn config(directory: &Path) -> Config {
    let source = SourceConfig {
        kind: SourceKind::Jsonl,
        field: Some("text".to_owned()),
        paths: vec![format!("{}/*.jsonl", directory.display())],
        ..SourceConfig::default()
    };
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.eos = Some(END_OF_TEXT.to_owned());
    config.pipeline.lanes = 4.into();
    config.pipeline.epochs = Some(1);
    config
}

/// A directory of JSONL files of so many bytes of text together.
fn corpus(bytes: u64) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("resume-{}", bytes >> 20));
    let done = directory.join("done");
    if done.exists() {
        return directory;
    }
    std::fs::create_dir_all(&directory).expect("a directory");
    let sources = unpacked();
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
    File::create(done).expect("a file");
    directory
}

/// Every Rust file that cargo has unpacked, or this crate's own if there is none.
fn unpacked() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut files = Vec::new();
    for place in [
        home.map(|home| home.join("registry/src")),
        Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src")),
    ] {
        if let (Some(place), true) = (place, files.is_empty()) {
            let rust = glob::glob(&format!("{}/**/*.rs", place.display())).expect("a pattern");
            files.extend(rust.filter_map(Result::ok).filter(|path| path.is_file()));
        }
    }
    files.sort();
    files
}
