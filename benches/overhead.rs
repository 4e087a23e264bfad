//! What the loader costs over its bare tokenizer, and over `memcpy` where the tokens are ready.
//!
//!     cargo bench -- overhead
//!     cargo bench -- overhead --case lines-80,jsonl-80 --lanes 1,4 --pairs 15
//!
//! Each case is a shape of documents, the same ones for both sides: the loader with every stage on (shuffled by
//! 1,024, rows of 1,024 targets, 16 a batch, as many ahead as it chooses) and a consumer that only touches the ids; beside it
//! the tokenizer alone, over the documents in memory, on as many threads as the loader has workers. The two take
//! turns, since machines drift, and the ratio is taken of each pair: the table has its median, least and most, and
//! the medians of the rates. The loader's time begins before it is opened. `shards` has the tokens of `text-8k` in
//! token shards, and `memcpy` of as many bytes as its ids take, on one thread, in the tokenizer's place.
//!
//! `at best` is the same ratio for straight loops that do the least that any loader does, on as many threads:
//! `overhead/least.rs` says what that is.
//!
//! On a machine with more cores than workers, keep both to the same ones: `taskset -c 0,1 cargo bench …`.
//!
//! The text is the Rust that cargo has unpacked on this machine; where there is too little, this crate's own, with
//! other numbers in it each time. Corpora and the tokenizer, learned from it, stay in the target directory.

mod corpus;
mod least;
mod measure;

use std::time::Duration;

use crate::common::{cores, median, positive};
use corpus::{Case, Corpus};
use least::Least;
use measure::{Bare, Loaded};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which cases [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = Case::parse)]
    case: Vec<Case>,
    /// Each with so many lanes
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = positive, default_values_t = [1_usize])]
    lanes: Vec<usize>,
    /// Workers, and threads of the bare tokenizer
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = cores())]
    workers: usize,
    /// How often each side runs [default: 9]
    #[arg(long, value_name = "N", value_parser = positive)]
    pairs: Option<usize>,
    /// The size of the text, in MiB [default: 200]
    #[arg(long, value_name = "N", value_parser = positive)]
    mb: Option<usize>,
    /// One side alone, for `perf` and `callgrind`
    #[arg(long)]
    only: Option<Side>,
}

/// What runs.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Side {
    Loader,
    Bare,
    #[value(skip)]
    Least,
}

pub(crate) fn run(options: &Options, is_trial: bool) {
    let corpus = Corpus::open(options.mb.unwrap_or(if is_trial { 1 } else { 200 }));
    let pairs = options.pairs.unwrap_or(if is_trial { 1 } else { 9 });
    println!(
        "{} MB of text, {} workers on {} cores, {pairs} pairs; tokenizer of {} tokens",
        corpus.bytes() / 1_000_000,
        options.workers,
        cores(),
        corpus.tokenizer().vocab_size(),
    );
    println!(
        "{:<9} {:>5} {:>10} {:>16} {:>16} {:>9} {:>17} {:>9} {:>9}",
        "case",
        "lanes",
        "documents",
        "loader M tok/s",
        "bare M tok/s",
        "ratio",
        "least to most",
        "at best",
        "first ms"
    );
    let all = Case::ALL;
    let cases: &[Case] = if options.case.is_empty() { &all } else { &options.case };
    for &case in cases {
        // The documents of one case at a time: they are as long as the whole text.
        let bare = Bare::new(&corpus, case, options.workers);
        for &lanes in &options.lanes {
            let config = corpus.config(case, lanes, options.workers);
            let least = Least::new(&corpus, case, options.workers, bare.tokens());
            compare((case, lanes), (pairs, options.only), (&bare, least.as_ref()), &|| {
                measure::load(&config, corpus.tokenizer())
            });
        }
    }
}

/// Runs all sides in turn and prints a line.
fn compare(
    (case, lanes): (Case, usize),
    (pairs, only): (usize, Option<Side>),
    (bare, least): (&Bare<'_>, Option<&Least<'_>>),
    load: &dyn Fn() -> Loaded,
) {
    let (mut loaded, mut alone, mut best) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        // Who begins changes, so that neither is always the one that finds the caches warm.
        let mut sides = [Side::Bare, Side::Loader, Side::Least];
        sides.rotate_left(pair % 3);
        for side in sides.into_iter().filter(|side| only.is_none_or(|only| only == *side)) {
            match side {
                Side::Loader => loaded.push(load()),
                Side::Bare => alone.push(bare.run()),
                Side::Least => best.extend(least.map(Least::run)),
            }
        }
    }
    if let (Some(loaded), Some((_, tokens))) = (loaded.first(), alone.first()) {
        assert_eq!(loaded.tokens, *tokens, "{}: both sides make the same tokens", case.name);
    }
    let tokens = loaded.first().map(|it| it.tokens).or(alone.first().map(|it| it.1)).unwrap_or_default();
    let rate = |time: Duration| tokens as f64 / time.as_secs_f64() / 1e6;
    let loader_rates: Vec<f64> = loaded.iter().map(|it| rate(it.time)).collect();
    let bare_rates: Vec<f64> = alone.iter().map(|(time, _)| rate(*time)).collect();
    let ratios: Vec<f64> = loader_rates.iter().zip(&bare_rates).map(|(a, b)| a / b * 100.0).collect();
    let bests: Vec<f64> =
        best.iter().zip(&bare_rates).map(|(time, bare)| rate(*time) / bare * 100.0).collect();
    let firsts: Vec<f64> = loaded.iter().map(|it| it.first.as_secs_f64() * 1e3).collect();
    let shown = |values: Vec<f64>, unit: &str| {
        if values.is_empty() { "-".to_owned() } else { format!("{:.1}{unit}", median(values)) }
    };
    let spread = |values: &[f64]| {
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        if values.is_empty() { "-".to_owned() } else { format!("{least:.1}% to {most:.1}%") }
    };
    println!(
        "{:<9} {lanes:>5} {:>10} {:>16} {:>16} {:>9} {:>17} {:>9} {:>9}",
        case.name,
        bare.documents(),
        shown(loader_rates, ""),
        shown(bare_rates, ""),
        shown(ratios.clone(), "%"),
        spread(&ratios),
        shown(bests, "%"),
        shown(firsts, ""),
    );
}
