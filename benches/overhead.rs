//! What the loader costs over its bare tokenizer, and over `memcpy` where the tokens are ready.
//!
//!     cargo bench --bench overhead
//!     cargo bench --bench overhead -- --case lines-80,jsonl-80 --lanes 1,4 --pairs 15
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
//! | option | what it says | default |
//! |---|---|---|
//! | `--case A,B` | which cases | all |
//! | `--lanes N,M` | each with so many lanes | 1 |
//! | `--workers N` | workers, and threads of the bare tokenizer | the number of cores |
//! | `--pairs N` | how often each side runs | 9 |
//! | `--mb N` | the size of the text | 200 |
//! | `--only loader` or `bare` | one side alone, for `perf` and `callgrind` | both |
//!
//! The text is the Rust that cargo has unpacked on this machine; where there is too little, this crate's own, with
//! other numbers in it each time. Corpora and the tokenizer, learned from it, stay in the target directory.

#[path = "overhead/corpus.rs"]
mod corpus;
#[path = "overhead/least.rs"]
mod least;
#[path = "overhead/measure.rs"]
mod measure;
#[path = "common/text.rs"]
mod text;

use std::time::Duration;

use corpus::{Case, Corpus};
use least::Least;
use measure::{Bare, Loaded};

/// What the command line asks for.
struct Options {
    cases: Vec<Case>,
    lanes: Vec<usize>,
    workers: usize,
    pairs: usize,
    megabytes: usize,
    loader: bool,
    bare: bool,
}

fn main() {
    let options = options().unwrap_or_else(|problem| {
        eprintln!("error: {problem}; the head of benches/overhead.rs lists the options");
        std::process::exit(2);
    });
    let corpus = Corpus::open(options.megabytes << 20);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    println!(
        "{} MB of text, {} workers on {cores} cores, {} pairs; tokenizer of {} tokens",
        corpus.bytes() / 1_000_000,
        options.workers,
        options.pairs,
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
    for &case in &options.cases {
        // The documents of one case at a time: they are as long as the whole text.
        let bare = Bare::new(&corpus, case, options.workers);
        for &lanes in &options.lanes {
            let config = corpus.config(case, lanes, options.workers);
            let least = Least::new(&corpus, case, options.workers, bare.tokens());
            compare(case, lanes, &options, (&bare, least.as_ref()), &|| {
                measure::load(&config, corpus.tokenizer())
            });
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Loader,
    Bare,
    Least,
}

/// Runs all sides in turn and prints a line.
fn compare(
    case: Case,
    lanes: usize,
    options: &Options,
    (bare, least): (&Bare<'_>, Option<&Least<'_>>),
    load: &dyn Fn() -> Loaded,
) {
    let (mut loaded, mut alone, mut best) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        // Who begins changes, so that neither is always the one that finds the caches warm.
        let mut sides = [Side::Bare, Side::Loader, Side::Least];
        sides.rotate_left(pair % 3);
        for side in sides {
            match side {
                Side::Loader if options.loader => loaded.push(load()),
                Side::Bare if options.bare => alone.push(bare.run()),
                Side::Least if options.bare && options.loader => best.extend(least.map(Least::run)),
                Side::Loader | Side::Bare | Side::Least => {}
            }
        }
    }
    if let (Some(loaded), Some((_, tokens))) = (loaded.first(), alone.first()) {
        assert_eq!(loaded.tokens, *tokens, "{}: both sides make the same tokens", case.name());
    }
    let tokens = loaded.first().map(|it| it.tokens).or(alone.first().map(|it| it.1)).unwrap_or_default();
    let rate = |time: Duration| tokens as f64 / time.as_secs_f64() / 1e6;
    let loader_rates: Vec<f64> = loaded.iter().map(|it| rate(it.time)).collect();
    let bare_rates: Vec<f64> = alone.iter().map(|(time, _)| rate(*time)).collect();
    let ratios: Vec<f64> = loader_rates.iter().zip(&bare_rates).map(|(a, b)| a / b).collect();
    let bests: Vec<f64> =
        best.iter().zip(&bare_rates).map(|(time, bare)| rate(*time) / bare * 100.0).collect();
    let firsts: Vec<f64> = loaded.iter().map(|it| it.first.as_secs_f64() * 1e3).collect();
    let shown = |values: &[f64], digits: usize| {
        median(values).map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let percent: Vec<f64> = ratios.iter().map(|ratio| ratio * 100.0).collect();
    let spread = |values: &[f64]| {
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        if values.is_empty() { "-".to_owned() } else { format!("{least:.1}% to {most:.1}%") }
    };
    println!(
        "{:<9} {lanes:>5} {:>10} {:>16} {:>16} {:>9} {:>17} {:>9} {:>9}",
        case.name(),
        bare.documents(),
        shown(&loader_rates, 1),
        shown(&bare_rates, 1),
        median(&percent).map_or("-".to_owned(), |value| format!("{value:.1}%")),
        spread(&percent),
        median(&bests).map_or("-".to_owned(), |value| format!("{value:.1}%")),
        shown(&firsts, 1),
    );
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn options() -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut options = Options {
        cases: Case::ALL.to_vec(),
        lanes: vec![1],
        workers: cores,
        pairs: 9,
        megabytes: 200,
        loader: true,
        bare: true,
    };
    // Cargo says `--bench` where it measures; where it only tries out, it does not, or we are told `--test`.
    let mut is_trial = true;
    let mut arguments = std::env::args().skip(1);
    let (mut pairs, mut megabytes) = (None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} lacks its value"));
        match argument.as_str() {
            "--bench" => is_trial = false,
            "--test" => {}
            "--case" => {
                options.cases = value()?.split(',').map(Case::parse).collect::<Result<_, _>>()?;
            }
            "--lanes" => options.lanes = value()?.split(',').map(number).collect::<Result<_, _>>()?,
            "--workers" => options.workers = number(&value()?)?,
            "--pairs" => pairs = Some(number(&value()?)?),
            "--mb" => megabytes = Some(number(&value()?)?),
            "--only" => match value()?.as_str() {
                "loader" => options.bare = false,
                "bare" => options.loader = false,
                other => return Err(format!("--only {other:?} is neither loader nor bare")),
            },
            other => return Err(format!("unknown option {other:?}")),
        }
    }
    if is_trial || std::env::args().any(|argument| argument == "--test") {
        (options.pairs, options.megabytes) = (1, 1);
    }
    options.pairs = pairs.unwrap_or(options.pairs);
    options.megabytes = megabytes.unwrap_or(options.megabytes);
    Ok(options)
}

fn number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above zero")),
    }
}
