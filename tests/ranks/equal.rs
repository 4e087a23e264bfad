//! Any number of processes makes the run of one.

use serde_json::Value;

use super::{Project, Run, assert_same, said};

#[test]
fn ranks_make_the_run_of_one_process_and_repeat_it_bit_for_bit() {
    let project = Project::new();
    let alone = project.train(1, "alone", &[]);
    assert_eq!(alone.curve("loss").len(), 24);
    assert!(alone.curve("sum_share").is_empty());
    for ranks in [2, 4] {
        let run = project.train(ranks, &format!("run{ranks}"), &[]);
        assert_same(&run, &alone, 24);
        let shares = run.curve("sum_share");
        assert!(
            shares.len() == 24 && shares.iter().all(|(_, share)| (0.0..=1.0).contains(share)),
            "{shares:?}"
        );
        let trail = std::fs::read_to_string(run.0.join("cursors.jsonl")).expect("a trail");
        assert_eq!(trail, std::fs::read_to_string(alone.0.join("cursors.jsonl")).expect("a trail"));
        let again = project.train(ranks, &format!("again{ranks}"), &[]);
        assert_eq!(again.content(24), run.content(24), "{ranks} ranks");
    }
    // Sums are the same bits, whoever carries them.
    let devices = project.train(1, "devices", &["train.devices=[0, 1]"]);
    let ranks = project.run("run2");
    assert_eq!(devices.content(24), ranks.content(24));
}

#[test]
fn a_step_of_several_batches_is_the_same() {
    let project = Project::new();
    let by_rows = ["train.accumulate=3", "train.steps=6", "train.mask_documents=true"];
    let by_tokens = ["pipeline.batch_tokens=64", "train.accumulate=4", "train.steps=6"];
    // With so much padding, a rank has batches without targets.
    let padded = ["pipeline.epochs=1", "train.steps=100000", "source.0.paths=[\"corpus/a0.txt\"]"];
    for (number, settings) in [&by_rows[..], &by_tokens, &padded].into_iter().enumerate() {
        let alone = project.train(1, &format!("alone{number}"), settings);
        let run = project.train(2, &format!("run{number}"), settings);
        let last = alone.curve("loss").last().expect("steps").0;
        assert!(last >= 6, "{last}");
        assert_same(&run, &alone, last);
    }
    let uneven = ["train", "run.toml", "--set", "pipeline.batch_tokens=64", "--set", "train.accumulate=3"];
    let output = project.ranks(2, &uneven).output().expect("it runs");
    assert!(
        said(&output).contains("`train.accumulate` must be a multiple of the world's size, 2"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_checkpoint_resumes_at_any_number_of_ranks() {
    let project = Project::new();
    let whole = project.train(1, "whole", &["train.schedule=constant"]);
    for (first, then) in [(4, 1), (1, 4), (2, 4)] {
        let out = format!("run{first}to{then}");
        project.train(first, &out, &["train.steps=12", "train.schedule=constant"]);
        let run = project.resume(then, &out, &["train.steps=24"]);
        assert_same(&run, &whole, 24);
    }
    // At the same number of ranks, what follows is what would have followed.
    let run = project.train(2, "halves", &["train.schedule=constant", "train.steps=12"]);
    assert_eq!(run.curve("loss").len(), 12);
    let halves = project.resume(2, "halves", &["train.steps=24"]);
    let at_once = project.train(2, "at_once", &["train.schedule=constant"]);
    assert_eq!(halves.content(24), at_once.content(24));
}

#[test]
fn one_rank_learns_the_tokenizer_for_all() {
    let project = Project::new();
    let learned =
        ["tokenizer.kind=subwords", "tokenizer.train={vocab_size=300, sample=\"1MiB\"}", "train.steps=3"];
    let alone = project.train(1, "alone", &learned);
    let run = project.train(2, "run", &learned);
    assert_same(&run, &alone, 3);
    let tokenizer = |run: &Run| std::fs::read_to_string(run.0.join("tokenizer.json")).expect("a tokenizer");
    assert_eq!(tokenizer(&run), tokenizer(&alone));
}

#[test]
fn rank_0_speaks_for_all() {
    let project = Project::new();
    let arguments = ["train", "run.toml", "--json", "--metrics-addr", "0", "--trace", "trace.json"];
    let output = project.ranks(2, &arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // Each step, two validations and the outcome, once.
    assert_eq!(lines.len(), 24 + 2 + 1, "{text}");
    assert!(lines.last().expect("an outcome")["sum_share"].as_f64().is_some_and(|share| share > 0.0));
    assert_eq!(said(&output).matches("validation loss").count(), 2, "{}", said(&output));
    assert!(project.path("trace.json").is_file());
}

#[test]
fn what_ranks_read_is_answered_as_for_one_process() {
    let project = Project::new();
    project.train(1, "whole", &[]);
    project.train(2, "run", &["train.steps=12"]);
    project.resume(4, "run", &["train.steps=24"]);
    let of = |run: &str, arguments: &[&str]| {
        let of_run = arguments.iter().map(|argument| if *argument == "RUN" { run } else { argument });
        let arguments: Vec<&str> = of_run.chain(["--json"]).collect();
        let output = project.ranks(1, &arguments).output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let batch = of("whole", &["inspect", "run.toml", "--batch", "20"]);
    let piece = &batch["pieces"][0];
    let document = format!("{}:{}", piece["path"].as_str().expect("a path"), piece["line"]);
    let when = ["when", "RUN", "--document", &document];
    for command in [&["ledger", "RUN"][..], &["ledger", "RUN", "--count"], &when] {
        assert_eq!(of("run", command), of("whole", command), "{command:?}");
    }
    let data = ["report", "RUN", "--data", "--check"];
    let (run, whole) = (of("run", &data), of("whole", &data));
    for key in ["ledger", "sources", "files"] {
        assert_eq!(run[key], whole[key], "{key}");
    }
    assert!(run["check"]["is_same"] == true && whole["check"]["is_same"] == true, "{run}");
    assert_eq!(run["check"]["batches"], 24, "{run}");
}
