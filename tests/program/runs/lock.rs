//! Two processes in one run's directory.

use nix::sys::signal::Signal;

use super::Place;

#[test]
fn one_process_at_a_time_trains_in_a_directory() {
    let place = Place::new();
    let long = ["train", "run.toml", "--set", "train.steps=1000000", "--set", "train.keep=1"];
    let mut first = place.start(&[&long[..], &["--set", "train.checkpoint_every=1"]].concat());
    first.step(3);
    let refused = format!("error: run: another process (pid {}) trains there; ", first.pid());
    let checkpoints = || std::fs::read_dir(place.path("run/checkpoints")).expect("checkpoints").count();
    assert!(checkpoints() > 0);
    assert!(place.fail(&long).starts_with(&refused));
    let said = place.fail(&["train", "--resume", "run"]);
    assert!(said.starts_with(&refused), "{said}");
    // Others may read, while checkpoints come and go.
    for _ in 0..3 {
        place.succeed(&["generate", "run", "file", "--tokens", "2"]);
    }
    // The lock ends with its process, however that ends.
    first.send(Signal::SIGKILL);
    first.end();
    let mut second = place.start(&["train", "--resume", "run"]);
    second.step(3);
    second.send(Signal::SIGTERM);
    assert_eq!(second.end().0, Some(130));
}
