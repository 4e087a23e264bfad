//! The program: arguments in, one command out.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run(cli::Args::read())
}
