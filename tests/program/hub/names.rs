//! `init` and `check` with names of the Hub.

use super::{STORIES, World, ordered, source};
use crate::program::said;

#[test]
fn check_says_what_a_branch_stands_for() {
    let (world, commit) = World::with_stories(2, 50);
    let output = world.command(&["check", &world.config(&ordered(&source("")))]).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("hf://{STORIES}@main is {commit}")), "{text}");
}

#[test]
fn init_writes_a_config_for_a_dataset() {
    let (world, commit) = World::with_stories(2, 50);
    let config = world.home.path().join("new.toml");
    let config = config.to_str().expect("UTF-8");
    for name in [format!("hf://{STORIES}"), format!("hf://{STORIES}@{commit}")] {
        let output = world.command(&["init", &name, "-o", config, "--force"]).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        let written = std::fs::read_to_string(config).expect("a config");
        assert!(written.contains(&format!("[\"{name}\"]")), "{written}");
        let output = world.command(&["inspect", config, "--json"]).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        assert!(
            String::from_utf8_lossy(&output.stdout)
                .contains(&format!("hf://{STORIES}@{commit}/data/part-00.jsonl"))
        );
    }
}

#[test]
fn a_pattern_that_matches_nothing_names_what_is_there() {
    let (world, commit) = World::with_stories(20, 5);
    let config =
        format!("[[source]]\nkind = \"jsonl\"\nfield = \"text\"\npaths = [\"hf://{STORIES}/**/*.json\"]\n");
    let output = world.command(&["check", &world.config(&config)]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let said = said(&output);
    for what in [&commit, "data/part-00.jsonl", "more: set source.0.paths to"] {
        assert!(said.contains(what), "{what}: {said}");
    }
}

#[test]
fn a_document_is_named_with_the_commit_or_without_it() {
    let (world, commit) = World::with_stories(2, 50);
    let run = world.home.path().join("run");
    let more =
        format!("[model]\nlayers = 1\nd_model = 16\nheads = 2\nd_ff = 16\n[train]\nsteps = 2\nout = {run:?}");
    let config = world.config(&format!("{}{more}", ordered(&source(""))));
    let output = world.command(&["train", &config]).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    for of in [String::new(), format!("@{commit}")] {
        let document = format!("hf://{STORIES}{of}/data/part-00.jsonl:1");
        let when = ["when", run.to_str().expect("UTF-8"), "--document", &document];
        let output = world.command(&when).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("step 1,"), "{output:?}");
    }
}
