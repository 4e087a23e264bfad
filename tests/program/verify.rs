//! `millstream verify` as people and scripts run it.

use std::process::Output;

use serde_json::Value;

use crate::program::{TINY, json, run};
use crate::support::examples::example;

const LANES: [&str; 2] = ["--set", "pipeline.lanes=4"];

fn verify(arguments: &[&str]) -> Output {
    run(&[&["verify"], arguments].concat())
}

fn report(arguments: &[&str]) -> Value {
    json(&[&["verify"], arguments].concat())
}

#[test]
fn the_report_has_what_scripts_rely_on() {
    let report =
        report(&[&[TINY, "-n", "40", "--points", "3", "--world", "1,4", "--seed", "5"][..], &LANES].concat());
    assert_eq!(report["batches"], 40);
    assert_eq!(report["resume_points"], 3);
    assert_eq!(report["workers"], serde_json::json!([1, 2, 8]));
    assert_eq!(report["depths"], serde_json::json!([1, 16]));
    assert_eq!(report["worlds"], serde_json::json!([1, 4]));
    assert_eq!((&report["mismatches"], &report["seed"]), (&Value::from(0), &Value::from(5)));
    assert_eq!(report["difference"], Value::Null);
    assert!(
        ["order", "resume", "world"].iter().all(|law| report["seconds"][law].as_f64() > Some(0.0)),
        "{report}"
    );
}

#[test]
fn a_loader_with_a_stage_of_its_own_is_proved_as_it_is() {
    let program = example("deduplicate").display().to_string();
    let own = ["--workers", "2", "--depth", "4", "--program", &program];
    // Some epochs of the crate's own files.
    let report = report(&[&[TINY, "-n", "2000", "--points", "6"][..], &own, &LANES].concat());
    assert_eq!(
        (&report["mismatches"], &report["resume_points"]),
        (&Value::from(0), &Value::from(6)),
        "{report}"
    );
    assert_eq!(report["worlds"], serde_json::json!([1, 2, 4]));
}

#[test]
fn mistakes_are_named() {
    let failure = |arguments: &[&str]| {
        let output = verify(arguments);
        assert!(output.stdout.is_empty());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = failure(&[TINY, "--world", "3"]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("error: --world: 3 ranks cannot share 16 lanes"), "{error}");
    let (code, error) = failure(&[TINY, "-n", "5", "--patience", "0"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no batch came for 0ns") && error.contains("raise the patience"), "{error}");
    let (code, error) = failure(&[TINY, "-n", "5", "--program", "true"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("true") && error.contains("millstream::verify::serve"), "{error}");
    let (code, error) = failure(&[TINY, "-n", "5", "--program", "false"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("the reference: the child failed"), "{error}");
    let (code, error) = failure(&[TINY, "--workers", "0,2"]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("error: `--workers` must be at least 1, not 0"), "{error}");
    for (line, problem) in [("true 'of it", "a quote is not closed: true 'of it"), (" ", "it is empty")] {
        let (code, error) = failure(&[TINY, "--program", line]);
        assert_eq!(code, Some(2));
        assert!(error.starts_with("error: --program: ") && error.contains(problem), "{error}");
    }
}

#[test]
fn without_a_config_the_program_is_any_loader() {
    let failure = |arguments: &[&str]| {
        let output = verify(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = failure(&["--program", "true and more"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("true made no batch; it must log the batches"), "{error}");
    let (code, error) = failure(&["--program", "true", "--depth", "1"]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("error: --depth: only a Millstream loader has a depth"), "{error}");
    let (code, error) = failure(&["--program", "true", "--set", "seed=1"]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("error: --set: it overrides a key of a config"), "{error}");
    let (code, error) = failure(&["--points", "1"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("CONFIG"), "{error}");
}

#[cfg(unix)]
#[test]
fn an_interruption_says_what_was_compared() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use crate::program::millstream;

    let mut child = millstream(&["verify", TINY, "-n", "1000000"]);
    let mut child = child
        .env("RUST_LOG", "info")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = said.lines().map(|line| line.expect("text"));
    assert!(said.by_ref().any(|line| line.contains("the reference")), "it begins");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it is there");
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    assert!(
        rest.iter().any(|line| line == "interrupted; comparisons done: 0; no difference so far"),
        "{rest:?}"
    );
}

#[cfg(unix)]
#[test]
fn a_program_is_a_file_or_a_command_line() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    // It logs three batches of one row, whatever its orders are.
    let script = r#"#!/bin/sh
log=$(sed 's/.*"log":"\([^"]*\)".*/\1/' "$MILLSTREAM_VERIFY_ORDERS")
for batch in 0 1 2; do
    echo "{\"batch\":$batch,\"rows\":[[\"$batch\",\"row $batch of $1\"]],\"state\":\"\"}" >> "$log"
done
"#;
    let file = directory.path().join("my loader.sh");
    std::fs::write(&file, script).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("it can be run");
    let file = file.display().to_string();
    for program in [file.clone(), format!("'{file}' 'two words'"), format!("sh '{file}' x")] {
        let report = report(&["--program", &program, "--points", "0"]);
        assert_eq!(
            (&report["batches"], &report["mismatches"]),
            (&Value::from(3), &Value::from(0)),
            "{report}"
        );
        assert_eq!(report["workers"], serde_json::json!([0, 1, 2]));
    }
}
