//! Event files, read back with TensorBoard's own Python package.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::*;
use crate::support::skip::skipped;

/// What TensorBoard reads, by tag: each value with its step.
#[derive(Debug, Deserialize)]
struct Events {
    scalars: BTreeMap<String, Vec<(u64, f64)>>,
    texts: BTreeMap<String, Vec<(u64, String)>>,
    /// Where sessions start.
    starts: Vec<u64>,
}

/// The Python that has TensorBoard's package, if the environment names one.
fn python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("TENSORBOARD_PYTHON").map(PathBuf::from);
    if python.is_none() {
        let how = "set TENSORBOARD_PYTHON to a Python with the package tensorboard";
        assert!(std::env::var_os("MILLSTREAM_REQUIRE_TENSORBOARD").is_none(), "{how}");
        skipped(test, how);
    }
    python
}

fn events(python: &Path, directory: &Path) -> Events {
    let script = crate::support::root().join("tests/program/runs/tensorboard/events.py");
    let output = Command::new(python).arg(script).arg(directory).output().expect("Python runs");
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

impl Events {
    fn steps(&self, tag: &str) -> Vec<u64> {
        self.scalars[tag].iter().map(|(step, _)| *step).collect()
    }
}

impl Project {
    /// Asserts that the scalars of a tag are those of the field in the run's metrics, and returns their steps.
    fn assert_same(&self, events: &Events, tag: &str, value: impl Fn(&Value) -> &Value) -> Vec<u64> {
        let lines = self.metrics("run");
        let number = |line: &Value| Some((line["step"].as_u64()?, value(line).as_f64()?));
        let expected: Vec<(u64, f64)> = lines.iter().filter_map(number).collect();
        let read = events.scalars.get(tag).unwrap_or_else(|| panic!("no {tag}"));
        assert_eq!(events.steps(tag), expected.iter().map(|(step, _)| *step).collect::<Vec<_>>(), "{tag}");
        for ((_, read), (_, expected)) in read.iter().zip(&expected) {
            assert!((read - expected).abs() <= 1e-6 * expected.abs(), "{tag}: {read} and {expected}");
        }
        events.steps(tag)
    }
}

#[test]
fn tensorboard_shows_what_the_metrics_have_and_each_step_once() {
    let Some(python) = python("tensorboard_shows_what_the_metrics_have_and_each_step_once") else { return };
    let project = Project::new();
    let on = [
        "--set", "train.tensorboard=true", "--set", "train.sample_tokens=4", "--set", "train.prompt='```<b>'",
    ];
    project.succeed(&[&["train", "run.toml"], &on[..]].concat());
    let read = || events(&python, &project.path("run/tensorboard"));
    let first = read();
    assert_eq!(project.assert_same(&first, "loss", |line| &line["loss"]), (1..=20).collect::<Vec<_>>());
    project.assert_same(&first, "learning_rate", |line| &line["lr"]);
    project.assert_same(&first, "gradient_norm", |line| &line["grad_norm"]);
    project.assert_same(&first, "tokens_per_second", |line| &line["tokens_per_second"]);
    project.assert_same(&first, "wait_share", |line| &line["wait_share"]);
    project.assert_same(&first, "memory", |line| &line["memory"]);
    project.assert_same(&first, "stages/tokenize/busy", |line| &line["stages"]["tokenize"]["busy"]);
    project.assert_same(&first, "stages/prefetch/queue", |line| &line["stages"]["prefetch"]["queue"]);
    assert_eq!(project.assert_same(&first, "validation/loss", |line| &line["validation_loss"]), [10, 20]);
    project.assert_same(&first, "validation/bits_per_byte", |line| &line["bits_per_byte"]);
    let [(1, config)] = &first.texts["config"][..] else { panic!("{:?}", first.texts) };
    assert!(config.contains("    [train]\n    out = \"run\"\n"), "{config}");
    let [(20, sample)] = &first.texts["sample"][..] else { panic!("{:?}", first.texts) };
    assert!(sample.starts_with("    ```<b>"), "{sample}");

    // A run that is finished logs no step again, and its sample is the same.
    project.succeed(&["train", "--resume", "run"]);
    let again = read();
    assert_eq!(again.steps("loss"), first.steps("loss"));
    assert_eq!(again.texts["sample"], first.texts["sample"]);

    // Back to an earlier step, and logging less often: nothing is shown of the steps that were dropped.
    let back = ["--at", "10", "--set", "train.log_every=4", "--set", "train.steps=18"];
    project.succeed(&[&["train", "--resume", "run"], &back[..]].concat());
    let back = read();
    let expected: Vec<u64> = (1..=10).chain([12, 16, 18]).collect();
    assert_eq!(project.assert_same(&back, "loss", |line| &line["loss"]), expected);
    assert_eq!(project.assert_same(&back, "validation/loss", |line| &line["validation_loss"]), [10, 18]);
    let steps = |tag: &str| back.texts[tag].iter().map(|(step, _)| *step).collect::<Vec<_>>();
    assert_eq!((steps("config"), steps("sample")), (vec![1, 11], vec![18]));
    assert_eq!(back.starts, [1]);

    // Without it, the older file still shows only what counts.
    let off = ["--at", "10", "--set", "train.tensorboard=false", "--set", "train.steps=12"];
    project.succeed(&[&["train", "--resume", "run"], &off[..]].concat());
    assert_eq!(read().steps("loss"), (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_killed_run_is_read_up_to_its_last_whole_step_and_goes_on_exactly() {
    let Some(python) = python("a_killed_run_is_read_up_to_its_last_whole_step_and_goes_on_exactly") else {
        return;
    };
    let project = Project::new();
    let on = ["--set", "train.tensorboard=true", "--set", "train.steps=100000"];
    let mut running = project.start(&[&["train", "run.toml"], &on[..]].concat());
    running.step(15);
    running.send(Signal::SIGKILL);
    running.end();
    let directory = project.path("run/tensorboard");
    let entry =
        std::fs::read_dir(&directory).expect("a directory").next().expect("a file").expect("an entry");
    // As if the kill came while the last record was written.
    let whole = std::fs::read(entry.path()).expect("a file");
    std::fs::write(entry.path(), &whole[..whole.len() - 3]).expect("written");
    let steps = events(&python, &directory).steps("loss");
    assert_eq!(steps, (1..=steps.len() as u64).collect::<Vec<_>>());
    assert!(steps.len() >= 14, "{steps:?}");

    let last = Checkpoint::latest(&project.path("run/checkpoints")).expect("readable").expect("a checkpoint");
    let end = last.state().step + 7;
    project.succeed(&["train", "--resume", "run", "--set", &format!("train.steps={end}")]);
    let read = events(&python, &directory);
    assert_eq!(project.assert_same(&read, "loss", |line| &line["loss"]), (1..=end).collect::<Vec<_>>());
}
