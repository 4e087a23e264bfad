//! Any number of devices of one process makes the run of one. Those of the CPU are enough to see it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Project, assert_same, said};
use crate::support::wait::wait_for;

#[test]
fn devices_make_the_run_of_one_and_repeat_it_bit_for_bit() {
    let project = Project::new();
    let alone = project.train(1, "alone", &[]);
    for devices in ["train.devices=[0, 1]", "train.devices=[3, 1, 0, 2]"] {
        let run = project.train(1, &format!("run of {devices}"), &[devices]);
        assert_same(&run, &alone, 24);
        assert_eq!(run.curve("sum_share").len(), 24);
        let again = project.train(1, &format!("again {devices}"), &[devices]);
        assert_eq!(again.content(24), run.content(24), "{devices}");
    }
    assert!(alone.curve("sum_share").is_empty());
}

#[test]
fn with_muon_devices_make_the_run_of_one_and_go_on_bit_for_bit() {
    let project = Project::new();
    let alone = ["train.optimizer=muon", "train.schedule=constant"];
    let both = [&alone[..], &["train.devices=[0, 1]"]].concat();
    let whole = project.train(1, "whole", &both);
    assert_same(&whole, &project.train(1, "alone", &alone), 24);
    project.train(1, "halves", &[&both[..], &["train.steps=12"]].concat());
    let halves = project.resume(1, "halves", &["train.steps=24"]);
    assert_eq!(halves.content(24), whole.content(24));
}

#[test]
fn a_step_of_several_batches_and_a_learned_tokenizer_are_the_same() {
    let project = Project::new();
    let by_tokens = ["pipeline.batch_tokens=64", "train.accumulate=4", "train.steps=6"];
    // With so much padding, a device has batches without targets.
    let padded = ["pipeline.epochs=1", "train.steps=100000", "source.0.paths=[\"corpus/a0.txt\"]"];
    let learned =
        ["tokenizer.kind=subwords", "tokenizer.train={vocab_size=300, sample=\"1MiB\"}", "train.steps=3"];
    for (number, settings) in [by_tokens, padded, learned].into_iter().enumerate() {
        let alone = project.train(1, &format!("alone{number}"), &settings);
        let settings = [&settings[..], &["train.devices=[0, 1]"]].concat();
        let run = project.train(1, &format!("run{number}"), &settings);
        let last = alone.curve("loss").last().expect("steps").0;
        assert_same(&run, &alone, last);
    }
}

#[test]
fn a_checkpoint_resumes_on_any_number_of_devices() {
    let project = Project::new();
    let whole = project.train(1, "whole", &["train.schedule=constant"]);
    let half = ["train.steps=12", "train.schedule=constant"];
    for (number, [first, then]) in
        [["[0, 1, 2, 3]", "[]"], ["[]", "[0, 1]"], ["[0, 1]", "[0, 1, 2, 3]"]].into_iter().enumerate()
    {
        let (first, then) = (format!("train.devices={first}"), format!("train.devices={then}"));
        let out = format!("run{number}");
        project.train(1, &out, &[&half[..], &[&first]].concat());
        let run = project.resume(1, &out, &["train.steps=24", &then]);
        assert_same(&run, &whole, 24);
    }
    // The run's config has all its devices, and so they go on without being named.
    project.train(1, "kept", &[&half[..], &["train.devices=[0, 1]"]].concat());
    let kept = project.resume(1, "kept", &["train.steps=24"]);
    assert_eq!(kept.curve("sum_share").len(), 24);
    let at_once = project.train(1, "at_once", &["train.schedule=constant", "train.devices=[0, 1]"]);
    assert_eq!(kept.content(24), at_once.content(24));
}

#[test]
fn a_run_that_is_asked_to_stop_saves_and_goes_on() {
    let project = Project::new();
    let long = ["train", "run.toml", "--set", "train.steps=1000000", "--set", "train.devices=[0, 1]"];
    let running = project.start(1, &long);
    wait_for("some steps", || (project.run("run").curve("loss").len() > 6).then_some(()));
    kill(Pid::from_raw(running.id() as i32), Signal::SIGTERM).expect("it is there");
    let (code, _, error) = running.end();
    assert_eq!(code, Some(130), "{error}");
    assert_eq!(error.matches("saved run").count(), 1, "{error}");
    let last = project.run("run").curve("loss").last().expect("steps").0;
    let steps = format!("train.steps={}", last + 5);
    let resumed = project.resume(1, "run", &[&steps]);
    assert_eq!(resumed.cursor(last + 5), project.train(1, "whole", &[&steps]).cursor(last + 5));
}

#[test]
fn what_is_wrong_on_one_device_ends_all_and_is_said_once() {
    let project = Project::new();
    project.spoil();
    for (number, devices) in ["[0, 1]", "[0, 1, 2, 3]"].into_iter().enumerate() {
        let (out, devices) = (format!("train.out=run{number}"), format!("train.devices={devices}"));
        let arguments =
            ["train", "run.toml", "--set", "train.steps=1000000", "--set", &out, "--set", &devices];
        let (code, _, error) = project.start(1, &arguments).end();
        assert_eq!(code, Some(1), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        assert_eq!(error.matches("corpus/a3.txt").count(), 1, "{error}");
    }
}

#[test]
fn what_fails_on_the_first_device_alone_ends_all() {
    let project = Project::new();
    let long = ["train", "run.toml", "--set", "train.steps=1000000", "--set", "train.devices=[0, 1, 2, 3]"];
    let running = project.start(1, &[&long[..], &["--set", "train.checkpoint_every=5"]].concat());
    wait_for("some steps", || (project.run("run").curve("loss").len() > 6).then_some(()));
    project.fails_on_rank_0_alone(running);
}

#[test]
fn devices_that_cannot_train_together_are_refused_before_anything_is_written() {
    let project = Project::new();
    let refused = |settings: &[&str], rank: Option<&str>| {
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> = ["train", "run.toml"].into_iter().chain(set).collect();
        let mut command = project.ranks(1, &arguments);
        if let Some(rank) = rank {
            command.env("RANK", rank).env("WORLD_SIZE", "2");
        }
        let output = command.output().expect("it runs");
        assert!(!output.status.success());
        assert!(!project.path("run").exists());
        said(&output)
    };
    let twice = refused(&["train.devices=[1, 0, 1]"], None);
    assert!(twice.contains("device 1 is named twice"), "{twice}");
    let uneven = refused(&["train.devices=[0, 1, 2]"], None);
    assert!(uneven.contains("must be a multiple of how many train.devices there are, 3, not 8"), "{uneven}");
    let small = refused(&["train.devices=[0, 1]", "pipeline.memory=64KiB"], None);
    assert!(small.contains("2 devices share it, so it must be 2 times as much"), "{small}");
    #[cfg(not(feature = "mpi"))]
    {
        let both = refused(&["train.devices=[0, 1]"], Some("1"));
        assert!(both.contains("this build of the trainer is one process"), "{both}");
    }
    let both = refused(&["train.devices=[0, 1]", "pipeline.rank=0", "pipeline.world=2"], None);
    assert!(both.contains("2 devices") || both.contains("one process"), "{both}");
}
