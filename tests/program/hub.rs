//! Runs that read from the Hugging Face Hub: a server on loopback stands in for it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::hub_server::Hub;
use crate::program::{millstream, said};

mod cache;
mod faults;
mod files;
mod layouts;
mod models;
mod names;
mod tables;

/// A repository of a dataset.
const STORIES: &str = "datasets/me/stories";

/// A Hub, the home directory of somebody who uses it, and a directory for configs.
struct World {
    hub: Hub,
    home: TempDir,
}

impl World {
    fn new() -> Self {
        Self { hub: Hub::new(), home: tempfile::tempdir().expect("a directory") }
    }

    /// A Hub with so many files of stories, under `data/`, of so many lines each. Returns the commit.
    fn with_stories(files: usize, lines: usize) -> (Self, String) {
        let world = Self::new();
        let commit = world.commit("", files, lines);
        (world, commit)
    }

    fn commit(&self, mark: &str, files: usize, lines: usize) -> String {
        let files: Vec<(String, String)> =
            (0..files).map(|file| (path(file), stories(mark, file, lines))).collect();
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (&**path, text.as_bytes())).collect();
        self.hub.commit(STORIES, "main", &files)
    }

    fn cache(&self) -> PathBuf {
        self.home.path().join("hub")
    }

    /// The folder of the stories in the Hub's cache.
    fn folder(&self) -> PathBuf {
        self.cache().join("datasets--me--stories")
    }

    fn env(&self, mut command: Command) -> Command {
        command.env("HF_ENDPOINT", self.hub.endpoint()).env("HF_HOME", self.home.path());
        for name in
            ["HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_CACHE"]
        {
            command.env_remove(name);
        }
        command
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.env(millstream(arguments))
    }

    /// The path of a new config. Retries do not wait long.
    fn config(&self, config: &str) -> String {
        let path = self.home.path().join("run.toml");
        let store = "[store]\nbackoff = 0.001\nbackoff_max = 0.01\n";
        std::fs::write(&path, format!("{config}\n{store}")).expect("a config");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// The digest of all batches of a config, with more arguments.
    fn digest(&self, config: &str, more: &[&str]) -> String {
        let arguments = ["digest", &self.config(config), "-n", "100000", "--json"];
        let output = self.command(&[&arguments[..], more].concat()).output().expect("it runs");
        digest_of(&output)
    }

    /// What a run over a config says that must fail.
    fn failure(&self, config: &str, with: impl FnOnce(&mut Command)) -> String {
        let mut command = self.command(&["digest", &self.config(config), "-n", "100000"]);
        with(&mut command);
        let output = command.output().expect("it runs");
        assert!(!output.status.success(), "it succeeded");
        said(&output)
    }
}

fn digest_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    let last = String::from_utf8_lossy(&output.stdout).lines().last().expect("a line").to_owned();
    let total: serde_json::Value = serde_json::from_str(&last).expect("an object");
    total["digest"].as_str().expect("a digest").to_owned()
}

fn path(file: usize) -> String {
    format!("data/part-{file:02}.jsonl")
}

/// Lines of JSON with texts that say where they are.
fn stories(mark: &str, file: usize, lines: usize) -> String {
    (0..lines).fold(String::new(), |mut text, line| {
        writeln!(text, "{{\"text\": \"{mark} story {line} of file {file}, {}\"}}", "x".repeat(line % 97))
            .expect("a line");
        text
    })
}

/// A run over sources, in order: what it reads does not depend on where the files are.
fn ordered(sources: &str) -> String {
    format!(
        "{sources}\n[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 64\nbatch_size = 4\nepochs = 1\nlanes = 1\nwindow = 1\n\
         shuffle_splits = false\n"
    )
}

/// A source of the stories at a revision, such as `@main`.
fn source(revision: &str) -> String {
    format!(
        "[[source]]\nkind = \"jsonl\"\nfield = \"text\"\npaths = [\"hf://{STORIES}{revision}/data/*.jsonl\"]\n"
    )
}

/// A source of files on this machine.
fn local(directory: &Path) -> String {
    format!(
        "[[source]]\nkind = \"jsonl\"\nfield = \"text\"\npaths = [\"{}/data/*.jsonl\"]\n",
        directory.display()
    )
}

/// Writes the stories to a directory.
fn write(directory: &Path, mark: &str, files: usize, lines: usize) {
    std::fs::create_dir_all(directory.join("data")).expect("a directory");
    for file in 0..files {
        std::fs::write(directory.join(path(file)), stories(mark, file, lines)).expect("a file");
    }
}
