//! What each format costs: the same documents in all of them.
//!
//!     cargo bench -- formats
//!
//! The swept variable is the format. For each, a process of its own reads the corpus through the source alone, on as
//! many lanes as there are cores, and then through a whole loader; then it opens the loader at the cursor of the middle
//! batch. Beside it stands the bare tokenizer's rate over the same documents on the same cores, which is the limit. The
//! corpus is made once and stays in the target directory.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use millstream::LaneCursor;
use millstream::process::peak_resident_bytes;
use millstream::source::{Lane, Source};
use millstream::tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};

use crate::common::{self, cores, formats, median, open, runtime};

const BYTES: usize = 256 << 20;
const TEST_BYTES: usize = 2 << 20;
/// How often the middle is resumed at; the median counts.
const REPEATS: usize = 5;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A format and a directory: the process that measures it
    #[arg(long, hide = true, num_args = 2)]
    child: Option<Vec<String>>,
}

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

pub(crate) fn run(options: &Options, is_trial: bool) {
    if let Some([format, directory]) = options.child.as_deref() {
        let measured = runtime().block_on(measure(format, Path::new(directory)));
        println!("{}", serde_json::to_string(&measured).expect("JSON"));
        return;
    }
    let (documents, directory) = formats::make(if is_trial { TEST_BYTES } else { BYTES });
    let tokenizer = tokenizer(&directory);
    let bytes: usize = documents.iter().map(String::len).sum();
    println!("{} documents, {} MB of text", documents.len(), bytes / 1_000_000);
    println!(
        "{:<10} {:>10} {:>12} {:>14} {:>10} {:>10} {:>12}",
        "format", "documents", "read MB/s", "M tokens/s", "of limit", "peak MiB", "resume ms"
    );
    for format in formats::FORMATS {
        // Beside each, since machines drift.
        let begun = Instant::now();
        let ids = common::encode(&documents, &*tokenizer, cores());
        let limit = ids as f64 / begun.elapsed().as_secs_f64();
        let child = Command::new(std::env::current_exe().expect("itself"))
            .args(["formats", "--child", format])
            .arg(&directory)
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

fn tokenizer(directory: &Path) -> Arc<dyn Tokenizer> {
    let json = std::fs::read_to_string(formats::tokenizer(directory)).expect("a tokenizer.json");
    Arc::new(common::loaded(&json, "fn main() {}"))
}

async fn measure(format: &str, directory: &Path) -> Measured {
    let mut config = formats::config(format, directory);
    config.pipeline.lanes = 4.into();
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
    let peak_bytes = peak_resident_bytes().unwrap_or_default();

    let middle = &cursors[cursors.len() / 2];
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let begun = Instant::now();
        let mut loader = open(&config, &tokenizer, Some(middle)).await;
        loader.next().await.expect("a batch").expect("no error");
        times.push(begun.elapsed().as_secs_f64());
    }
    let resume_seconds = median(times);
    Measured { documents, text_bytes, read_seconds, tokens, loader_seconds, peak_bytes, resume_seconds }
}
