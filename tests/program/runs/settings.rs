//! Settings that are given at a resume, and results that are a run's own.

use nix::sys::signal::Signal;

use super::{Project, after, told};

#[test]
fn settings_of_a_resume_stay_and_the_hint_goes_on_with_them() {
    let project = Project::trained();
    let more = ["--set", "train.steps=1000000", "--set", "train.keep=1000000"];
    let mut running = project.start(&[&["train", "--resume", "run"][..], &more].concat());
    running.step(25);
    running.send(Signal::SIGINT);
    let (code, said) = running.end();
    assert_eq!(code, Some(130), "{said}");
    let hint = told(&said);
    let reached = project.losses("run").last().expect("steps").0;

    // What is printed goes on.
    let mut shell = project.in_here("bash", &["-c", &format!("exec {hint} --json")]);
    shell.env("RUST_LOG", "warn");
    let mut running = super::Running::new(shell);
    assert_eq!(running.step(0), reached + 1);
    running.send(Signal::SIGINT);
    let (code, said) = running.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("with train.steps=1000000, set at step 20"), "{said}");

    // A later resume changes it again, and behind its step it does not hold.
    let said = project.succeed(&["train", "--resume", "run", "--at", "20", "--set", "train.steps=30"]);
    assert!(said.contains("with train.keep=1000000, set at step 20"), "{said}");
    assert!(!said.contains("with train.steps"), "what is changed now holds no longer: {said}");
    assert_eq!(project.losses("run").len(), 30);
    project.succeed(&["train", "--resume", "run", "--at", "20"]);
    assert_eq!(project.losses("run").len(), 30);
}

#[test]
fn going_back_behind_a_setting_drops_it() {
    let project = Project::trained();
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=30", "--set", "train.keep=9"]);
    let settings = std::fs::read_to_string(project.path("run/settings.jsonl")).expect("settings");
    assert_eq!(settings, "{\"step\":20,\"batch\":20,\"set\":[\"train.keep=9\",\"train.steps=30\"]}\n");
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=40"]);
    let said = project.succeed(&["train", "--resume", "run", "--at", "20"]);
    assert!(said.contains("with train.keep=9, set at step 20"), "{said}");
    assert_eq!(project.losses("run").len(), 30, "the settings of step 30 are of another future");
    let settings = std::fs::read_to_string(project.path("run/settings.jsonl")).expect("settings");
    assert_eq!(settings.lines().count(), 1);
    // Another config is kept too.
    let config = std::fs::read_to_string(project.path("run.toml")).expect("a config");
    std::fs::write(project.path("other.toml"), config.replace("steps = 20", "steps = 35")).expect("written");
    project.succeed(&["train", "other.toml", "--resume", "run"]);
    assert_eq!(project.losses("run").len(), 35);
    let said = project.succeed(&["train", "--resume", "run"]);
    assert!(said.contains("the run is finished: it has done 35 of 35 steps"), "{said}");
}

#[test]
fn a_damaged_setting_is_named() {
    let project = Project::trained();
    std::fs::write(project.path("run/settings.jsonl"), "{\"step\":1,\"batch\":1}\n").expect("written");
    let said = project.fail(&["train", "--resume", "run"]);
    assert!(
        said.contains("settings.jsonl: line 1 is not one of a run's settings") && said.contains("`set`"),
        "{said}"
    );
}

#[test]
fn what_is_written_into_the_runs_own_config_is_told_and_noted() {
    let project = Project::trained();
    let path = project.path("run/config.toml");
    let config = std::fs::read_to_string(&path).expect("a config");
    assert!(config.contains("\nsteps = 20\n"), "{config}");
    std::fs::write(&path, config.replace("\nsteps = 20\n", "\nsteps = 25\n")).expect("written");
    let said = project.succeed(&["train", "--resume", "run", "--set", "train.keep=9"]);
    assert!(said.contains("with train.steps=25, which was written into the run's config.toml"), "{said}");
    assert_eq!(project.losses("run").len(), 25);
    let settings = std::fs::read_to_string(project.path("run/settings.jsonl")).expect("settings");
    assert_eq!(settings, "{\"step\":20,\"batch\":20,\"set\":[\"train.keep=9\",\"train.steps=25\"]}\n");
    // It is told once.
    let said = project.succeed(&["train", "--resume", "run", "--set", "train.steps=26"]);
    assert!(!said.contains("written into"), "{said}");
}

#[test]
fn an_edit_of_the_runs_own_config_holds_from_its_resume_on() {
    let project = Project::trained();
    let edit = |from: &str, to: &str| {
        let path = project.path("run/config.toml");
        let config = std::fs::read_to_string(&path).expect("a config");
        assert!(config.contains(from), "the file has what the run has now: {config}");
        std::fs::write(&path, config.replace(from, to)).expect("written");
    };
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=22", "--set", "train.keep=8"]);
    // It wins over what was set before, and a setting over it.
    edit("\nsteps = 22\n", "\nsteps = 24\n");
    edit("\nkeep = 8\n", "\nkeep = 7\n");
    let said = project.succeed(&["train", "--resume", "run", "--set", "train.keep=9"]);
    assert!(
        said.contains("with train.steps=24, which was written") && !said.contains("train.keep="),
        "{said}"
    );
    assert_eq!(project.losses("run").len(), 24);
    // A step before it has the settings of then.
    let said = project.succeed(&["train", "--resume", "run", "--at", "20"]);
    assert!(said.contains("with train.keep=8, set at step 20") && !said.contains("written"), "{said}");
    assert_eq!(project.losses("run").len(), 22);
    edit("\nkeep = 8\n", "\nkeep = 8\nno_such_key = 1\n");
    let said = project.fail(&["train", "--resume", "run"]);
    assert!(said.contains("run/config.toml") && said.contains("no_such_key"), "{said}");
}

#[test]
fn a_run_goes_on_in_its_own_directory() {
    let project = Project::trained();
    let why =
        "--set train.out=other: train.out: the run goes on in its own directory, run; leave the setting out";
    for command in [&["train", "--resume", "run"][..], &["train", "run.toml", "--resume", "run"]] {
        let said = project.fail(&[command, &["--set", "train.out=other"]].concat());
        assert!(said.contains(why), "{said}");
    }
    assert!(!project.path("other").exists());
    project.succeed(&["train", "--resume", "run", "--set", "train.out=run", "--set", "train.steps=21"]);
    assert_eq!(project.losses("run").len(), 21);
}

#[test]
fn a_job_that_is_started_again_goes_on_with_its_run() {
    let project = Project::new();
    let job = |steps: &str| project.succeed(&["train", "run.toml", "--auto-resume", "--set", steps]);
    let said = job("train.steps=10");
    assert!(!said.contains("resuming"), "{said}");
    let said = job("train.steps=20");
    assert!(said.contains("resuming from run/checkpoints/step-00000010"), "{said}");
    assert_eq!(project.losses("run").len(), 20);
    assert!(job("train.steps=20").contains("the run is finished"));
}

#[test]
fn a_run_keeps_its_optimizer() {
    let project = Project::trained();
    let said = project
        .fail(&["train", "--resume", "run", "--set", "train.optimizer=muon", "--set", "train.steps=30"]);
    assert!(
        said.contains("`train.optimizer` was \"adamw\" and is now \"muon\"") && !said.contains("cursor"),
        "{said}"
    );
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=30"]);
    assert_eq!(project.losses("run").len(), 30);
}

#[test]
fn a_finished_run_says_so_and_how_to_go_on() {
    let project = Project::trained();
    let said = project.succeed(&["train", "--resume", "run"]);
    assert!(said.contains("the run is finished: it has done 20 of 20 steps; raise train.steps"), "{said}");
    assert!(told(&said).ends_with(" train --resume run --set 'train.steps=40'"), "{said}");
    project.paste(told(&said));
    assert_eq!(project.losses("run").len(), 40);
}

#[test]
fn the_result_is_of_the_last_step() {
    let project = Project::new();
    let result = |arguments: &[&str]| {
        let output = project.program(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", super::said(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(result(&["train", "run.toml", "--set", "train.steps=15"]).contains("validation loss"));
    // The last validation is of step 15, and none follows.
    let more = ["--set", "train.steps=17", "--set", "train.validate_every=0"];
    let printed = result(&[&["train", "--resume", "run"][..], &more].concat());
    assert!(printed.contains("after 17 steps") && !printed.contains("validation loss"), "{printed}");
    // Of a finished run that was not validated, the missing validation is made up for.
    let again = result(&["train", "--resume", "run", "--set", "train.validate_every=10"]);
    assert!(again.contains("after 17 steps") && again.contains("validation loss"), "{again}");
}

#[test]
fn a_token_that_the_tokenizer_lacks_and_a_prompt_beyond_a_row_are_told() {
    let project = Project::trained();
    for command in [&["generate", "run", "file"][..], &["model", "export", "run", "--output", "model"]] {
        let said = project.fail(&[command, &["--set", "tokenizer.eos=<|no_such|>"]].concat());
        assert!(said.contains("tokenizer.eos") && said.contains("<|no_such|>"), "{said}");
    }
    let said = project.succeed(&["generate", "run", &"file ".repeat(1000), "--tokens", "2"]);
    assert!(said.contains("the prompt has 5000 ids") && said.contains("it continues the last"), "{said}");
}

#[test]
fn nothing_is_done_every_zero_steps() {
    let project = Project::new();
    let never = ["log_every", "validate_every", "checkpoint_every", "trail_every"]
        .map(|key| format!("train.{key}=0"));
    let never: Vec<&str> = never.iter().flat_map(|setting| ["--set", setting]).collect();
    let said = project.succeed(&[&["train", "run.toml"][..], &never].concat());
    assert!(!said.contains("validation") && !said.contains("step 20/20"), "{said}");
    assert_eq!(std::fs::read_to_string(project.path("run/metrics.jsonl")).expect("metrics"), "");
    assert!(!project.path("run/cursors.jsonl").exists());
    let checkpoints = std::fs::read_dir(project.path("run/checkpoints")).expect("checkpoints").count();
    assert_eq!(checkpoints, 1, "the last step is saved");
}

#[test]
fn a_run_that_diverges_names_the_step_and_the_batch_and_a_way_on() {
    let project = Project::trained();
    // A rate that no model survives.
    let wild = ["--set", "train.steps=40", "--set", "train.lr=1e30", "--set", "train.min_lr=1e30"];
    let error = project.fail(&[&["train", "--resume", "run"][..], &wild].concat());
    let message = after(&error, "error: step 2");
    assert!(message.contains(" (batch 2") && message.contains("the gradient is not finite"), "{error}");
    assert!(message.ends_with("resume run from step 20 with train.lr=5e29 and train.min_lr=5e29"), "{error}");
    let command = told(&error);
    assert!(command.ends_with(" --at 20 --set 'train.lr=5e29' --set 'train.min_lr=5e29'"), "{error}");
    project.paste(&command.replace("5e29", "1e-4"));
    assert_eq!(project.losses("run").len(), 40);
    project.paste(after(&error, "see the batch with: "));

    let new = Project::new();
    let error = new.fail(&[&["train", "run.toml"][..], &wild].concat());
    assert!(error.contains("start again with a lower train.lr"), "{error}");
    assert!(!error.contains("resume with: "), "nothing is saved: {error}");
    new.paste(after(&error, "see the batch with: "));
    new.succeed(&["train", "run.toml"]);
}
