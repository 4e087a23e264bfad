//! Whether memory, threads and open files stay flat while a loader runs for long, for each format. Linux only.
//!
//!     cargo bench --bench memory                                        # ten minutes for each format
//!     cargo bench --bench memory -- --seconds 60 --only parquet,jsonl   # a short look at two of them
//!     cargo bench --bench memory -- --seconds 7200 -- millstream train my.toml
//!
//! The swept variable is the format; `store` is JSON lines on a server on this machine, with a cache. The program reads
//! each corpus over and over, one format after the other, with a small `pipeline.memory`. Each second this bench looks at
//! the process in `/proc`. It compares the last third of the time with the first: the same memory means that nothing
//! leaks. What comes after a second `--` is run instead, for as long, and is looked at in the same way.

#[path = "common/mod.rs"]
mod common;
#[path = "memory/corpus.rs"]
mod corpus;
#[path = "memory/look.rs"]
mod look;
#[path = "memory/options.rs"]
mod options;
#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/support/server.rs"]
mod server;
#[path = "memory/verdict.rs"]
mod verdict;
#[path = "../tests/support/samples.rs"]
mod write;

use std::path::Path;
use std::process::{Command, ExitCode};

use corpus::Corpus;
use look::{Sample, keep, watch};
use options::Options;
use verdict::{Row, header};

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::FAILURE;
        }
    };
    if !Path::new("/proc/self/status").exists() {
        eprintln!("this bench looks at /proc, which only Linux has");
        return ExitCode::SUCCESS;
    }
    let rows = match options.command.split_first() {
        Some((program, arguments)) => {
            vec![run(&options.command.join(" "), Command::new(program).args(arguments), &options)]
        }
        None => formats(&options),
    };
    let table: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let table = format!("{}{table}", header(&options));
    println!("\n{table}");
    if let Some(out) = &options.out {
        std::fs::write(out, table).expect("the table is written");
    }
    // A trial is too short to tell.
    let are_flat = rows.iter().all(Row::is_flat) || options.is_trial;
    if are_flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn formats(options: &Options) -> Vec<Row> {
    let corpus = Corpus::make(options.bytes);
    let row = |format: &String| {
        let served = (format == "store").then(|| corpus.serve());
        let config = corpus.config(format, options.memory, served.as_ref());
        let mut command = Command::new(&options.program);
        command
            .args(["bench", "loader"])
            .arg(config)
            .args(["-n", "1000000000", "--json"])
            .env("RUST_LOG", "warn");
        run(format, &mut command, options)
    };
    options.formats.iter().map(row).collect()
}

/// Runs a command for as long as is asked for, and looks at it.
fn run(name: &str, command: &mut Command, options: &Options) -> Row {
    eprintln!("{name}: {} seconds", options.time.as_secs());
    let (samples, report) = watch(command, options.time, options.every);
    if let Some(path) = &options.samples {
        keep(path, name, &samples, options.every).expect("the samples are written");
    }
    let row = Row::new(name, &samples, &report);
    eprintln!("{row}");
    row
}
