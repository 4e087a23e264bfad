//! How well batches are mixed, by lanes, window and kind of corpus.
//!
//!     cargo bench --bench mixing
//!     cargo bench --bench mixing -- --case jsonl,parquet --lanes 1,4,16,64 --windows 2048
//!
//! The whole loader reads one epoch of each corpus; ids are bytes, batches have 16 rows of 1,024 targets. Most corpora
//! are the same 60 MB of documents of about 2,500 bytes, as files of several kinds; `lines` are lines of about 80 bytes.
//! In the rows `auto`, lanes, window and split are left as they are by default. In the others splits are 1 MiB long
//! where files can be cut: as much smaller than by default as the corpora are smaller than those that people train on.
//!
//! | column | what it says | a full shuffle |
//! |---|---|---|
//! | `documents`, `files` | how many a batch has a part of | |
//! | `shared` | rows that share a document with another row of their batch | near 0% |
//! | `order` | correlation of a document's place in the delivery with its place in the corpus, in file order | near 0 |
//! | `apart` | how far documents that follow each other in a batch lie apart in the corpus, over that of a full shuffle | 1 |
//!
//! A batch is read row by row and from left to right, and each document counts once in a row. In the corpus distances
//! are counted in documents; those of a full shuffle of n are (n + 1) / 3 on average. All five stand there twice: for
//! the first 50 batches, and for all.
//!
//! | option | what it says | default |
//! |---|---|---|
//! | `--case A,B` | which corpora | all |
//! | `--lanes N,M` | each with so many lanes | 1,16 |
//! | `--windows N,M` | each with such windows, in documents, or `all` for token shards | 64,2048,all |
//! | `--batches N` | how many batches are read at most | 6000 |
//! | `--split SIZE` or `auto` | the length of splits where lanes are set | 1MiB |
//! | `--mb N` | the size of a corpus | 60 |
//!
//! Where a corpus has fewer splits than there are lanes, the lanes beyond have nothing, and their rows are padding. That
//! makes an epoch long: only `gzip` and `parquet` with 16 lanes have more batches than are read.

#[path = "mixing/corpus.rs"]
mod corpus;
#[path = "mixing/measure.rs"]
mod measure;
#[path = "mixing/options.rs"]
mod options;

use corpus::Case;
use measure::{Figures, Index};
use millstream::Source;
use millstream::config::ShuffleWindow;
use options::Options;
use serde_json::{Value, json};

/// The batches that are looked at by themselves: what a run begins with.
const FIRST: u64 = 50;

#[tokio::main]
async fn main() {
    let options = Options::parse().unwrap_or_else(|problem| {
        eprintln!("error: {problem}; the head of benches/mixing.rs lists the options");
        std::process::exit(2);
    });
    println!("{:<37}{:<45}{:<45}", "", format!("  the first {FIRST} batches"), "  all batches");
    let five = format!("{:>11} {:>7} {:>7} {:>7} {:>7}", "documents", "files", "shared", "order", "apart");
    println!(
        "{:<11} {:>6} {:>5} {:>6}    {five}   {five} {:>8}",
        "case", "splits", "lanes", "window", "batches"
    );
    for &case in &options.cases {
        compare(case, &options).await;
    }
}

/// Prints the lines of one corpus.
async fn compare(case: Case, options: &Options) {
    let directory = tempfile::tempdir().expect("a directory");
    let source = case.write(options.bytes, directory.path()).await;
    let opened = open(&source).await;
    let index = Index::of(&opened).await;
    print(case, &source, None, (&index, options)).await;
    let mut cut = source;
    // Token shards know their splits.
    if let Some(split) = options.split.as_ref().filter(|_| !case.is_stored()) {
        cut["split"] = json!(split);
    }
    for &lanes in &options.lanes {
        let windows =
            options.windows.iter().filter(|window| case.is_stored() || **window != ShuffleWindow::All);
        for &window in windows {
            print(case, &cut, Some((lanes, window)), (&index, options)).await;
        }
    }
}

/// Prints a line: with so many lanes and such a window, or with the defaults.
async fn print(
    case: Case,
    source: &Value,
    order: Option<(usize, ShuffleWindow)>,
    (index, options): (&Index, &Options),
) {
    let pipeline = match order {
        Some((lanes, window)) => json!({ "lanes": lanes, "window": window }),
        None => json!({}),
    };
    let config = corpus::config(source.clone(), pipeline);
    let figures = measure::measure(&config, index, FIRST, options.batches).await;
    let [first, all] = figures.each_ref().map(|figures| five(figures, index.len()));
    let (lanes, window) = match order {
        Some((lanes, window)) => (lanes.to_string(), window.to_string()),
        None => ("auto".to_owned(), "auto".to_owned()),
    };
    let (splits, batches) = (open(source).await.splits(), figures[1].batches);
    println!("{:<11} {splits:>6} {lanes:>5} {window:>6}    {first}   {all} {batches:>8}", case.name());
}

async fn open(source: &Value) -> Source {
    Source::open(&corpus::config(source.clone(), json!({})).sources).await.expect("it opens")
}

/// The five columns of some batches.
fn five(figures: &Figures, documents: usize) -> String {
    let shown = |value: Option<f64>, digits: usize, unit: &str| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}{unit}"))
    };
    let mixing = &figures.mixing;
    format!(
        "{:>11} {:>7} {:>7} {:>7} {:>7}",
        shown(mixing.documents_per_batch(), 1, ""),
        shown(mixing.files_per_batch(), 1, ""),
        shown(mixing.shared_rows().map(|share| share * 100.0), 1, "%"),
        shown(figures.order(), 2, ""),
        shown(figures.apart(documents), 2, ""),
    )
}
