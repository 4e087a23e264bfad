//! However one rank ends, none of the others waits for it.

use nix::sys::signal::{Signal, kill};

use super::{Project, said};
use crate::support::faults::inject;
use crate::support::wait::wait_for;

/// A run that goes on until something ends it.
const LONG: [&str; 6] =
    ["train", "run.toml", "--set", "train.steps=1000000", "--set", "train.checkpoint_every=5"];

/// Waits for so many steps of the run.
fn steps(project: &Project, least: usize) {
    wait_for("some steps", || (project.run("run").curve("loss").len() >= least).then_some(()));
}

#[test]
fn a_killed_rank_ends_all_and_the_run_goes_on_with_other_ranks() {
    let project = Project::new();
    for (ranks, killed) in [(4, 3), (2, 0)] {
        let running = match project.path("run").exists() {
            true => project.start(ranks, &["train", "--resume", "run"]),
            false => project.start(ranks, &LONG),
        };
        let pids = running.pids(ranks);
        let before = project.run("run").curve("loss").len();
        steps(&project, before + 20);
        kill(pids[killed], Signal::SIGKILL).expect("it is there");
        let (code, _, error) = running.end();
        assert!(code.is_some_and(|code| code != 0), "{code:?}");
        assert!(error.contains("signal 9"), "{error}");
        for pid in pids {
            wait_for("all ranks are gone", || {
                (!std::path::Path::new(&format!("/proc/{pid}/exe")).exists()).then_some(())
            });
        }
    }
    let last = project.run("run").curve("loss").len() as u64 + 20;
    let run = project.resume(1, "run", &[&format!("train.steps={last}")]);
    let logged: Vec<u64> = run.curve("loss").iter().map(|(step, _)| *step).collect();
    assert_eq!(logged, (1..=last).collect::<Vec<_>>());
    let whole = project.train(1, "whole", &[&format!("train.steps={last}")]);
    assert_eq!(run.cursor(last), whole.cursor(last));
}

#[test]
fn one_rank_that_is_asked_to_stop_stops_all_after_the_same_step() {
    let project = Project::new();
    for asked in [1, 0] {
        let out = format!("train.out=run{asked}");
        let running = project.start(2, &[&LONG[..], &["--set", &out]].concat());
        let pids = running.pids(2);
        let run = || project.run(&format!("run{asked}"));
        wait_for("some steps", || (run().curve("loss").len() > 6).then_some(()));
        kill(pids[asked], Signal::SIGTERM).expect("it is there");
        let (code, _, error) = running.end();
        assert_eq!(code, Some(130), "{error}");
        assert_eq!(error.matches("saved run").count(), 1, "{error}");
        assert_eq!(error.matches("rank 1 stops, and so all ranks do").count(), asked, "{error}");
        let last = run().curve("loss").last().expect("steps").0;
        // What follows is what would have followed.
        let steps = format!("train.steps={}", last + 5);
        let constant = "train.schedule=constant";
        let resumed = project.resume(2, &format!("run{asked}"), &[&steps, constant]);
        assert_eq!(
            resumed.cursor(last + 5),
            project.train(1, &format!("whole{asked}"), &[&steps]).cursor(last + 5)
        );
    }
}

#[test]
fn what_is_wrong_on_one_rank_is_said_once() {
    let project = Project::new();
    project.spoil();
    for ranks in [2, 4] {
        let out = format!("train.out=run{ranks}");
        let (code, _, error) = project.start(ranks, &[&LONG[..], &["--set", &out]].concat()).end();
        assert_eq!(code, Some(1), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        assert_eq!(error.matches("corpus/a3.txt").count(), 1, "{error}");
    }
}

#[test]
fn what_is_wrong_on_all_ranks_is_said_once() {
    let project = Project::new();
    let wrong: [(&[&str], &str); 4] = [
        (&["train.lr=-1"], "train.lr"),
        (&["pipeline.lanes=5"], "`pipeline.lanes` must be a multiple of the world's size, 2"),
        (&["source.0.paths=[\"corpus/none.txt\"]"], "corpus/none.txt"),
        (&["train.lr=1e30", "train.min_lr=0", "train.clip=0"], "the run has diverged"),
    ];
    for (settings, wanted) in wrong {
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> = ["train", "run.toml"].into_iter().chain(set).collect();
        let (code, _, error) = project.start(2, &arguments).end();
        assert!(code.is_some_and(|code| code == 1 || code == 2), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_disk_that_fails_on_rank_0_ends_all() {
    let project = Project::new();
    let running = project.start(2, &LONG);
    steps(&project, 7);
    // A file stands where the next checkpoint wants its directory.
    let checkpoints = project.path("run/checkpoints");
    wait_for("the directory is moved away", || std::fs::rename(&checkpoints, project.path("run/away")).ok());
    wait_for("a file stands there", || {
        let _ = std::fs::remove_dir_all(&checkpoints);
        std::fs::write(&checkpoints, "").ok()
    });
    let (code, _, error) = running.end();
    assert_eq!(code, Some(1), "{error}");
    assert_eq!(error.matches("error: ").count(), 1, "{error}");
    assert!(error.contains("checkpoints"), "{error}");
}

#[test]
fn what_fails_on_rank_0_alone_ends_all() {
    let project = Project::new();
    let running = project.start(2, &LONG);
    steps(&project, 7);
    project.fails_on_rank_0_alone(running);
}

#[test]
fn a_library_that_allows_no_threads_is_refused() {
    let project = Project::new();
    let mut command = project.ranks(2, &LONG);
    inject(&mut command, &[]);
    let (code, _, error) = project.spawn(command.env("FAULTS_MPI_THREADS", "0")).end();
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("this MPI library allows no threads in a process"), "{error}");
}

#[test]
fn ranks_without_mpi_are_told_how_to_start_them() {
    let project = Project::new();
    let output = project.ranks(1, &["train", "run.toml"]).env("RANK", "1").env("WORLD_SIZE", "2").output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("this is rank 1 of 2, and MPI knows of one process"), "{}", said(&output));
    assert!(!project.path("run").exists());
    // One process is one process, whoever starts it.
    let alone = project
        .ranks(1, &["train", "run.toml", "--set", "train.steps=2"])
        .env("RANK", "0")
        .env("WORLD_SIZE", "1")
        .output();
    assert!(alone.expect("it runs").status.success());
}
