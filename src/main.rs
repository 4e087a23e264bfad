//! The program: arguments in, one command out.

use std::process::ExitCode;

use clap::Parser;

mod cli;

fn main() -> ExitCode {
    cli::run(cli::Args::parse())
}
