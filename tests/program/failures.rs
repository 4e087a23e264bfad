//! What a command that fails prints, and its exit code.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::program::{TINY, millstream, run, said};

/// The object of a failure: the only line on standard output.
fn error(output: &Output) -> Value {
    let printed = String::from_utf8(output.stdout.clone()).expect("text");
    let mut lines = printed.lines();
    let line = lines.next().unwrap_or_else(|| panic!("nothing is printed; said: {}", said(output)));
    assert_eq!(lines.next(), None, "{printed}");
    let object: Value = serde_json::from_str(line).expect("JSON");
    object["error"].clone()
}

/// Runs a command that must fail, as people do and as scripts do. Gives the exit code and the object.
fn failed(arguments: &[&str]) -> (i32, Value) {
    let plain = run(arguments);
    assert!(plain.stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&plain.stdout));
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), plain.status.code(), "{arguments:?}");
    // People read the same, with or without the object.
    let line = |output: &Output| {
        let said = said(output);
        let mut lines = said.lines().skip_while(|line| !line.starts_with("error: "));
        lines.next().unwrap_or_else(|| panic!("no error: {said}")).to_owned()
    };
    assert_eq!(line(&output), line(&plain));
    let (code, error) = (output.status.code().expect("a code"), error(&output));
    assert_eq!(error["exit_code"], code, "{arguments:?}: {error}");
    let message = error["message"].as_str().expect("a message");
    let begin: String = message.chars().take(20).collect();
    assert!(line(&plain).starts_with(&format!("error: {begin}")), "{message}: {}", line(&plain));
    (code, error)
}

/// A config over one file with a bad line.
fn broken(directory: &Path) -> String {
    let (text, config) = (directory.join("bad.jsonl"), directory.join("run.toml"));
    std::fs::write(&text, "{\"text\": \"good\"}\n{\"text\": }\n").expect("a file");
    let source = format!("[[source]]\nkind = \"jsonl\"\nfield = \"text\"\npaths = [{text:?}]\n");
    let rest = "[tokenizer]\nkind = \"bytes\"\n[pipeline]\nepochs = 1\nholdout = 0.0\n";
    std::fs::write(&config, source + rest).expect("a config");
    config.display().to_string()
}

#[test]
fn every_failure_is_one_object_with_what_is_known_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let config = broken(directory.path());
    std::fs::write(file("no.json"), "{}").expect("a file");
    std::fs::write(file("taken.toml"), "").expect("a file");

    let (code, error) = failed(&["digest", &config]);
    assert_eq!((code, &error["kind"]), (1, &"document".into()));
    assert_eq!((&error["path"], &error["line"]), (&file("bad.jsonl").into(), &2.into()));
    assert!(error["byte"].is_u64() && error["problem"].is_string() && error["remedy"].is_string(), "{error}");

    let absent = file("absent.toml");
    for command in [
        &["bench", "loader", &absent][..],
        &["train", &absent],
        &["digest", &absent],
        &["inspect", &absent],
        &["verify", &absent],
        &["prepare", &absent, "-o", "shards"],
        &["tokenizer", "train", &absent, "-o", "t.json"],
        &["tokenizer", "check", &absent],
        &["cursor", "show", &absent],
        &["cursor", "merge", &absent, "-o", "c.json"],
        &["init", &absent],
        &["import", &absent, "--from", "nanogpt", "--tokenizer", &absent, "-o", "shards"],
    ] {
        let (code, error) = failed(command);
        let message = error["message"].as_str().expect("a message");
        assert_eq!((code, &error["kind"]), (1, &"io".into()), "{command:?}: {error}");
        assert!(
            error["path"].as_str().is_some_and(|path| path.ends_with("absent.toml")),
            "{command:?}: {error}"
        );
        // The whole chain of causes.
        assert!(message.contains("absent.toml: ") && message.contains("No such file"), "{message}");
        assert_eq!(error["os_error"], 2, "{error}");
    }

    let (code, error) = failed(&["cursor", "show", &file("no.json")]);
    assert_eq!((code, &error["kind"], &error["path"]), (1, &"cursor".into(), &file("no.json").into()));
    for command in [&["generate", &absent, "x"][..], &["train", "--resume", &absent]] {
        let (code, error) = failed(command);
        assert_eq!(
            (code, &error["kind"], &error["key"]),
            (1, &"config".into(), &absent.clone().into()),
            "{error}"
        );
    }
    let (code, error) = failed(&["train", TINY, "--set", "source.0.paths=[\"nowhere/*.txt\"]"]);
    assert_eq!((code, &error["kind"]), (1, &"corpus".into()), "{error}");
    let cursor = file("cursor.json");
    assert!(run(&["digest", TINY, "-n", "1", "--cursor-at", "1", &cursor]).status.success());
    let (code, error) = failed(&["digest", TINY, "--from", &cursor, "--set", "seed=7"]);
    assert_eq!((code, &error["kind"], &error["field"]), (1, &"fingerprint".into(), &"seed".into()));
    assert_eq!(error["now"], "7");
}

#[test]
fn wrong_arguments_are_wrong_usage_whatever_finds_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = directory.path().join("taken.toml").display().to_string();
    std::fs::write(&taken, "").expect("a file");
    for (command, says) in [
        (&["digest"][..], "<CONFIG>"),
        (&["grind", TINY], "unrecognized subcommand 'grind'"),
        (&["digest", TINY, "--each=3"], "--each"),
        (
            &["digest", TINY, "-n", "0"],
            "invalid value '0' for '--batches <BATCHES>': give a number of at least 1",
        ),
        (&["digest", TINY, "-n", "many"], "for '--batches <BATCHES>': give a whole number, such as 8"),
        (&["generate", "run", "x", "--at", "18446744073709551616"], "the number is too large"),
        (
            &["bench", "loader", TINY, "--consume-ms", "nan"],
            "give a number of milliseconds that is at least 0",
        ),
        (&["digest", TINY, "--set", "train.steps"], "such as train.steps=100"),
        (&["train", "--resume", "run", "--set", "steps"], "such as train.steps=100"),
        (&["generate", "run", "x", "--set", "steps"], "such as train.steps=100"),
        (
            &["bench", "loader", TINY, "--set", "pipeline.windw=3"],
            "--set pipeline.windw=3: pipeline.windw: unknown key `windw`",
        ),
        (&["bench", "loader", TINY, "--set", "pipeline.seq_len=0"], "--set pipeline.seq_len=0: "),
        (&["bench", "loader", TINY, "--set", "pipeline.seq_len=many"], "--set pipeline.seq_len=many: "),
        (&["generate", "run", "x", "--top-p", "2"], "at most 1"),
        (&["generate", "run", "x", "--top-k", "few"], "--top-k"),
        (&["generate", "run", "x", "--temperature", "nan"], "at least 0"),
        (&["verify", TINY, "--world", "3"], "--world: 3 ranks cannot share 16 lanes"),
        (&["bench", "loader", TINY, "--consume-by", "busy"], "not provided: --consume-ms <MS>"),
        (&["bench", "compare", TINY, "-n", "1"], "--batches: "),
        (&["digest", TINY, "--cursor-at", "x", "y.json"], "--cursor-at: "),
        (&["tokenizer", "check", TINY, "--bytes", "0"], "at least 1"),
    ] {
        let (code, error) = failed(command);
        assert_eq!((code, &error["kind"]), (2, &"usage".into()), "{command:?}: {error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(says), "{command:?}: {message}");
        assert!(!message.contains('\n') && !message.contains("Usage:"), "{command:?}: {message}");
    }
    // Whoever writes it so wants an object.
    assert_eq!(error(&run(&["bench", "loader", TINY, "--json=1"]))["kind"], "usage");
    // What an option names was looked for and not found, or found and not wanted.
    let (code, error) = failed(&["init", "-o", &taken, "configs"]);
    assert_eq!((code, &error["kind"], &error["key"]), (1, &"config".into(), &"--output".into()));
    let (code, error) = failed(&["inspect", TINY, "--batch", "9", "--set", "exclude.batches=[[6,10]]"]);
    assert_eq!((code, &error["kind"], &error["key"]), (1, &"config".into(), &"--batch".into()), "{error}");
    // Keys that were set and are right are not blamed.
    let (code, error) = failed(&["bench", "loader", "configs/absent.toml", "--set", "seed=1"]);
    assert_eq!((code, &error["kind"]), (1, &"io".into()));
    // What is asked for is no failure, and what looks like the option is none.
    for help in [&["--help", "--json"][..], &["train", "--help", "--json"], &["--version", "--json"]] {
        let output = run(help);
        assert!(output.status.success() && !output.stdout.is_empty(), "{help:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).starts_with("{\"error\""), "{help:?}");
    }
    let output = run(&["generate", "--top-p", "2", "--", "run", "--json"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

#[test]
fn a_world_of_the_environment_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut digest = millstream(&["digest", &broken(directory.path()), "--set", "pipeline.lanes=16"]);
    let error = said(&digest.env("RANK", "1").env("WORLD_SIZE", "3").output().expect("it runs"));
    for part in ["set it to 18", "RANK and WORLD_SIZE", "pipeline.world = 1"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_failure_that_nobody_reads_is_still_a_failure() {
    let mut child = millstream(&["digest", "configs/absent.toml", "--json"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn validations_are_lines_between_the_steps() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = format!("train.out={}", directory.path().join("run").display());
    let steps = ["--set", "train.steps=20", "--set", "train.validate_every=10", "--set", "train.log_every=5"];
    let output =
        run(&[&["train", TINY, "--json", "--set", &out, "--set", "train.sample_tokens=0"][..], &steps]
            .concat());
    assert!(output.status.success(), "{}", said(&output));
    let printed = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds = lines.iter().map(|line| match (&line["loss"], &line["validation_tokens"]) {
        (_, tokens) if tokens.is_u64() => {
            assert!(line["validation_loss"].is_f64() && line["bits_per_byte"].is_f64(), "{line}");
            ("validation", line["step"].as_u64())
        }
        _ if line["meters"].is_object() => ("last", line["step"].as_u64()),
        _ => ("step", line["step"].as_u64()),
    });
    let step = |step: u64| ("step", Some(step));
    let validation = |step: u64| ("validation", Some(step));
    let expected =
        [step(5), step(10), validation(10), step(15), step(20), validation(20), ("last", Some(20))];
    assert_eq!(kinds.collect::<Vec<_>>(), expected, "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_text_are_told_too() {
    use std::os::unix::ffi::OsStrExt;

    let directory = tempfile::tempdir().expect("a directory");
    let name = std::ffi::OsStr::from_bytes(b"bad\xfe.txt");
    std::fs::write(directory.path().join(name), b"one line\n\xff\n").expect("a file");
    let config = directory.path().join("run.toml");
    let text = format!(
        "tokenizer.kind = \"bytes\"\nsource = [{{ paths = ['{}/*.txt'] }}]\n",
        directory.path().display()
    );
    std::fs::write(&config, text).expect("a config");
    let (code, object) = failed(&["digest", config.to_str().expect("text")]);
    assert_eq!((code, &object["kind"]), (1, &"document".into()));
    assert!(object["path"].as_str().is_some_and(|path| path.ends_with("/bad\u{fffd}.txt")), "{object}");
    let absent = directory.path().join(std::ffi::OsStr::from_bytes(b"\xff.toml"));
    let object = error(&millstream(&["check", "--json"]).arg(absent).output().expect("it runs"));
    assert!(object["path"].as_str().is_some_and(|path| path.ends_with("/\u{fffd}.toml")), "{object}");
}

#[cfg(unix)]
#[test]
fn a_config_without_end_is_not_read_to_its_end() {
    let (code, error) = failed(&["check", "/dev/zero"]);
    assert_eq!((code, &error["kind"]), (1, &"io".into()), "{error}");
    assert!(
        error["message"].as_str().is_some_and(|message| message.contains("more than the limit")),
        "{error}"
    );
}
