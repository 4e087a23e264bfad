//! `millstream ledger` of a run: what is left of its data, and what was dropped at its end.

use serde_json::Value;

use super::Project;

/// A number of the ledger of a project's run, with a count.
fn counted(project: &Project) -> Value {
    let output = project.program(&["ledger", "--json", "run", "--count"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    printed["sources"][0].clone()
}

#[test]
fn what_a_run_that_has_ended_leaves_is_dropped() {
    let project = Project::new();
    // A few rows fill no batch, and the last record is broken: no cursor has it.
    let records =
        |texts: u64| (0..texts).map(|n| format!("{{\"text\": \"record {n}\"}}\n")).collect::<String>();
    std::fs::write(project.path("corpus/a.jsonl"), records(40) + "{broken\n").expect("written");
    let settings = [
        "source.0={ kind = 'jsonl', field = 'text', paths = ['corpus/*.jsonl'], split = '64MiB', on_error = { skip = 1 } }",
        "pipeline.holdout=0",
        "pipeline.lanes=1",
        "pipeline.epochs=1",
        "pipeline.last=drop",
        "train.validate_every=",
    ];
    let train = |more: &str| {
        let mut arguments = vec!["train", "run.toml", "--set", more];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        project.succeed(&arguments);
        counted(&project)
    };
    let number = |value: &Value| value.as_u64().expect("a number");
    let source = train("train.steps=100");
    assert!(source.get("not_reached").is_none(), "{source}");
    let ids = number(&source["ids"]) + number(&source["dropped"]["ids"]);
    assert!(number(&source["dropped"]["ids"]) > 0, "{source}");
    assert_eq!(number(&source["documents"]) + number(&source["dropped"]["documents"]), 40);
    assert_eq!(number(&source["skipped"]), 1);

    // One that was stopped before may go on.
    std::fs::remove_dir_all(project.path("run")).expect("removed");
    let source = train("train.steps=2");
    assert!(source.get("dropped").is_none(), "{source}");
    assert_eq!(number(&source["ids"]) + number(&source["not_reached"]["ids"]), ids);
    assert_eq!(number(&source["documents"]) + number(&source["not_reached"]["documents"]), 41);
}
