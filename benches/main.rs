//! The benches of the loader, in one program.
//!
//!     cargo bench                               # their names
//!     cargo bench -- overhead --help            # the options of one
//!     cargo bench -- overhead --lanes 1,4       # measures
//!     cargo bench -- --test                     # each once, on little data
//!
//! Each is a module; its head says what it measures, and how. `cargo bench --no-default-features` leaves the trainer
//! out, which takes most of the build. `benches/instructions` is a program of its own, because it counts allocations:
//! `cargo bench --bench instructions`.

mod chats;
mod common;
#[cfg(feature = "train")]
mod embedding;
mod formats;
mod journey;
#[cfg(target_os = "linux")]
mod memory;
mod mixing;
mod overhead;
mod packing;
mod resume;
mod stages;
mod store;
mod tokenizers;
mod tune;

#[expect(dead_code, reason = "the test knows which engine runs each")]
#[path = "../tests/support/families.rs"]
mod families;
#[path = "../tests/support/samples.rs"]
mod samples;
#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/support/server.rs"]
mod server;

use std::error::Error;

use clap::{CommandFactory, Parser, Subcommand};
use criterion::Criterion;

/// Criterion reads the command line by itself: the name is its filter, which can go on (`stages/shuffle`), and all
/// options are its own.
const BY_CRITERION: [&str; 2] = ["journey", "stages"];

/// Measures the loader.
#[derive(Parser)]
#[command(bin_name = "cargo bench --", no_binary_name = true, disable_help_subcommand = true)]
#[command(after_help = "Instructions are counted by another program: cargo bench --bench instructions")]
struct Arguments {
    /// Runs once on little data, and does not measure; all benches if none is named
    #[arg(long, global = true)]
    test: bool,

    #[command(subcommand)]
    bench: Option<Bench>,
}

#[derive(Subcommand)]
enum Bench {
    /// Conversations through a chat template, beside the same texts without one
    Chats(chats::Options),
    /// Three ways to look up vectors, with their gradients
    #[cfg(feature = "train")]
    Embedding {
        /// `train.device`
        #[arg(default_value = "flex")]
        device: String,
    },
    /// Each format: reading, the whole loader, resuming
    Formats(formats::Options),
    /// From files to batches, beside the tokenizer, by lanes
    Journey,
    /// Whether memory, threads and open files stay flat while a loader runs for long
    #[cfg(target_os = "linux")]
    Memory(memory::Options),
    /// How well batches are mixed, by lanes, window and kind of corpus
    Mixing(mixing::Options),
    /// The whole loader over its tokenizer, by shape of documents
    Overhead(overhead::Options),
    /// What each rule of packing pads, cuts and throws away
    Packing,
    /// The time to the first batch at a cursor, early and late in a corpus
    Resume,
    /// Each stage alone; `stages/shuffle` is one of them
    Stages,
    /// Reading from a server, by latency
    Store(store::Options),
    /// The tokenizers' engines alone, by size of documents
    Tokenizers(tokenizers::Options),
    /// The workers and the depth that the loader finds, beside every fixed setting
    Tune,
}

impl Bench {
    fn run(self, is_trial: bool) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Chats(options) => chats::run(&options, is_trial),
            #[cfg(feature = "train")]
            Self::Embedding { device } => embedding::run(&device, is_trial),
            Self::Formats(options) => formats::run(&options, is_trial),
            Self::Journey => by_criterion(journey::run),
            #[cfg(target_os = "linux")]
            Self::Memory(options) => memory::run(&options, is_trial)?,
            Self::Mixing(options) => mixing::run(&options, is_trial),
            Self::Overhead(options) => overhead::run(&options, is_trial),
            Self::Packing => packing::run(is_trial)?,
            Self::Resume => resume::run(is_trial),
            Self::Stages => by_criterion(stages::run),
            Self::Store(options) => store::run(&options, is_trial)?,
            Self::Tokenizers(options) => tokenizers::run(&options, is_trial),
            Self::Tune => tune::run(is_trial),
        }
        Ok(())
    }
}

fn by_criterion(bench: fn(&mut Criterion)) {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // Cargo says `--bench` at the end where it measures; `cargo test --benches` does not.
    let is_bench = words.pop_if(|last| *last == "--bench").is_some();
    let name = words.first().and_then(|word| word.split('/').next()).unwrap_or_default().to_owned();
    if BY_CRITERION.contains(&name.as_str()) {
        words = vec![name];
    }
    let arguments = Arguments::parse_from(words);
    let is_trial = arguments.test || !is_bench;
    if let Some(bench) = arguments.bench {
        return bench.run(is_trial);
    }
    let mut command = Arguments::command();
    if !is_trial {
        command.print_help()?;
        return Ok(());
    }
    for name in command.get_subcommands().map(clap::Command::get_name) {
        println!("\n== {name}");
        let bench = Arguments::parse_from([name]).bench.expect("it is one");
        bench.run(true)?;
    }
    Ok(())
}
