//! What a run read: its files, shares, skipped documents, and whether the files still give its batches.

use serde_json::json;

use super::*;

const SECOND: &str = r#"
[[source]]
name = "records"
kind = "jsonl"
field = "text"
columns = ["lang"]
on_error = { skip = 10 }
paths = ["records.jsonl"]

[tokenizer]"#;

/// A finished run of two sources, one of which has a line that is no JSON.
fn trained() -> Project {
    let project = Project::new();
    let config = CONFIG.replacen("[[source]]", "[[source]]\nname = \"lines\"", 1);
    let config = config.replacen("[tokenizer]", SECOND, 1);
    let config = config.replace("steps = 20", "steps = 60\ntrail_every = 5\nloss_by = [\"lang\"]");
    std::fs::write(project.path("run.toml"), config).expect("written");
    let mut records = String::from("{\"text\": \"broken, \"lang\": \"en\"}\n");
    for nth in 0..300 {
        let lang = ["en", "de"][nth % 2];
        records += &format!("{{\"text\": \"record {nth} of some words\", \"lang\": \"{lang}\"}}\n");
    }
    std::fs::write(project.path("records.jsonl"), records).expect("written");
    project.succeed(&["train", "run.toml"]);
    project
}

/// The code and the object of `report run --data`.
fn data(project: &Project, more: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["report", "run", "--data", "--json"], more].concat();
    let output = project.program(&arguments).output().expect("it runs");
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    (output.status.code(), json)
}

#[test]
fn the_data_of_a_run_is_shown_and_made_again() {
    let project = trained();
    let (code, data) = data(&project, &["--check", "-n", "4"]);
    assert_eq!(code, Some(0));
    let names = |list: &Value, key: &str| -> Vec<String> {
        let all = list.as_array().expect("a list").iter();
        all.map(|one| one[key].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&data["sources"], "name"), ["lines", "records"]);
    let shares: f64 = (0..2).filter_map(|nth| data["sources"][nth]["delivered"]["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{data}");
    // Those of the ledger, which counts the same ids.
    for nth in 0..2 {
        let (source, ledger) = (&data["sources"][nth], &data["ledger"]["sources"][nth]);
        let delivered = ["learned", "masked", "first"].map(|key| ledger[key].as_u64().expect("a number"));
        assert_eq!(source["delivered"]["ids"], json!(delivered.iter().sum::<u64>()), "{data}");
    }
    // The digests that `sha256sum` says.
    let files = data["files"].as_array().expect("files");
    assert_eq!(files.len(), 5);
    for file in files {
        let path = file["path"].as_str().expect("a path");
        let sum = Command::new("sha256sum").arg(project.path(path)).output().expect("it runs");
        let sum = String::from_utf8(sum.stdout).expect("text");
        assert_eq!(file["sha256"].as_str(), sum.split(' ').next(), "{path}");
    }
    assert_eq!(data["changes"], Value::Null);
    let skipped = data["skipped"].as_array().expect("a list");
    assert_eq!(skipped.len(), 1, "{data}");
    assert_eq!((&skipped[0]["path"], &skipped[0]["line"]), (&json!("records.jsonl"), &json!(1)));
    assert!(skipped[0]["reason"].as_str().is_some_and(|reason| reason.contains("JSON")), "{data}");
    let values = data["values"]["lang"].as_object().expect("values");
    let counted: u64 = values.values().map(|value| value["ids"].as_u64().expect("a number")).sum();
    let (_, figures) = report(&project);
    assert_eq!(Some(counted), figures["tokens"].as_u64(), "{data}");
    let check = &data["check"];
    assert_eq!((&check["is_same"], check["stretches"].as_array().map(Vec::len)), (&json!(true), Some(4)));
    assert_eq!((&check["batches"], &check["of_batches"]), (&json!(20), &json!(60)));

    // For people, and as a page.
    let output = project.program(&["report", "run", "--data"]).output().expect("it runs");
    succeeded(&output);
    let text = String::from_utf8(output.stdout).expect("text");
    for part in ["run after 60 batches", "records.jsonl:1 (byte ", "Targets by lang", "corpus/0.txt"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    project.succeed(&["report", "run", "--data", "--html", "data.html"]);
    let page = std::fs::read_to_string(project.path("data.html")).expect("a page");
    let first = files[0]["sha256"].as_str().expect("a digest");
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.contains(first)
            && page.contains("<h2>Files as they are now</h2>")
    );
}

/// The figures of the run.
fn report(project: &Project) -> (Option<i32>, Value) {
    let output = project.program(&["report", "run", "--json"]).output().expect("it runs");
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn a_text_that_has_changed_is_noticed() {
    let project = trained();
    // Of the same length, and behind the samples of the text that a cursor has.
    let path = project.path("corpus/2.txt");
    let text = std::fs::read_to_string(&path).expect("a file");
    std::fs::write(&path, text.replace("file 2 line 77: some words", "file 2 line 77: SOME words"))
        .expect("written");
    let output =
        project.program(&["report", "run", "--data", "--check", "-n", "100"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    assert!(
        text.contains("not the same") || said(&output).contains("the text of some files has changed"),
        "{text}"
    );
    // Another length is refused by name.
    std::fs::write(&path, "short\n").expect("written");
    let said = project.fail(&["report", "run", "--data", "--check"]);
    assert!(said.contains("files"), "{said}");
    let (code, data) = data(&project, &[]);
    assert!(
        code == Some(0) && data["changes"].as_str().is_some_and(|changes| changes.contains("2.txt")),
        "{data}"
    );
}

#[test]
fn what_token_shards_lack_is_named() {
    let project = trained();
    let config = std::fs::read_to_string(project.path("run.toml")).expect("a config");
    let text = config.find("[[source]]").expect("a source")..config.find("[tokenizer]").expect("a tokenizer");
    let records = &SECOND[..SECOND.find("[tokenizer]").expect("a tokenizer")];
    let with = |source: &str| [&config[..text.start], source, &config[text.end..]].concat();
    std::fs::write(project.path("records.toml"), with(records)).expect("written");
    project.succeed(&["prepare", "records.toml", "-o", "shards"]);
    let shards = "[[source]]\nkind = \"shards\"\ncolumns = [\"lang\"]\npaths = [\"shards\"]\n";
    for shuffle in ["window", "global"] {
        let config = with(shards).replace("[pipeline]", &format!("[pipeline]\nshuffle = \"{shuffle}\""));
        std::fs::write(project.path("shards.toml"), config).expect("written");
        let out = format!("train.out=\"of-{shuffle}\"");
        project.succeed(&["train", "shards.toml", "--set", &out]);
        let run = format!("of-{shuffle}");
        let output =
            project.program(&["report", &run, "--data", "--check", "--json"]).output().expect("it runs");
        succeeded(&output);
        let data: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let skipped = json!([{
            "path": "records.jsonl", "line": 1, "unit": "byte", "byte": 0,
            "reason": "it could not be read when its token shards were made",
        }]);
        assert_eq!(data["skipped"], skipped, "{data}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let project = Project::trained();
    for (arguments, expected) in [
        (&["report", "run", "run", "--data"][..], "--data: it shows what one run read; name only one"),
        (&["report", "run", "--check"], "--data"),
    ] {
        let output = project.program(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
}
