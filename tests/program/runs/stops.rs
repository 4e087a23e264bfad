//! Requests to stop a run.

use nix::sys::signal::Signal;

use super::{Place, Running};

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
