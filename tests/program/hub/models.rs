//! Models of the Hub as the beginning of a run.

use std::fs;
use std::path::Path;

use super::World;
use crate::program::said;

const MODEL: &str = "[model]\nlayers = 1\nd_model = 16\nheads = 2\nd_ff = 16\n";

/// A run of a few steps in a directory.
fn config(directory: &Path, tokenizer: &str, model: &str) -> String {
    let here = directory.display();
    format!(
        "[[source]]\npaths = [\"{here}/*.txt\"]\n[tokenizer]\neos = \"<|endoftext|>\"\n{tokenizer}\n[pipeline]\nseq_len = 16\n\
         batch_size = 4\nworkers = 1\n{model}\n[train]\nsteps = 4\nwarmup = 1\nsample_tokens = 0\nlog_every = 1\n"
    )
}

#[test]
fn a_run_begins_from_a_model_of_the_hub() {
    let world = World::new();
    let here = world.home.path().join("here");
    fs::create_dir(&here).expect("a directory");
    let text: String = (0..400).map(|line| format!("line {line}: some words\n")).collect();
    fs::write(here.join("text.txt"), text).expect("a file");
    let succeed = |arguments: &[&str]| {
        let output = world.command(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
    };
    let path = |name: &str| here.join(name).to_str().expect("UTF-8").to_owned();
    let [first, model, second, third] = ["first", "model", "second", "third"].map(path);
    let learned = world.config(&config(&here, "train = { vocab_size = 300 }", MODEL));
    succeed(&["train", &learned, "--set", &format!("train.out={first}")]);
    succeed(&["model", "export", &first, "-o", &model]);
    let files: Vec<(String, Vec<u8>)> = fs::read_dir(&model)
        .expect("a directory")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            (entry.file_name().into_string().expect("UTF-8"), fs::read(entry.path()).expect("a file"))
        })
        .collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    world.hub.commit("me/model", "main", &files);
    let begin = |init: &str, out: &str| {
        let tuned = world.config(&config(&here, &format!("path = \"{init}/tokenizer.json\""), ""));
        let settings = [format!("train.init={init}"), format!("train.out={out}")];
        succeed(&["train", &tuned, "--set", &settings[0], "--set", &settings[1]]);
    };
    begin(&model, &second);
    begin("hf://me/model", &third);
    let losses = [second, third].map(|out| losses(&Path::new(&out).join("metrics.jsonl")));
    assert_eq!(losses[0].len(), 4);
    assert_eq!(losses[0], losses[1]);
    succeed(&["generate", "hf://me/model", "line 3", "--tokens", "4"]);
}

#[test]
fn a_training_run_stays_at_its_commit() {
    let (world, _) = World::with_stories(2, 200);
    let tokenizer = crate::support::root().join("tests/data/tokenizers/unigram.json");
    world.hub.commit("me/model", "main", &[("tokenizer.json", &fs::read(tokenizer).expect("a tokenizer"))]);
    let out = world.home.path().join("run");
    let out = format!("train.out={}", out.to_str().expect("UTF-8"));
    let whole = "[[source]]\nkind = \"huggingface\"\nfield = \"text\"\nrepo = \"me/stories\"\n[tokenizer]\npath = \"hf://me/model/tokenizer.json\"\n\
                 [pipeline]\nseq_len = 16\nbatch_size = 4\nworkers = 1\n[train]\nsteps = 4\nwarmup = 1\nsample_tokens = 0\n";
    let config = world.config(&format!("{whole}\n{MODEL}"));
    let output = world.command(&["train", &config, "--set", &out]).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    // The branches have no data and no tokenizer any more.
    for repo in [super::STORIES, "me/model"] {
        world.hub.commit(repo, "main", &[("notes.md", b"gone")]);
    }
    let run = out.trim_start_matches("train.out=");
    let output =
        world.command(&["train", "--resume", run, "--set", "train.steps=8"]).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
}

/// The losses of all steps.
fn losses(metrics: &Path) -> Vec<f64> {
    let lines = fs::read_to_string(metrics).expect("metrics");
    let loss = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["loss"].as_f64();
    lines.lines().filter_map(loss).collect()
}
