//! The program: arguments in, one command out.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::Args::read().map_or_else(|code| code, cli::run)
}
