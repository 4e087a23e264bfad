//! Training runs on disk: damage, settings, stops, two at once, talks, and models in and out.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use millstream_train::{Checkpoint, StepReport};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

mod chat;
mod damage;
mod data;
mod ledger;
mod lock;
mod models;
mod receipt;
mod report;
mod settings;
mod stops;
mod tensorboard;
mod views;
mod when;

/// A model that is far too small, so that a step takes milliseconds.
const CONFIG: &str = r#"
seed = 3

[[source]]
paths = ["corpus/*.txt"]

[tokenizer]
kind = "bytes"

[pipeline]
seq_len = 16
batch_size = 4
holdout = 0.1
workers = 1

[model]
layers = 1
d_model = 16
heads = 2
d_ff = 16

[train]
out = "run"
steps = 20
lr = 1e-3
warmup = 2
log_every = 1
validate_every = 10
validation_batches = 2
checkpoint_every = 10
sample_tokens = 0
"#;

/// A directory with a corpus and a config.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("corpus")).expect("made");
        for file in 0..4 {
            let text: String =
                (0..200).map(|line| format!("file {file} line {line}: some words\n")).collect();
            std::fs::write(directory.path().join(format!("corpus/{file}.txt")), text).expect("written");
        }
        std::fs::write(directory.path().join("run.toml"), CONFIG).expect("written");
        Self(directory)
    }

    /// A project with a finished run.
    fn trained() -> Self {
        let project = Self::new();
        project.succeed(&["train", "run.toml"]);
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program as it is run by its path.
    fn program(&self, arguments: &[&str]) -> Command {
        self.in_here(env!("CARGO_BIN_EXE_millstream"), arguments)
    }

    fn in_here(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.0.path()).env("RUST_LOG", "warn").env_remove("CARGO");
        command
    }

    /// What a command says on standard error, which must succeed.
    fn succeed(&self, arguments: &[&str]) -> String {
        succeeded(&self.program(arguments).output().expect("it runs"))
    }

    /// What a command says on standard error, which must fail.
    fn fail(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
        said(&output)
    }

    /// What a command that was told says; it must succeed.
    fn paste(&self, command: &str) -> String {
        let mut shell = self.in_here("bash", &["-c", command]);
        let output = shell.output().expect("it runs");
        assert!(output.status.success(), "{command}: {}", said(&output));
        said(&output)
    }

    /// Starts a command whose steps are read with [`Running::step`].
    fn start(&self, arguments: &[&str]) -> Running {
        Running::new(self.program(&[arguments, &["--json"]].concat()))
    }

    /// The lines of the metrics of the run in `run`.
    fn metrics(&self, run: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(run).join("metrics.jsonl")).expect("metrics");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The losses that the run in `run` logged, by step.
    fn losses(&self, run: &str) -> Vec<(u64, String)> {
        let lines = self.metrics(run);
        lines
            .iter()
            .filter(|line| line["loss"].is_number())
            .map(|line| (line["step"].as_u64().expect("a step"), line["loss"].to_string()))
            .collect()
    }
}

/// A training run whose steps are read as they come. It ends with the test.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn new(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    /// Waits for a step that is at least this one, and returns its number.
    fn step(&mut self, at_least: u64) -> u64 {
        let steps = self.lines.by_ref().map(|line| {
            let line: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            line["step"].as_u64().expect("a step")
        });
        steps.into_iter().find(|&step| step >= at_least).expect("it goes on")
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it is there");
    }

    /// What it says until its end, and how it ends.
    fn end(mut self) -> (Option<i32>, String) {
        self.lines.by_ref().for_each(drop);
        let mut error = String::new();
        let mut reader = self.child.stderr.take().expect("its errors");
        std::io::Read::read_to_string(&mut reader, &mut error).expect("text");
        (self.child.wait().expect("it ends").code(), error)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    said(output)
}

/// The command that resumes a run, which is told on a line.
fn told(said: &str) -> &str {
    after(said, "resume with: ")
}

/// The rest of the line that begins so.
fn after<'a>(said: &'a str, begin: &str) -> &'a str {
    let mut lines = said.lines();
    lines.find_map(|line| line.strip_prefix(begin)).unwrap_or_else(|| panic!("no {begin:?}: {said}"))
}

/// Flips one bit in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("written");
}

/// Copies a directory and all below it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).expect("copied")),
        }
    }
}
