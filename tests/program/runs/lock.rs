//! Two processes in one run's directory.

use nix::sys::signal::Signal;

use super::Project;

#[test]
fn one_process_at_a_time_trains_in_a_directory() {
    let project = Project::new();
    let long = ["train", "run.toml", "--set", "train.steps=1000000", "--set", "train.keep=1"];
    let mut first = project.start(&[&long[..], &["--set", "train.checkpoint_every=1"]].concat());
    first.step(3);
    let refused = format!("error: run: another process (pid {}) trains there; ", first.pid());
    let checkpoints = || std::fs::read_dir(project.path("run/checkpoints")).expect("checkpoints").count();
    assert!(checkpoints() > 0);
    assert!(project.fail(&long).starts_with(&refused));
    let said = project.fail(&["train", "--resume", "run"]);
    assert!(said.starts_with(&refused), "{said}");
    // Others may read, while checkpoints come and go.
    for _ in 0..3 {
        project.succeed(&["generate", "run", "file", "--tokens", "2"]);
    }
    // The lock ends with its process, however that ends.
    first.send(Signal::SIGKILL);
    first.end();
    let mut second = project.start(&["train", "--resume", "run"]);
    second.step(3);
    second.send(Signal::SIGTERM);
    assert_eq!(second.end().0, Some(130));
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_for_one_process_says_what_several_need() {
    let project = Project::new();
    let mut rank = project.program(&["train", "run.toml"]);
    let output = rank.env("RANK", "1").env("WORLD_SIZE", "2").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("this is rank 1 of 2") && said.contains("--features mpi"), "{said}");
    assert!(!project.path("run").exists());
}
