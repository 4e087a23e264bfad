//! What each format costs: the same documents in all of them.
//!
//!     cargo bench --bench formats
//!
//! The swept variable is the format. For each, a process of its own reads the corpus through the source alone, on as
//! many lanes as there are cores, and then through a whole loader; then it opens the loader at the cursor of the middle
//! batch. Beside it stands the bare tokenizer's rate over the same documents on the same cores, which is the limit. The
//! corpus is made once and stays in the target directory.

#[path = "common/mod.rs"]
mod common;
#[path = "../tests/support/samples.rs"]
mod write;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use futures::StreamExt;
use millstream::config::{Config, SpecialTokens};
use millstream::prepare::prepare;
use millstream::source::{Lane, Source};
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::learn::END_OF_TEXT;
use millstream::{LaneCursor, Loader};
use serde::{Deserialize, Serialize};

const BYTES: usize = 256 << 20;
const TEST_BYTES: usize = 2 << 20;
/// About the length of a document, in bytes.
const DOCUMENT: usize = 2 << 10;
/// How often the middle is resumed at; the median counts.
const REPEATS: usize = 5;

/// What was measured of one format.
#[derive(Serialize, Deserialize)]
struct Measured {
    documents: u64,
    text_bytes: u64,
    read_seconds: f64,
    tokens: u64,
    loader_seconds: f64,
    peak_bytes: u64,
    resume_seconds: f64,
}

fn main() {
    // A test of the benchmarks runs them without `--bench`, or with `--test`.
    let has = |argument: &str| std::env::args().any(|given| given == argument);
    if let Ok(format) = std::env::var("MILLSTREAM_FORMAT") {
        let directory = std::env::var("MILLSTREAM_FORMATS").expect("a directory");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let measured = runtime.block_on(measure(&format, Path::new(&directory)));
        println!("{}", serde_json::to_string(&measured).expect("JSON"));
        return;
    }
    let bytes = if has("--bench") && !has("--test") { BYTES } else { TEST_BYTES };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("formats-{}", bytes >> 20));
    let documents = documents(bytes);
    make(&documents, &directory);

    let tokenizer = tokenizer(&directory);
    println!("{} documents, {} MB of text", documents.len(), bytes_of(&documents) / 1_000_000);
    println!(
        "{:<10} {:>10} {:>12} {:>14} {:>10} {:>10} {:>12}",
        "format", "documents", "read MB/s", "M tokens/s", "of limit", "peak MiB", "resume ms"
    );
    for format in write::FORMATS {
        // Beside each, since machines drift.
        let limit = bare(&documents, &tokenizer);
        let child = Command::new(std::env::current_exe().expect("itself"))
            .env("MILLSTREAM_FORMAT", format)
            .env("MILLSTREAM_FORMATS", &directory)
            .output()
            .expect("it runs");
        assert!(child.status.success(), "{format}: {}", String::from_utf8_lossy(&child.stderr));
        let measured: Measured = serde_json::from_slice(&child.stdout).expect("a measurement");
        assert_eq!(measured.documents, documents.len() as u64, "{format}");
        let rate = measured.tokens as f64 / measured.loader_seconds;
        println!(
            "{format:<10} {:>10} {:>12.0} {:>14.1} {:>9.0}% {:>10} {:>12.1}",
            measured.documents,
            measured.text_bytes as f64 / 1e6 / measured.read_seconds,
            rate / 1e6,
            100.0 * rate / limit,
            measured.peak_bytes >> 20,
            measured.resume_seconds * 1e3,
        );
    }
}

/// Documents of this machine's Rust, without blank lines, so that each is a paragraph.
fn documents(bytes: usize) -> Vec<String> {
    let without_blanks = |document: String| {
        let lines: Vec<&str> = document.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.join("\n")
    };
    common::documents(&common::text(bytes), DOCUMENT).into_iter().map(without_blanks).collect()
}

fn bytes_of(documents: &[String]) -> usize {
    documents.iter().map(String::len).sum()
}

/// Writes the corpus in every format, unless it is there. The text is what this machine has, and may have become more.
fn make(documents: &[String], directory: &Path) {
    let (done, made) = (directory.join("done"), format!("{} {}", documents.len(), bytes_of(documents)));
    if std::fs::read_to_string(&done).is_ok_and(|done| done == made) {
        return;
    }
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory).expect("a directory");
    let sample: String = documents.iter().take(4000).flat_map(|document| [document, "\n"]).collect();
    common::tokenizer(&sample).save(directory.join("tokenizer.json")).expect("written");
    for format in write::FORMATS {
        let place = directory.join(format);
        std::fs::create_dir_all(&place).expect("a directory");
        if format == "shards" {
            let mut lines = config("jsonl", directory);
            lines.tokenizer.path = Some(directory.join("tokenizer.json"));
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(prepare(&lines, &place, |_| {})).expect("prepared");
        } else {
            write::corpus(format, documents, &place);
        }
    }
    std::fs::write(done, made).expect("written");
}

fn tokenizer(directory: &Path) -> Arc<dyn Tokenizer> {
    let path: PathBuf = directory.join("tokenizer.json");
    let mut tokenizer = HfTokenizer::from_file(path, SpecialTokens::Text).expect("it loads");
    tokenizer.trial(["fn main() {}"]);
    Arc::new(tokenizer)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The tokens a second that the tokenizer makes of the documents by itself, on every core.
fn bare(documents: &[String], tokenizer: &Arc<dyn Tokenizer>) -> f64 {
    let chunks: Vec<&[String]> = documents.chunks(64).collect();
    let (next, tokens) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                let mut ids = Vec::new();
                while let Some(chunk) = chunks.get(next.fetch_add(1, Relaxed)) {
                    ids.clear();
                    chunk.iter().for_each(|text| tokenizer.encode(text, &mut ids).expect("it encodes"));
                    tokens.fetch_add(ids.len(), Relaxed);
                }
            });
        }
    });
    tokens.load(Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

fn config(format: &str, directory: &Path) -> Config {
    let source = write::source(format, &directory.join(format));
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.eos = Some(END_OF_TEXT.to_owned());
    config.pipeline.lanes = 4.into();
    config.pipeline.epochs = Some(1);
    config
}

async fn measure(format: &str, directory: &Path) -> Measured {
    let config = config(format, directory);
    let tokenizer = tokenizer(directory);

    let begun = Instant::now();
    let source = Source::open(&config.sources).await.expect("it opens");
    let lanes = (0..config.pipeline.lanes()).map(|lane| {
        let lane = Lane { lane, lanes: config.pipeline.lanes(), ..Lane::default() };
        let mut documents = source.lane(lane, &LaneCursor::default());
        tokio::spawn(async move {
            let (mut count, mut bytes) = (0, 0);
            while let Some(document) = documents.next().await {
                count += 1;
                bytes += document.expect("no error").value.text_bytes() as u64;
            }
            (count, bytes)
        })
    });
    let (mut documents, mut text_bytes) = (0, 0);
    for lane in lanes.collect::<Vec<_>>() {
        let (count, bytes) = lane.await.expect("no panic");
        documents += count;
        text_bytes += bytes;
    }
    let read_seconds = begun.elapsed().as_secs_f64();

    let mut loader = open(&config, &tokenizer, None).await;
    let (mut tokens, mut cursors) = (0, Vec::new());
    let begun = Instant::now();
    while let Some(batch) = loader.next().await {
        let batch = batch.expect("no error");
        tokens += batch.tokens() as u64;
        cursors.push(batch.cursor().clone());
    }
    let loader_seconds = begun.elapsed().as_secs_f64();
    let peak_bytes = peak();

    let middle = &cursors[cursors.len() / 2];
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let begun = Instant::now();
        let mut loader = open(&config, &tokenizer, Some(middle)).await;
        loader.next().await.expect("a batch").expect("no error");
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let resume_seconds = times[REPEATS / 2];
    Measured { documents, text_bytes, read_seconds, tokens, loader_seconds, peak_bytes, resume_seconds }
}

async fn open(
    config: &Config,
    tokenizer: &Arc<dyn Tokenizer>,
    cursor: Option<&millstream::Cursor>,
) -> Loader {
    let builder = Loader::builder(config).with_tokenizer(tokenizer.clone());
    let builder = match cursor {
        Some(cursor) => builder.with_cursor(cursor.clone()),
        None => builder,
    };
    builder.open().await.expect("it opens")
}

/// The most memory that this process ever held, in bytes; 0 where the system does not say.
fn peak() -> u64 {
    millstream::process::peak_resident_bytes().unwrap_or_default()
}
