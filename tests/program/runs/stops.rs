//! Requests to stop a run.

#[cfg(target_os = "linux")]
use std::process::Stdio;

use nix::sys::signal::Signal;

use super::{Place, Running};
#[cfg(target_os = "linux")]
use crate::support::{skip::skipped, wait::wait_for};

const LONG: [&str; 5] = ["train", "run.toml", "--json", "--set", "train.steps=1000000"];

/// The program under another program, which sets how signals are handled.
#[cfg(target_os = "linux")]
fn under(place: &Place, around: &[&str]) -> Running {
    let arguments = [&around[1..], &[env!("CARGO_BIN_EXE_millstream")], &LONG].concat();
    Running::new(place.in_here(around[0], &arguments))
}

#[cfg(target_os = "linux")]
#[test]
fn a_lost_terminal_saves_however_often_it_is_told() {
    let place = Place::new();
    // The tests themselves may ignore it.
    let mut run = under(&place, &["env", "--default-signal=HUP"]);
    let reached = run.step(3);
    for _ in 0..3 {
        run.send(Signal::SIGHUP);
    }
    let (code, said) = run.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("saved run/checkpoints/step-"), "{said}");
    let mut run = place.start(&["train", "--resume", "run"]);
    assert!(run.step(0) > reached);
    run.send(Signal::SIGTERM);
    assert_eq!(run.end().0, Some(130));
}

#[cfg(target_os = "linux")]
#[test]
fn under_nohup_a_lost_terminal_changes_nothing() {
    let place = Place::new();
    let mut run = under(&place, &["env", "--ignore-signal=HUP"]);
    let reached = run.step(3);
    run.send(Signal::SIGHUP);
    run.step(reached + 20);
    run.send(Signal::SIGTERM);
    let (code, said) = run.end();
    assert_eq!(code, Some(130), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_is_gone_is_no_reason_to_lose_the_run() {
    let place = Place::new();
    let shell = format!(
        "exec '{}' train run.toml --set train.steps=1000000 --set train.checkpoint_every=0",
        env!("CARGO_BIN_EXE_millstream")
    );
    let mut terminal = place.in_here("script", &["--quiet", "--command", &shell, "/dev/null"]);
    let terminal = terminal.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut terminal = match terminal {
        Ok(terminal) => terminal,
        Err(error) => {
            let name = "a_terminal_that_is_gone_is_no_reason_to_lose_the_run";
            return skipped(name, &format!("there is no `script` (util-linux): {error}"));
        }
    };
    let run = place.path("run");
    let steps = || std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default().lines().count();
    wait_for("some steps", || (steps() > 2).then_some(()));
    // The terminal closes, without a word to its programs but what the system says.
    terminal.kill().expect("it is there");
    terminal.wait().expect("it ends");
    let has_digests =
        |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|e| e.path().join("blake3.txt").exists());
    wait_for("a checkpoint", || {
        let mut checkpoints = std::fs::read_dir(run.join("checkpoints")).ok()?;
        checkpoints.any(has_digests).then_some(())
    });
}
