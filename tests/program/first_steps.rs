//! What somebody meets first: a config made by the program, its schema, completions, and commands to paste.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::root;

mod completions;
mod hints;
mod init;
mod schema;

/// The program as it is run by its path, and not by cargo.
fn millstream(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(arguments).current_dir(directory).env("RUST_LOG", "warn").env_remove("CARGO");
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    millstream(directory, arguments).output().expect("it runs")
}

/// Standard output of a run that must succeed.
fn text(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a run that must fail says on standard error.
fn failure(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
