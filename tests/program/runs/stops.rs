//! Requests to stop a run.

use std::net::TcpListener;
#[cfg(target_os = "linux")]
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
#[cfg(target_os = "linux")]
use nix::{pty::openpty, sys::signal::kill, unistd::Pid};
use serde_json::Value;

use super::{Project, Running};
#[cfg(target_os = "linux")]
use crate::support::faults::inject;
#[cfg(target_os = "linux")]
use crate::support::skip::skipped;
use crate::support::wait::wait_for;

const LONG: [&str; 5] = ["train", "run.toml", "--json", "--set", "train.steps=1000000"];

/// The program under another program, which sets how signals are handled.
#[cfg(target_os = "linux")]
fn under(project: &Project, around: &[&str]) -> Running {
    let arguments = [&around[1..], &[env!("CARGO_BIN_EXE_millstream")], &LONG].concat();
    Running::new(project.in_here(around[0], &arguments))
}

#[cfg(target_os = "linux")]
#[test]
fn a_lost_terminal_saves_however_often_it_is_told() {
    let project = Project::new();
    // The tests themselves may ignore it.
    let mut run = under(&project, &["env", "--default-signal=HUP"]);
    let reached = run.step(3);
    for _ in 0..3 {
        run.send(Signal::SIGHUP);
    }
    let (code, said) = run.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("saved run/checkpoints/step-"), "{said}");
    let mut run = project.start(&["train", "--resume", "run"]);
    assert!(run.step(0) > reached);
    run.send(Signal::SIGTERM);
    assert_eq!(run.end().0, Some(130));
}

#[cfg(target_os = "linux")]
#[test]
fn under_nohup_a_lost_terminal_changes_nothing() {
    let project = Project::new();
    let mut run = under(&project, &["env", "--ignore-signal=HUP"]);
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
    let project = Project::new();
    let shell = format!(
        "exec '{}' train run.toml --set train.steps=1000000 --set train.checkpoint_every=0",
        env!("CARGO_BIN_EXE_millstream")
    );
    if let Err(error) = project.in_here("script", &["--version"]).output() {
        let name = "a_terminal_that_is_gone_is_no_reason_to_lose_the_run";
        return skipped(name, &format!("there is no `script` (util-linux): {error}"));
    }
    // The tests themselves may ignore SIGHUP.
    let script = ["--default-signal=HUP", "script", "--quiet", "--command", &shell, "/dev/null"];
    let mut terminal = project.in_here("env", &script);
    let terminal = terminal.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut terminal = terminal.expect("it starts");
    let run = project.path("run");
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

/// Waits until a run that nobody reads has filled its pipes or its terminal, and stands.
fn wait_until_it_stands(project: &Project) {
    let metrics = || std::fs::metadata(project.path("run/metrics.jsonl")).map_or(0, |file| file.len());
    let (mut seen, mut times) = (0, 0);
    wait_for("a run that stands", || {
        (seen, times) = if seen == metrics() { (seen, times + 1) } else { (metrics(), 0) };
        (seen > 0 && times == 100).then_some(())
    });
}

#[test]
fn a_run_that_nobody_reads_saves_and_ends() {
    // Its steps go to standard output, and without JSON to standard error.
    for arguments in [&LONG[..], &[&LONG[..2], &LONG[3..]].concat()] {
        for signal in [Signal::SIGTERM, Signal::SIGUSR1] {
            let project = Project::new();
            let mut command = project.program(arguments);
            command.args(["--set", "train.checkpoint_every=0"]);
            let mut run = Running::new(command);
            wait_until_it_stands(&project);
            run.send(signal);
            let code = wait_for("its end", || run.child.try_wait().expect("it can be asked"));
            assert_eq!(code.code(), Some(130), "{arguments:?}");
            let said = project.succeed(&["train", "--resume", "run", "--set", "train.steps=1"]);
            assert!(said.contains("resuming from run/checkpoints/step-"), "{said}");
        }
    }
}

/// A program that ends with the test.
#[cfg(target_os = "linux")]
struct Started(Child);

#[cfg(target_os = "linux")]
impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A terminal is ready as long as it has room for a byte, also for a line that does not fit.
#[cfg(target_os = "linux")]
#[test]
fn a_run_on_a_terminal_that_nobody_reads_saves_and_ends() {
    // Its steps go to standard output; without JSON to standard error, line by line or drawn over.
    let without_json = [&LONG[..2], &LONG[3..]].concat();
    let ways = [("dumb", &LONG[..]), ("dumb", &without_json[..]), ("xterm", &without_json[..])];
    for (kind, arguments) in ways {
        let project = Project::new();
        let terminal = openpty(None, None).expect("a terminal");
        let end = || Stdio::from(terminal.slave.try_clone().expect("its end"));
        let mut command = project.program(arguments);
        command.args(["--set", "train.checkpoint_every=0"]).env("TERM", kind);
        let child = command.stdin(Stdio::null()).stdout(end()).stderr(end()).spawn();
        let mut run = Started(child.expect("it starts"));
        wait_until_it_stands(&project);
        kill(Pid::from_raw(run.0.id() as i32), Signal::SIGTERM).expect("it is there");
        let code = wait_for("its end", || run.0.try_wait().expect("it can be asked"));
        assert_eq!(code.code(), Some(130), "{kind}: {arguments:?}");
        let said = project.succeed(&["train", "--resume", "run", "--set", "train.steps=1"]);
        assert!(said.contains("resuming from run/checkpoints/step-"), "{said}");
    }
}

#[test]
fn two_signals_at_once_are_one_request() {
    for apart in [0, 20] {
        let project = Project::new();
        let mut run = Running::new(project.program(&LONG));
        run.step(3);
        for _ in 0..2 {
            run.send(Signal::SIGTERM);
            std::thread::sleep(std::time::Duration::from_millis(apart));
        }
        let (code, said) = run.end();
        assert_eq!(code, Some(130), "{said}");
        assert!(said.contains("saved run/checkpoints/step-"), "{said}");
    }
}

/// The save waits for a disk that does not answer.
#[cfg(target_os = "linux")]
#[test]
fn whoever_insists_is_told_that_nothing_is_saved() {
    let project = Project::new();
    let mut command = project.program(&[&LONG[..], &["--set", "train.checkpoint_every=0"]].concat());
    inject(&mut command, &[("fsync", "checkpoints/", 0)]);
    let mut run = Running::new(command);
    run.step(3);
    let code = wait_for("its end", || {
        run.send(Signal::SIGTERM);
        run.child.try_wait().expect("it can be asked")
    });
    assert_eq!(code.code(), Some(1));
    let last = run.lines.by_ref().map(|line| line.expect("a line")).last().expect("the error");
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!((&last["error"]["kind"], &last["error"]["exit_code"]), (&"stopped".into(), &1.into()));
    let (_, said) = run.end();
    assert!(said.contains("what came after the last checkpoint is not saved"), "{said}");
    assert!(!said.contains("saved run/checkpoints"), "{said}");
}

/// As the file systems of FUSE answer.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_cannot_be_synced_is_no_failure() {
    let project = Project::new();
    let mut command = project.program(&["train", "run.toml"]);
    inject(&mut command, &[("fsync_directory", "run", 22)]);
    super::succeeded(&command.output().expect("it runs"));
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=21"]);
}

#[test]
fn what_waits_for_a_store_that_does_not_answer_can_be_stopped() {
    let project = Project::trained();
    let store = TcpListener::bind("127.0.0.1:0").expect("a port");
    let paths = format!("source.0.paths=[\"http://{}/x.txt\"]", store.local_addr().expect("it has one"));
    store.set_nonblocking(true).expect("it can be asked");
    let train = ["train", "run.toml", "--set", "train.out=other"];
    let resume = ["train", "--resume", "run", "--set", "train.steps=30"];
    for (command, expected) in [(&train[..], 1), (&resume, 1), (&["verify", "run.toml"], 130)] {
        let run = project.start(&[command, &["--set", &paths]].concat());
        let _silent = wait_for("a request to the store", || store.accept().ok());
        run.send(Signal::SIGTERM);
        let (code, said) = run.end();
        assert_eq!(code, Some(expected), "{command:?}: {said}");
        let is_told = said.contains("interrupted before the first step: nothing has changed");
        assert!(is_told || expected == 130, "{command:?}: {said}");
    }
    assert!(!project.path("other").join("checkpoints").exists());
}
