//! How well batches are mixed, by lanes, window and kind of corpus.
//!
//!     cargo bench -- mixing
//!     cargo bench -- mixing --case jsonl,parquet --lanes 1,4,16,64 --windows 2048
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
//! Where a corpus has fewer splits than there are lanes, the lanes beyond have nothing, and their rows are padding. That
//! makes an epoch long: only `gzip` and `parquet` with 16 lanes have more batches than are read.

mod corpus;
mod measure;

use clap::ValueEnum;
use millstream::Source;
use serde_json::{Value, json};

use crate::common::{positive, runtime};
use corpus::Case;
use measure::{Figures, Index};

/// The batches that are looked at by themselves: what a run begins with.
const FIRST: u64 = 50;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which corpora
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_enum)]
    #[arg(default_values_t = Case::value_variants().to_vec())]
    case: Vec<Case>,
    /// Each with so many lanes
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = positive, default_values_t = [1_usize, 16])]
    lanes: Vec<usize>,
    /// Each with such windows, in documents, or `global` for token shards
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = window)]
    #[arg(default_values = ["64", "2048", "global"])]
    windows: Vec<Option<usize>>,
    /// How many batches are read at most
    #[arg(long, value_name = "N", default_value_t = 6000)]
    batches: u64,
    /// The length of splits where lanes are set, or `auto` [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    split: Option<String>,
    /// The size of a corpus, in MiB [default: 60]
    #[arg(long, value_name = "N", value_parser = positive)]
    mb: Option<usize>,
}

/// A number of documents, or `global`.
fn window(text: &str) -> Result<Option<usize>, &'static str> {
    if text == "global" { Ok(None) } else { positive(text).map(Some) }
}

pub(crate) fn run(options: &Options, is_trial: bool) {
    println!("{:<37}{:<45}{:<45}", "", format!("  the first {FIRST} batches"), "  all batches");
    let five = format!("{:>11} {:>7} {:>7} {:>7} {:>7}", "documents", "files", "shared", "order", "apart");
    println!(
        "{:<11} {:>6} {:>5} {:>6}    {five}   {five} {:>8}",
        "case", "splits", "lanes", "window", "batches"
    );
    for &case in &options.case {
        runtime().block_on(compare(case, options, is_trial));
    }
}

/// Prints the lines of one corpus.
async fn compare(case: Case, options: &Options, is_trial: bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let mb = options.mb.unwrap_or(if is_trial { 1 } else { 60 });
    let source = case.write(mb << 20, directory.path()).await;
    let opened = open(&source).await;
    let index = Index::of(&opened).await;
    print(case, &source, None, (&index, options.batches)).await;
    let mut cut = source;
    // Token shards know their splits.
    let split = options.split.as_deref().unwrap_or(if is_trial { "64KiB" } else { "1MiB" });
    if split != "auto" && !case.is_stored() {
        cut["split"] = json!(split);
    }
    for &lanes in &options.lanes {
        for &window in options.windows.iter().filter(|window| case.is_stored() || window.is_some()) {
            print(case, &cut, Some((lanes, window)), (&index, options.batches)).await;
        }
    }
}

/// Prints a line: with so many lanes and such a window, or with the defaults.
async fn print(
    case: Case,
    source: &Value,
    order: Option<(usize, Option<usize>)>,
    (index, most): (&Index, u64),
) {
    let pipeline = match order {
        Some((lanes, Some(window))) => json!({ "lanes": lanes, "window": window }),
        Some((lanes, None)) => json!({ "lanes": lanes, "shuffle": "global" }),
        None => json!({}),
    };
    let config = corpus::config(source.clone(), pipeline);
    let figures = measure::measure(&config, index, FIRST, most).await;
    let [first, all] = figures.each_ref().map(|figures| five(figures, index.len()));
    let (lanes, window) = match order {
        Some((lanes, window)) => {
            (lanes.to_string(), window.map_or("global".to_owned(), |window| window.to_string()))
        }
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
