//! Commands that the program tells people to run can be pasted.

use std::process::Command;

use super::{failure, millstream, root, text};

#[test]
fn a_hint_starts_the_program_as_it_was_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("my run");
    let out = format!("train.out={}", run.display());
    let short = ["train.steps=1", "train.validation_batches=1", "train.sample_tokens=0"];
    let short = short.iter().flat_map(|setting| ["--set", setting]);
    let arguments: Vec<&str> =
        ["train", "configs/tiny.toml", "--set", &out].into_iter().chain(short).collect();
    assert!(millstream(root(), &arguments).output().expect("it runs").status.success());
    let output = millstream(root(), &arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let program = env!("CARGO_BIN_EXE_millstream");
    let hint = format!("resume with: {program} train --resume '{}'\n", run.display());
    assert!(said.contains(&hint), "{said}");
}

#[test]
fn a_rank_that_lacks_lanes_is_told_how_to_merge_cursors() {
    const TINY: &str = "configs/tiny.toml";
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    for rank in 0..2 {
        let (cursor, rank) = (file(&format!("rank-{rank}.json")), format!("pipeline.rank={rank}"));
        let world = ["--set", "pipeline.world=2", "--set", &rank];
        text(root(), &[&["digest", TINY, "-n", "2", "--cursor-at", "2", &cursor][..], &world].concat());
    }
    let said = failure(root(), &["digest", TINY, "-n", "1", "--from", &file("rank-0.json")]);
    let hint = said.lines().find_map(|line| line.strip_prefix("merge two with: "));
    let words = shlex::split(hint.unwrap_or_else(|| panic!("{said}"))).expect("words of a shell");
    let merge = Command::new(&words[0]).args(&words[1..]).current_dir(directory.path()).output();
    let merge = merge.expect("it runs");
    assert!(merge.status.success(), "{words:?}: {}", String::from_utf8_lossy(&merge.stderr));
    text(root(), &["digest", TINY, "-n", "1", "--from", &file("cursor.json")]);
}

#[test]
fn examples_of_the_help_name_the_program_alone() {
    let program = env!("CARGO_BIN_EXE_millstream");
    for arguments in
        [&["--help"][..], &["train", "--help"], &["tokenizer", "check", "--help"], &["help", "verify"]]
    {
        let output = millstream(root(), arguments).output().expect("it runs");
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(help.contains("millstream ") && !help.contains(program), "{help}");
    }
}
