//! Whether memory, threads and open files stay flat while a loader runs for long, for each format.
//!
//!     cargo bench -- memory                                     # ten minutes for each format
//!     cargo bench -- memory --seconds 60 --only parquet,jsonl   # a short look at two of them
//!     cargo bench -- memory --seconds 7200 -- millstream train my.toml
//!
//! The swept variable is the format; `store` is JSON lines on a server on this machine, with a cache. The program reads
//! each corpus over and over, one format after the other, with a small `pipeline.memory`. Each second this bench looks at
//! the process in `/proc`. It compares the last third of the time with the first: the same memory means that nothing
//! leaks. What comes after a second `--` is run instead, for as long, and is looked at in the same way.

mod look;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use millstream::config::ByteCount;

use crate::common::formats::{self, FORMATS};
use crate::common::{positive, serve};
use crate::server::Server;
use look::{keep, watch};
use verdict::{Row, header};

/// Bytes of text of a corpus.
const BYTES: usize = 128 << 20;
const TEST_BYTES: usize = 2 << 20;

/// What the cache of remote data may take. It is less than the corpus, so that entries come and go.
const CACHE: ByteCount = ByteCount::mib(64);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each format is read, or the command runs [default: 600]
    #[arg(long, value_name = "N", value_parser = positive)]
    seconds: Option<usize>,
    /// Which formats; `store` is JSON lines on a server, with a cache
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = PossibleValuesParser::new(all()))]
    #[arg(default_values = all())]
    only: Vec<String>,
    /// `pipeline.memory`
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    memory: ByteCount,
    /// The size of the text, in MiB [default: 128]
    #[arg(long, value_name = "N", value_parser = positive)]
    mb: Option<usize>,
    /// The program that reads
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_millstream"))]
    program: PathBuf,
    /// Where the table goes beside standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where what was seen over time goes
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// What is run instead of the formats
    #[arg(last = true)]
    command: Vec<String>,
}

fn all() -> impl Iterator<Item = &'static str> {
    FORMATS.into_iter().chain(["store"])
}

pub(crate) fn run(options: &Options, is_trial: bool) -> Result<(), &'static str> {
    let time = Duration::from_secs(options.seconds.unwrap_or(if is_trial { 1 } else { 600 }) as u64);
    let every = Duration::from_millis(if is_trial { 50 } else { 1000 });
    let look = |name: &str, command: &mut Command| {
        eprintln!("{name}: {} seconds", time.as_secs());
        let (samples, report) = watch(command, time, every);
        if let Some(path) = &options.samples {
            keep(path, name, &samples, every).expect("the samples are written");
        }
        let row = Row::new(name, &samples, &report);
        eprintln!("{row}");
        row
    };
    let rows: Vec<Row> = match options.command.split_first() {
        Some((program, arguments)) => {
            vec![look(&options.command.join(" "), Command::new(program).args(arguments))]
        }
        None => {
            let bytes = options.mb.map_or(if is_trial { TEST_BYTES } else { BYTES }, |mb| mb << 20);
            let (_, directory) = formats::make(bytes);
            let row = |format: &String| {
                let server = (format == "store").then(|| serve(&directory.join("jsonl")));
                let config = config(format, options.memory, &directory, server.as_ref());
                let mut command = Command::new(&options.program);
                command.args(["bench", "loader"]).arg(config).args(["-n", "1000000000", "--json"]);
                look(format, command.env("RUST_LOG", "warn"))
            };
            options.only.iter().map(row).collect()
        }
    };
    let table: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let table = format!("{}{table}", header(time, options.memory));
    println!("\n{table}");
    if let Some(out) = &options.out {
        std::fs::write(out, table).expect("the table is written");
    }
    // A trial is too short to tell.
    let are_flat = rows.iter().all(Row::is_flat) || is_trial;
    if are_flat { Ok(()) } else { Err("memory, threads or open files have risen") }
}

/// Writes the config that reads a format, or what is served, without end.
fn config(format: &str, memory: ByteCount, directory: &Path, server: Option<&Server>) -> PathBuf {
    let mut config = formats::config(if server.is_some() { "jsonl" } else { format }, directory);
    (config.pipeline.epochs, config.pipeline.memory) = (None, memory);
    if let Some(server) = server {
        let files = server.state.files.lock().expect("no panic");
        config.sources[0].paths = files.keys().map(|name| server.url(name)).collect();
        config.store.cache = Some(directory.join("cache"));
        config.store.cache_limit = CACHE;
    }
    let path = directory.join(format!("{format}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&config).expect("JSON")).expect("written");
    path
}
