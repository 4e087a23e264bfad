//! `millstream prepare` that is killed and run again, and several of it at once.

#![cfg(all(feature = "cli", unix))]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

/// How many sources there are: each has a directory, and so segments that are whole long before all is.
const SOURCES: usize = 12;

fn millstream(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env("RUST_LOG", "warn");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(arguments: &[&str]) -> Child {
    millstream(arguments).spawn().expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a run that must succeed prints.
fn json(arguments: &[&str]) -> Value {
    let output = millstream(&[arguments, &["--json"]].concat()).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// Files of text, and configs that read them and what is prepared of them.
struct Case {
    directory: TempDir,
    tokenizer: &'static str,
}

impl Case {
    fn new(lines: usize, tokenizer: &'static str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let words = ["some", "words", "of", "text", "that", "is", "to", "be", "prepared"];
        let line = |n: usize| {
            (0..n % 23).map(|k| words[(n / 7 + k * k) % words.len()]).collect::<Vec<_>>().join(" ")
        };
        for source in 0..SOURCES {
            let text: String = (0..lines).map(|n| format!("{n} {}\n", line(n * SOURCES + source))).collect();
            std::fs::write(directory.path().join(format!("{source}.txt")), text).expect("a file");
        }
        Self { directory, tokenizer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a config whose sources are what `of` says of each.
    fn config(&self, name: &str, of: impl Fn(usize) -> String) -> String {
        let sources =
            (0..SOURCES).map(|source| format!("[[source]]\nname = \"s{source}\"\n{}\n", of(source)));
        let pipeline = "[pipeline]\nseq_len = 256\nbatch_size = 8\nlanes = 2\nepochs = 1\n";
        let text = format!("{}[tokenizer]\n{}\n{pipeline}", sources.collect::<String>(), self.tokenizer);
        std::fs::write(self.path(name), text).expect("a file");
        self.path(name).display().to_string()
    }

    /// The config of the text, in splits of some length.
    fn text(&self, split: &str) -> String {
        let path = |source| self.path(&format!("{source}.txt"));
        self.config(&format!("{split}.toml"), |source| {
            format!("paths = [{:?}]\nsplit = {split:?}", path(source).display().to_string())
        })
    }

    /// The config of the shards in a directory.
    fn shards(&self, directory: &Path) -> String {
        let path = |source| directory.join(format!("s{source}"));
        self.config("shards.toml", |source| {
            format!("kind = \"shards\"\npaths = [{:?}]", path(source).display().to_string())
        })
    }
}

/// The digest of all batches.
fn digest(config: &str) -> Value {
    json(&["digest", config, "--batches", "1000000"])
}

/// How many whole segments there are.
fn segments(directory: &Path) -> usize {
    let all = |source: usize| std::fs::read_dir(directory.join(format!("s{source}"))).into_iter().flatten();
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "tokens");
    (0..SOURCES)
        .flat_map(all)
        .filter(|entry| entry.as_ref().is_ok_and(|entry| is_segment(&entry.path())))
        .count()
}

#[test]
fn killed_at_any_moment_it_goes_on_to_the_same_shards() {
    let case = Case::new(12_000, "path = \"tests/data/tokenizers/unigram.json\"");
    let text = case.text("64KiB");
    let begun = Instant::now();
    let whole = json(&["prepare", &text, "-o", case.path("whole").to_str().expect("a name")]);
    let takes = begun.elapsed();
    let out = case.path("killed");
    let arguments = ["prepare", &text, "-o", out.to_str().expect("a name")];
    let mut killed = 0;
    for share in [0.05, 0.6, 0.3, 0.5, 0.1, 0.4, 0.2, 0.7] {
        let mut child = start(&arguments);
        thread::sleep(takes.mul_f64(share));
        child.kill().expect("it is killed");
        killed += usize::from(child.wait().expect("it ends").signal() == Some(9));
    }
    assert!(killed >= 3, "{killed} kills came in time");
    assert!(segments(&out) > 0, "something was whole");
    let rest = json(&[&arguments[..], &["--verify"]].concat());
    assert!(
        rest["documents"].as_u64() < whole["documents"].as_u64(),
        "what was whole is passed over: {rest}"
    );
    assert_eq!((&rest["splits"], &rest["verified"]), (&whole["splits"], &Value::from(true)));
    assert_eq!(digest(&case.shards(&out)), digest(&text));
}

#[test]
fn two_at_once_make_the_same_shards() {
    let case = Case::new(3000, "path = \"tests/data/tokenizers/unigram.json\"");
    let (text, out) = (case.text("16KiB"), case.path("both"));
    let both = [(); 2].map(|()| start(&["prepare", &text, "-o", out.to_str().expect("a name")]));
    for child in both {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", said(&output));
    }
    assert_eq!(digest(&case.shards(&out)), digest(&text));
}

#[test]
fn of_two_configs_at_once_one_is_refused() {
    let case = Case::new(300, "kind = \"bytes\"");
    let configs = [case.text("2KiB"), case.text("3KiB")];
    for round in 0..8 {
        let out = case.path(&format!("race{round}"));
        let both =
            configs.each_ref().map(|text| start(&["prepare", text, "-o", out.to_str().expect("a name")]));
        let both = both.map(|child| child.wait_with_output().expect("it ends"));
        let won = both.iter().position(|output| output.status.success()).expect("one is prepared");
        let lost = &both[1 - won];
        assert_eq!(lost.status.code(), Some(1), "both say that it is theirs");
        assert!(said(lost).contains("it has the tokens of"), "{}", said(lost));
        assert_eq!(digest(&case.shards(&out)), digest(&configs[won]));
    }
}
