//! The program, as people and scripts run it.

#![allow(dead_code, reason = "no binary uses all of it")]

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A small config over the crate's own files.
pub(crate) const TINY: &str = "configs/tiny.toml";

/// The program with these arguments, in the crate's directory.
pub(crate) fn millstream(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(arguments).current_dir(crate::support::root()).env("RUST_LOG", "warn");
    command
}

/// A run, whatever comes of it.
pub(crate) fn run(arguments: &[&str]) -> Output {
    millstream(arguments).output().expect("it runs")
}

/// A run that goes on, whose output nobody has read yet.
pub(crate) fn start(arguments: &[&str]) -> Child {
    millstream(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// What a run says on standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// Standard output of a run that must succeed.
pub(crate) fn text(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// The one object that a run prints, which must succeed.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat())).expect("one object")
}

/// What a run that must fail says, and its exit code.
pub(crate) fn failure(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty());
    (output.status.code().expect("a code"), said(&output))
}
