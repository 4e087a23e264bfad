//! Checkpoints that are damaged, unfinished, or from an older version.

use std::fs;

use super::{Place, copy, flip, said, told};

const NEWEST: &str = "checkpoints/step-00000020";

/// The files of a checkpoint.
const FILES: [&str; 6] =
    ["model.bpk", "optimizer.bpk", "unigram.bin", "cursor.json", "state.json", "blake3.txt"];

#[test]
fn a_flipped_bit_in_any_file_is_refused_and_the_checkpoint_before_it_goes_on() {
    let place = Place::trained();
    let whole = place.losses("run");
    for name in FILES {
        let run = format!("damaged {name}");
        copy(&place.path("run"), &place.path(&run));
        let file = format!("{NEWEST}/{name}");
        flip(&place.path(&run).join(&file));
        let error = place.fail(&["train", "--resume", &run, "--set", "train.steps=25"]);
        // A digest that is damaged is one that a file no longer has.
        let named = if name == "blake3.txt" { format!("{run}/{NEWEST}/") } else { format!("{run}/{file}") };
        assert!(error.starts_with(&format!("error: {named}")) && error.contains("damaged"), "{error}");
        assert!(told(&error).ends_with(&format!(" train --resume '{run}' --at 10")), "{error}");
        let said = place.paste(&error);
        assert!(said.contains("checkpoints/aside-step-00000020"), "{said}");
        assert_eq!(place.losses(&run), whole, "{name}");
        // The checkpoint that it made is whole.
        place.succeed(&["train", "--resume", &run, "--set", "train.steps=25"]);
        assert!(place.path(&run).join("checkpoints/step-00000025").is_dir());
    }
}

#[test]
fn generate_refuses_a_damaged_model_and_takes_an_earlier_one() {
    let place = Place::trained();
    let before = place.program(&["generate", "run", "file", "--at", "10"]).output().expect("it runs");
    assert!(before.status.success());
    for name in ["model.bpk", "state.json"] {
        let run = format!("damaged-{name}");
        copy(&place.path("run"), &place.path(&run));
        flip(&place.path(&run).join(NEWEST).join(name));
        let error = place.fail(&["generate", &run, "file"]);
        assert!(error.contains(&format!("{run}/{NEWEST}/{name}")), "{error}");
        assert!(error.contains("--at 10 takes the checkpoint before it"), "{error}");
        let earlier = place.program(&["generate", &run, "file", "--at", "10"]).output().expect("it runs");
        assert_eq!(earlier.stdout, before.stdout);
        let error = place.fail(&["model", "export", &run, "-o", "model"]);
        assert!(error.contains("--at 10 takes the checkpoint before it"), "{error}");
    }
    // What it does not read does not matter.
    flip(&place.path("run").join(NEWEST).join("optimizer.bpk"));
    place.succeed(&["generate", "run", "file"]);
    let error = place.fail(&["generate", "run", "file", "--at", "15"]);
    assert!(error.contains("there is no checkpoint of step 15; there is one of 10, 20"), "{error}");
}

#[test]
fn without_an_earlier_checkpoint_it_says_to_start_again() {
    let place = Place::trained();
    std::fs::remove_dir_all(place.path("run/checkpoints/step-00000010")).expect("removed");
    flip(&place.path("run").join(NEWEST).join("unigram.bin"));
    let error = place.fail(&["train", "--resume", "run"]);
    assert!(error.contains("there is no checkpoint before it, so start the run again"), "{error}");
}

#[test]
fn a_checkpoint_under_the_name_of_another_step_is_refused() {
    let place = Place::trained();
    std::fs::remove_dir_all(place.path("run").join(NEWEST)).expect("removed");
    copy(&place.path("run/checkpoints/step-00000010"), &place.path("run").join(NEWEST));
    let error = place.fail(&["train", "--resume", "run", "--set", "train.steps=25"]);
    assert!(error.contains("this is the checkpoint of step 10, not of step 20"), "{error}");
    assert!(told(&error).ends_with(" train --resume run --at 10"), "{error}");
    assert!(place.path("run").join(NEWEST).is_dir(), "nothing is moved");
    place.paste(&error);
}

#[test]
fn an_unfinished_checkpoint_is_skipped_with_a_warning() {
    let place = Place::trained();
    let whole = place.losses("run");
    // As a copy leaves it that was cut off: the digests come last.
    std::fs::remove_file(place.path("run").join(NEWEST).join("blake3.txt")).expect("removed");
    let said = place.succeed(&["train", "--resume", "run"]);
    assert!(said.contains("unfinished checkpoint skipped") && said.contains(NEWEST), "{said}");
    assert!(said.contains("resuming from run/checkpoints/step-00000010"), "{said}");
    assert_eq!(place.losses("run"), whole);
}

#[test]
fn a_checkpoint_of_an_older_version_loads_with_a_warning() {
    let place = Place::trained();
    let newest = place.path("run").join(NEWEST);
    std::fs::remove_file(newest.join("blake3.txt")).expect("removed");
    let state = std::fs::read_to_string(newest.join("state.json")).expect("a state");
    let mut state: serde_json::Value = serde_json::from_str(&state).expect("JSON");
    state["version"] = 1.into();
    state.as_object_mut().expect("an object").remove("validation_step");
    std::fs::write(newest.join("state.json"), state.to_string()).expect("written");
    let more = ["train", "--resume", "run", "--set", "train.steps=22"];

    copy(&place.path("run"), &place.path("copy"));
    let said = place.succeed(&more);
    assert!(said.contains("has no digests, so damage to it may go unseen"), "{said}");
    assert_eq!(place.losses("run").len(), 22);

    // What cannot be read has the same remedy.
    for (name, text) in [("unigram.bin", "short"), ("cursor.json", "{}"), ("model.bpk", "no model")] {
        let run = format!("older-{name}");
        copy(&place.path("copy"), &place.path(&run));
        std::fs::write(place.path(&run).join(NEWEST).join(name), text).expect("written");
        let error = place.fail(&["train", "--resume", &run]);
        assert!(error.contains(&format!("{NEWEST}/{name}")), "{error}");
        assert!(told(&error).ends_with(&format!(" train --resume {run} --at 10")), "{error}");
    }
}

#[test]
fn a_save_that_finds_no_room_leaves_nothing_and_more_than_are_kept_make_room_before_it() {
    let place = Place::trained();
    let names = || {
        let entries = fs::read_dir(place.path("run/checkpoints")).expect("checkpoints");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["step-00000010", "step-00000020"]);
    // A run that goes on has its leftovers' room before it saves, even if it is at its end.
    fs::create_dir(place.path("run/checkpoints/.partial-00000030")).expect("made");
    place.succeed(&["train", "--resume", "run"]);
    assert_eq!(names(), ["step-00000010", "step-00000020"]);
    // No file may be as large as the moments, and a write beyond that is an error, as on a full disk.
    let arguments = ["train", "--resume", "run", "--set", "train.steps=30"];
    let program = env!("CARGO_BIN_EXE_millstream");
    let limited = ["-c", "trap '' XFSZ; ulimit -f 40; exec \"$@\"", "bash", program];
    let output = place.in_here("bash", &[&limited[..], &arguments].concat()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(names(), ["step-00000010", "step-00000020"]);
    let fewer = ["--set", "train.keep=1"];
    let output =
        place.in_here("bash", &[&limited[..], &arguments, &fewer].concat()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(names(), ["step-00000020"]);
    place.succeed(&arguments);
    assert_eq!(names().last().expect("one"), "step-00000030");
}
