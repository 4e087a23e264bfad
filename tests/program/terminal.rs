//! What people see while a command works: on terminals of any width, without colors, and where there is no terminal.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use crate::program::{TINY, failure, millstream, run, said, text};
use crate::pty::{drawn, on_a_terminal};

/// The lines of a run that show how far it is.
fn progress(shown: &str) -> Vec<String> {
    let is_progress = |line: &String| {
        let place = line.trim_start_matches(['█', '░', ' ']).split(' ').next().unwrap_or_default();
        place.ends_with("/60") && place.starts_with(|c: char| c.is_ascii_digit())
    };
    drawn(shown).into_iter().filter(is_progress).collect()
}

/// Sixty steps in a new directory.
fn train(directory: &tempfile::TempDir, name: &str) -> Vec<String> {
    let out = format!("train.out={}", directory.path().join(name).display());
    let settings = ["train.steps=60", "train.log_every=5", "train.sample_tokens=0", &out];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    ["train", TINY].into_iter().chain(settings).map(str::to_owned).collect()
}

#[test]
fn progress_fits_the_terminal_and_keeps_the_verdict() {
    let directory = tempfile::tempdir().expect("a directory");
    for columns in [20, 40, 80, 200] {
        let arguments = train(&directory, &columns.to_string());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let name = "progress_fits_the_terminal_and_keeps_the_verdict";
        let Some(shown) = on_a_terminal(name, columns, &[("RUST_LOG", "warn")], &arguments) else { return };
        let lines = progress(&shown);
        assert!(!lines.is_empty(), "{columns}: {shown}");
        for line in &lines {
            assert!(line.chars().count() < columns, "{columns}: {line}");
        }
        let has_verdict = |line: &String| line.contains("waits ");
        assert!(columns < 40 || lines.iter().any(has_verdict), "{columns}: {lines:#?}");
        // Where there is room for all of it, nothing is left out.
        let is_whole = |line: &String| line.starts_with('█') && line.contains("the trainer ");
        assert!(columns < 200 || lines.iter().any(is_whole), "{lines:#?}");
    }
}

/// Whether a text has an escape that sets a color or another style.
fn has_styles(shown: &str) -> bool {
    let escapes = shown.split("\u{1b}[").skip(1);
    let mut ends = escapes.filter_map(|escape| escape.chars().find(char::is_ascii_alphabetic));
    ends.any(|end| end == 'm')
}

#[test]
fn no_colors_are_shown_to_those_who_want_none() {
    let name = "no_colors_are_shown_to_those_who_want_none";
    let commands =
        [&["--help"][..], &["grind"], &["digest", "configs/absent.toml"], &["digest", TINY, "-n", "2"]];
    for (number, command) in commands.into_iter().enumerate() {
        let show = |variables: &[(&str, &str)]| {
            // Where programs build and test, terminals have colors, says clap: whatever their kind.
            on_a_terminal(name, 80, &[&[("RUST_LOG", "debug"), ("CI", "true")], variables].concat(), command)
        };
        let Some(colored) = show(&[]) else { return };
        // Help, wrong usage and the log have colors; errors of ours have none.
        assert_eq!(has_styles(&colored), number != 2, "{command:?}: {colored:?}");
        let plain = show(&[("NO_COLOR", "1")]).expect("it is there");
        assert!(!has_styles(&plain) && !plain.is_empty(), "{command:?}: {plain:?}");
        let dumb = show(&[("TERM", "dumb")]).expect("it is there");
        assert!(!dumb.contains('\u{1b}') && !dumb.is_empty(), "{command:?}: {dumb:?}");
    }
    // What cannot be drawn over is printed line by line.
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = train(&directory, "dumb");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let dumb = on_a_terminal(name, 80, &[("TERM", "dumb")], &arguments).expect("it is there");
    assert!(!dumb.contains('\u{1b}') && dumb.contains("step 5/60  loss "), "{dumb}");
}

#[test]
fn without_a_terminal_a_verdict_is_printed_when_it_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = train(&directory, "piped");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = millstream(&arguments).output().expect("it runs");
    let said = said(&output);
    let steps: Vec<&str> =
        said.lines().filter(|line| line.starts_with("step ") && line.contains("/60")).collect();
    assert_eq!(steps.len(), 12, "{said}");
    let verdicts: Vec<&str> = steps.iter().filter_map(|line| Some(line.split_once("FLOP/s  ")?.1)).collect();
    assert!(!verdicts.is_empty() && steps[0].contains("FLOP/s  "), "{said}");
    // Numbers are no news.
    let gist = |verdict: &str| verdict.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    for pair in verdicts.windows(2) {
        assert_ne!(gist(pair[0]), gist(pair[1]), "{said}");
    }
}

#[test]
fn tables_fit_a_hundred_columns() {
    let compare = ["bench", "compare", TINY, "-n", "8", "--rounds", "1", "--consume-ms", "0"];
    for (command, begins) in [
        (&["bench", "loader", TINY, "-n", "50"][..], "stage "),
        (&compare, "| batch "),
        (&["verify", TINY, "-n", "20", "-k", "3"], "law "),
        (&["inspect", TINY, "-n", "2"], "batch "),
    ] {
        let printed = text(command);
        let table: Vec<&str> = printed.lines().skip_while(|line| !line.starts_with(begins)).collect();
        assert!(table.len() > 3, "{command:?}: {printed}");
        // Behind it there are sentences.
        for line in table.iter().filter(|line| line.contains("  ")) {
            assert!(line.chars().count() <= 100, "{command:?}: {line}");
        }
    }
}

/// Reads what a command says until a line has `words`, and then ends it.
fn says(arguments: &[&str], words: &str) {
    let mut command = millstream(arguments);
    let mut child = command
        .env("RUST_LOG", "info")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("its errors")).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    for line in lines {
        seen.push(line.clone());
        if line.contains(words) {
            break;
        }
    }
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
    assert!(seen.last().is_some_and(|line| line.contains(words)), "{arguments:?}: {seen:#?}");
    assert_eq!(seen.iter().filter(|line| line.contains(words)).count(), 1);
}

#[test]
fn what_takes_long_is_told() {
    // A server that takes connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.toml").display().to_string();
    let source = format!("[[source]]\npaths = [\"http://{address}/text.txt\"]\n");
    std::fs::write(&config, &source).expect("a config");
    let file = |name: &str| directory.path().join(name).display().to_string();
    for (command, words) in [
        (&["digest", &config, "--json", "--set", "tokenizer.kind=bytes"][..], "INFO listing the files"),
        (&["inspect", &config], "INFO listing the files, and learning a tokenizer from them"),
        (
            &["tokenizer", "train", &config, "-o", &file("t.json")],
            "INFO learning a tokenizer from the corpus",
        ),
        (&["bench", "loader", &config], "INFO learning a tokenizer from the corpus"),
        (&["prepare", &config, "-o", &file("shards")], "INFO preparing token shards"),
        (&["inspect", TINY, "--batch", "1000000000"], "INFO reading up to the batch"),
        (&["digest", TINY, "-n", "1000000000", "--json"], "INFO reading batches"),
    ] {
        says(command, words);
    }
    drop(listener);
}

#[test]
fn names_that_a_terminal_would_obey_are_written_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a\u{1b}]0;b.csv");
    std::fs::write(&file, "o\u{1b}[31mne,two\n1,2\n").expect("a file");
    let config = directory.path().join("run.json");
    let source =
        serde_json::json!({ "kind": "csv", "field": "three", "paths": [directory.path().join("*.csv")] });
    let content = serde_json::json!({ "tokenizer": { "kind": "bytes" }, "source": [source] });
    std::fs::write(&config, content.to_string()).expect("a config");
    let config = config.to_str().expect("text");
    let (_, printed) = failure(&["digest", config]);
    assert!(printed.contains("a\\u{1b}]0;b.csv") && printed.contains("o\\u{1b}[31mne"), "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
    let output = run(&["digest", config, "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    let error = object["error"]["message"].as_str().expect("a message");
    assert!(error.contains("o\u{1b}[31mne"), "scripts get what is there: {error:?}");
}

#[cfg(unix)]
#[test]
fn nothing_in_the_log_is_obeyed_or_looks_like_another_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a\u{1b}]0;b\nINFO all is well.txt");
    std::fs::write(&file, b"one \xff two\n").expect("a file");
    std::fs::write(directory.path().join("b.txt"), "a line\n".repeat(50)).expect("a file");
    let config = directory.path().join("run.json");
    let source = serde_json::json!({
        "paths": [directory.path().join("*.txt")], "on_error": { "skip": 5 }, "name": "s\u{1b}[31m"
    });
    let content = serde_json::json!({ "tokenizer": { "kind": "bytes" }, "source": [source] });
    std::fs::write(&config, content.to_string()).expect("a config");
    let output = run(&["digest", config.to_str().expect("text"), "-n", "1", "--set", "pipeline.seq_len=8"]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("document skipped") && said.contains("a\\u{1b}]0;b\\nINFO all is well.txt"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn the_log_names_the_first_skipped_documents_for_each_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let bad = "no JSON\n".repeat(5) + &"{\"text\": 1}\n".repeat(2);
    let lines = bad + &"{\"text\": \"a line\"}\n".repeat(50);
    std::fs::write(directory.path().join("a.jsonl"), lines).expect("a file");
    let config = directory.path().join("run.json");
    let source = serde_json::json!({
        "kind": "jsonl", "field": "text", "paths": [directory.path().join("a.jsonl")], "on_error": { "skip": 9 }
    });
    let content = serde_json::json!({
        "tokenizer": { "kind": "bytes" }, "source": [source], "pipeline": { "seq_len": 8, "lanes": 1 }
    });
    std::fs::write(&config, content.to_string()).expect("a config");
    // Several epochs, each of which meets all of them again.
    let output = run(&["digest", config.to_str().expect("text"), "-n", "20"]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for (reason, named) in [("broken JSON", 3), ("is a number and not a string", 3)] {
        let lines = said.lines().filter(|line| line.contains("document skipped") && line.contains(reason));
        assert_eq!(lines.count(), named, "{said}");
    }
    assert_eq!(said.matches("later ones like it are counted, not named").count(), 2, "{said}");
}

#[test]
fn a_source_whose_filter_names_a_field_that_no_record_has_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = "{\"text\": \"a line of text\", \"lang\": \"en\"}\n".repeat(50);
    std::fs::write(directory.path().join("a.jsonl"), lines).expect("a file");
    let source = |name: &str, filter: &str| {
        serde_json::json!({
            "name": name, "kind": "jsonl", "field": "text", "where": filter,
            "paths": [directory.path().join("a.jsonl")],
        })
    };
    let config = directory.path().join("run.json");
    let content = serde_json::json!({
        "source": [source("good", "lang = 'en'"), source("bad", "lnag = 'en'")],
        "tokenizer": { "kind": "bytes" }, "pipeline": { "seq_len": 8, "lanes": 1, "epochs": 1 }
    });
    std::fs::write(&config, content.to_string()).expect("a config");
    let output = run(&["digest", config.to_str().expect("text")]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("no record of source").count(), 1, "{said}");
    assert!(said.contains("no record of source bad has the field"), "{said}");
}
