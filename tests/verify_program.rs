//! `millstream verify` as people and scripts run it.

#![cfg(feature = "cli")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const TINY: &str = "configs/tiny.toml";
const LANES: [&str; 2] = ["--set", "pipeline.lanes=4"];

fn verify(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.arg("verify").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env("RUST_LOG", "warn");
    command.output().expect("it runs")
}

fn report(arguments: &[&str]) -> Value {
    let output = verify(&[arguments, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// Cargo builds the examples beside the tests.
fn example(name: &str) -> String {
    let mut path: PathBuf = std::env::current_exe().expect("this test's path");
    path.pop();
    path.pop();
    path.extend(["examples", name]);
    path.into_os_string().into_string().expect("a name")
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
    let program = example("deduplicate");
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
    assert_eq!(code, Some(1));
    assert!(error.starts_with("error: world: 3 ranks cannot share 16 lanes"), "{error}");
    let (code, error) = failure(&[TINY, "-n", "5", "--patience", "0"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no batch came for 0ns") && error.contains("raise --patience"), "{error}");
    let (code, error) = failure(&[TINY, "-n", "5", "--program", "true"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("true") && error.contains("millstream::verify::serve"), "{error}");
    let (code, error) = failure(&[TINY, "-n", "5", "--program", "false"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("the reference: the child failed"), "{error}");
}
