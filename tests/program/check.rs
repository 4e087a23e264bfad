//! `millstream check`, and that the same checks come before a tokenizer is learned.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{failure, json, text};

/// A directory with a corpus, and a config that learns a tokenizer from it.
struct Corpus {
    directory: tempfile::TempDir,
}

impl Corpus {
    fn new(first_line: &[u8]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let lines: String =
            (0..400).map(|line| format!("line {line} of a small corpus, and some words\n")).collect();
        std::fs::write(directory.path().join("docs.txt"), [first_line, b"\n", lines.as_bytes()].concat())
            .expect("a file");
        let records: String =
            (0..400).map(|line| format!("{{\"text\": \"record {line} with words\"}}\n")).collect();
        std::fs::write(directory.path().join("web.jsonl"), records).expect("a file");
        let corpus = Self { directory };
        let (docs, web) = (corpus.path("docs.txt"), corpus.path("web.jsonl"));
        let text = format!(
            "[[source]]\nname = \"docs\"\npaths = {docs:?}\n[[source]]\nname = {:?}\nkind = \"jsonl\"\nfield = \
             \"text\"\npaths = {web:?}\n[pipeline]\nlanes = 8\nseq_len = 32\nbatch_size = 8\nholdout = \
             0.1\n[train]\nout = {:?}\nsteps = 7\n",
            "a name that is much longer than anybody would ever want to see in a table of a hundred columns",
            corpus.path("run"),
        );
        std::fs::write(corpus.config(), text).expect("a file");
        corpus
    }

    /// One whose first line stops whoever reads it. So another error comes before anything is read.
    fn unreadable() -> Self {
        Self::new(b"bad \xff line")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.path("run.toml")
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path()).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn it_shows_what_would_be_read_and_writes_nothing() {
    let corpus = Corpus::new(b"a first line");
    let before = corpus.files();
    let config = corpus.config();
    let table = text(&["check", shown(&config)]);
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let cells = |title: &str| {
        let line =
            table.lines().find(|line| line.starts_with(title)).unwrap_or_else(|| panic!("{title}: {table}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("source"), ["source", "kind", "files", "bytes", "splits"]);
    assert_eq!(cells("docs")[..3], ["docs", "text", "1"]);
    assert!(cells("a name that is")[..].contains(&"jsonl".to_owned()));
    for said in [
        "learned from the corpus, 4096 tokens",
        "8 rows of 32 inputs, from 8 lanes",
        "10% of the documents",
        "7 steps on flex in f32",
        shown(&corpus.path("run")),
    ] {
        assert!(table.contains(said), "{said}: {table}");
    }
    let report = json(&["check", shown(&config), "--set", "tokenizer.kind=bytes"]);
    assert_eq!(report["sources"][0]["name"], "docs");
    assert_eq!(
        report["sources"][0]["bytes"],
        std::fs::metadata(corpus.path("docs.txt")).expect("a file").len()
    );
    assert!(report["sources"][1]["splits"].as_u64().is_some_and(|splits| splits >= 8), "{report}");
    assert_eq!((&report["lanes"], &report["batch_size"]), (&Value::from(8), &Value::from(8)));
    assert_eq!(
        (&report["tokenizer"]["name"], &report["tokenizer"]["vocab_size"]),
        (&"bytes".into(), &257.into())
    );
    assert_eq!(report["train"]["checkpoint_step"], Value::Null);
    // A config for several processes is that of the trainer only if it sums over them.
    let shared = json(&["check", shown(&config), "--set", "pipeline.world=4"]);
    assert_eq!((&shared["world"], shared["train"].is_null()), (&4.into(), !cfg!(feature = "mpi")));
    assert_eq!(corpus.files(), before);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_read() {
    let corpus = Corpus::unreadable();
    let before = corpus.files();
    let config = corpus.config();
    let config = shown(&config);
    let (below, absent) = (corpus.path("docs.txt").join("run"), corpus.path("absent"));
    let of = |key: &str, path: &Path| format!("{key}={}", path.display());
    let commands = |names: &[&'static str]| names.to_vec();
    let all = ["check", "train", "bench loader", "digest", "inspect", "verify"];
    let output = corpus.path("output");
    for (setting, commands, said) in [
        ("train.device=gpu".to_owned(), commands(&all), "unknown device `gpu`; the devices are flex, cuda"),
        ("pipeline.world=32".to_owned(), commands(&["check"]), "set it to 32, and pipeline.batch_size to 32"),
        ("pipeline.memory=64KiB".to_owned(), commands(&all), "`pipeline.memory` must be at least "),
        ("pipeline.lanes=4096".to_owned(), commands(&all), "set fewer lanes"),
        (of("source.docs.paths", &absent), commands(&all), "no file matches"),
        (of("source.docs.cache.path", &below), commands(&all), "docs.txt is not a directory"),
        (of("tokenizer.path", &absent), commands(&all), "absent"),
        (of("train.out", &below), commands(&["check", "train"]), "docs.txt is not a directory"),
        ("pipeline.memory=64KiB".to_owned(), commands(&["prepare", "tokenizer train"]), "must be at least "),
    ] {
        for command in commands {
            let (code, error) = match command {
                "prepare" => failure(&["prepare", config, "-o", shown(&output), "--set", &setting]),
                "tokenizer train" => {
                    failure(&["tokenizer", "train", config, "-o", shown(&output), "--set", &setting])
                }
                command => {
                    let words: Vec<&str> = command.split(' ').chain([config, "--set", &setting]).collect();
                    failure(&words)
                }
            };
            // What no files are needed to refuse is wrong usage.
            assert_eq!(
                code,
                if said.starts_with("unknown device") { 2 } else { 1 },
                "{command} {setting}: {error}"
            );
            assert!(error.contains(said) && !error.contains("UTF-8"), "{command} {setting}: {error}");
            assert!(!error.contains("learning a tokenizer") || command == "train", "{command}: {error}");
            // What is no fault of the files names the setting, or the line of the key that does not fit it.
            let place = match said {
                "no file matches" => String::new(),
                _ if setting.starts_with("pipeline.world") => format!("{config}:10:1: `pipeline.lanes`"),
                _ => format!("--set {setting}: "),
            };
            assert!(error.contains(&place), "{command}: {error}");
        }
    }
    let missing = format!("exclude.documents=[{{path={absent:?}, byte=0}}]");
    let (_, error) = failure(&["check", config, "--set", &missing]);
    assert!(error.contains("absent is not a file of any source"), "{error}");
    let ranks = ["--set", "pipeline.world=2", "--set", "pipeline.rank=5"];
    let (_, error) = failure(&[&["check", config][..], &ranks].concat());
    assert!(error.contains("`pipeline.rank` must be less than the world's size, 2, not 5"), "{error}");
    // The checks are before the tokenizer: without a mistake the bad line is read.
    let (_, error) = failure(&["digest", config]);
    assert!(error.contains("UTF-8"), "{error}");
    assert_eq!(corpus.files(), before);
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_that_the_build_lacks_names_its_feature() {
    let corpus = Corpus::unreadable();
    let config = corpus.config();
    let settings = ["--set", "train.device=cuda"];
    for command in ["check", "train"] {
        let (_, error) = failure(&[&[command, shown(&config)][..], &settings].concat());
        assert!(error.contains("--set train.device=cuda: ") && error.contains("--features cuda"), "{error}");
    }
    let read = Corpus::new(b"a first line");
    let config = read.config();
    // Whoever makes no model does not need it.
    text(&[&["digest", shown(&config), "-n", "1", "--set", "tokenizer.kind=bytes"][..], &settings].concat());
}

#[test]
fn what_commands_ask_of_a_config_is_checked_before_a_tokenizer_is_learned() {
    let corpus = Corpus::unreadable();
    let config = corpus.config();
    let (_, error) = failure(&["verify", shown(&config), "--world", "3"]);
    assert!(error.contains("3 ranks cannot share 8 lanes"), "{error}");
    let (_, error) =
        failure(&["bench", "loader", shown(&config), "--held-out", "--set", "pipeline.holdout=0"]);
    assert!(error.contains("--set pipeline.holdout=0: pipeline.holdout: nothing is held out"), "{error}");
    // In the file it is the line.
    let (_, error) = failure(&["train", shown(&config), "--set", "pipeline.depth=9999999"]);
    let line = format!("error: {}:9:2: `pipeline.memory` must be at least ", config.display());
    assert!(error.starts_with(&line) || error.contains(&line), "{error}");
}

#[test]
fn a_run_that_is_there_already_is_named() {
    let corpus = Corpus::new(b"a first line");
    let config = corpus.config();
    let small = [
        "--set", "tokenizer.kind=bytes", "--set", "train.steps=1", "--set", "model.layers=1", "--set",
        "model.d_model=8", "--set", "model.d_ff=8", "--set", "train.validation_batches=0", "--set",
        "train.sample_tokens=0",
    ];
    text(&[&["train", shown(&config)][..], &small].concat());
    let table = text(&["check", shown(&config)]);
    assert!(table.contains("which has a run at step 1: train --resume goes on"), "{table}");
    assert_eq!(json(&["check", shown(&config)])["train"]["checkpoint_step"], 1);
}

#[test]
fn a_column_that_is_misspelt_is_found_before_anything_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let record = "{\"text\": \"some words\", \"lang\": \"en\", \"meta\": {\"site\": \"x\"}}\n";
    std::fs::write(path("a.jsonl"), record.repeat(20)).expect("written");
    std::fs::create_dir(path("lanq=en")).expect("made");
    std::fs::write(path("lanq=en/b.jsonl"), record.repeat(20)).expect("written");
    let config = |source: &str, more: &str| {
        let source = format!("[[source]]\nkind = \"jsonl\"\nfield = \"text\"\n{source}\n");
        std::fs::write(path("c.toml"), format!("{source}{more}\n[tokenizer]\nkind = \"bytes\"\n"))
            .expect("written");
        path("c.toml")
    };
    let by = |column: &str| format!("[mixture]\nby = {column:?}\nweights = {{ en = 1.0, de = 1.0 }}");
    let files = format!("paths = [{:?}]", path("a.jsonl"));
    for command in ["check", "train", "digest"] {
        let (code, said) = failure(&[command, &config(&files, &by("lnag"))]);
        let expected = "mixture.by: no record at the beginning of the source has the field \"lnag\"; did you mean `lang`?";
        assert!(code == 1 && said.contains(expected), "{said}");
    }
    // A field of a field, and a directory, are columns as well.
    text(&["check", &config(&files, &by("lang"))]);
    text(&["check", &config(&files, &by("meta.site"))]);
    text(&["check", &config(&format!("paths = [{:?}]", path("lanq=en/*.jsonl")), &by("lanq"))]);

    let columns = format!("{files}\ncolumns = [\"lang\"]");
    for (key, more) in [
        ("train.loss_by", "[train]\nloss_by = [\"lnag\"]"),
        ("pipeline.ledger_by", "[pipeline]\nledger_by = \"lnag\""),
    ] {
        let (_, said) = failure(&["check", &config(&columns, more)]);
        let expected = format!("{key}: no source has the column \"lnag\"; did you mean `lang`?");
        assert!(said.contains(&expected), "{said}");
    }
}
