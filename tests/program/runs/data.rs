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
pub(super) fn trained() -> Project {
    let project = Project::new();
    let config = CONFIG.replacen("[[source]]", "[[source]]\nname = \"lines\"", 1);
    let config = config.replacen("[tokenizer]", SECOND, 1);
    let config = config.replace("steps = 20", "steps = 60\ntrail_every = 5\nloss_by = [\"lang\"]");
    let config = config.replace("log_every = 1", "log_every = 2");
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
pub(super) fn data(project: &Project, more: &[&str]) -> (Option<i32>, Value) {
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
    let (code, noticed) = data(&project, &[]);
    assert_eq!((code, &noticed["changes"]), (Some(0), &json!("other text: corpus/2.txt")), "{noticed}");
    // Nothing can be said of its batches.
    for command in [
        &["report", "run", "--data", "--check"][..],
        &["when", "run", "--document", "0.txt:1"],
        &["ledger", "run", "--count"],
    ] {
        let said = project.fail(command);
        let expected = "error: source.lines.paths: the files are not those that the run has read: other text: corpus/2.txt; \
                        put them back, or say where they are: --set source.lines.paths=";
        assert!(said.contains(expected) && !said.contains("resume"), "{said}");
    }
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
fn a_corpus_that_has_moved_is_read_where_it_is() {
    let project = trained();
    let line = ["when", "run", "--document", "0.txt:1"];
    let (_, before) = data(&project, &[]);
    std::fs::rename(project.path("corpus"), project.path("moved")).expect("moved");
    let said = project.fail(&["report", "run", "--data", "--check"]);
    assert!(said.contains("corpus/*.txt") && said.contains("the files have changed since the run"), "{said}");
    assert!(project.fail(&line).contains("corpus/*.txt"));
    let moved = ["--set", "source.lines.paths=moved/*.txt"];
    let (code, data) = data(&project, &[&["--check", "-n", "3"], &moved[..]].concat());
    assert_eq!((code, &data["check"]["is_same"], &data["changes"]), (Some(0), &json!(true), &Value::Null));
    let digests = |data: &Value| -> Vec<Value> {
        data["files"].as_array().expect("files").iter().map(|file| file["sha256"].clone()).collect()
    };
    assert_eq!(digests(&data), digests(&before));
    project.succeed(&[&line[..], &moved].concat());
    project.succeed(&[&["ledger", "run", "--count"], &moved[..]].concat());

    // Only places may move: another text is refused, and so is another setting.
    std::fs::write(project.path("moved/2.txt"), "short\n").expect("written");
    for command in [&line[..], &["ledger", "run", "--count"], &["report", "run", "--data", "--check"]] {
        let said = project.fail(&[command, &moved].concat());
        assert!(
            said.contains("source.lines.paths: ") && said.contains("corpus/2.txt (5490 bytes, now 6)"),
            "{said}"
        );
    }
    for command in
        [&line[..], &["report", "run", "--data"], &["ledger", "run"], &["ledger", "run", "--count"]]
    {
        let output = project.program(&[command, &["--set", "pipeline.batch_size=8"]].concat()).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", super::said(&output));
        assert!(
            super::said(&output).contains("only the places of a run's files"),
            "{}",
            super::said(&output)
        );
    }
}

#[test]
fn an_excluded_document_moves_with_its_corpus() {
    let project = Project::new();
    project.succeed(&["train", "run.toml", "--set", "exclude.documents=[{path=\"corpus/1.txt\", byte=0}]"]);
    let found = |document: &str, more: &[&str]| {
        let when = ["when", "run", "--json", "--document", document];
        let output = project.program(&[&when[..], more].concat()).output().expect("it runs");
        let found: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
        (found["found"].clone(), found["reason"].clone())
    };
    let all = |more: &[&str]| ["0.txt:1", "1.txt:1", "1.txt:2"].map(|document| found(document, more));
    let before = all(&[]);
    assert!(before[1].1.as_str().is_some_and(|why| why.contains("exclude.documents")), "{before:?}");
    std::fs::rename(project.path("corpus"), project.path("moved")).expect("moved");
    let moved = ["--set", "source.0.paths=moved/*.txt"];
    assert_eq!(all(&moved), before);
    project.succeed(&[&["ledger", "run", "--count"], &moved[..]].concat());
    let (code, data) = data(&project, &[&["--check", "-n", "3"], &moved[..]].concat());
    assert_eq!((code, &data["check"]["is_same"]), (Some(0), &json!(true)), "{data}");
}

#[test]
fn what_is_gone_is_marked() {
    let project = trained();
    std::fs::remove_file(project.path("records.jsonl")).expect("removed");
    std::fs::remove_file(project.path("corpus/2.txt")).expect("removed");
    let (code, marked) = data(&project, &[]);
    assert_eq!(code, Some(0));
    let files = marked["files"].as_array().expect("files");
    let gone = files.iter().filter(|file| file["problem"] == "gone");
    let gone: Vec<&Value> = gone.map(|file| &file["path"]).collect();
    assert_eq!((files.len(), &gone[..]), (5, &[&json!("corpus/2.txt"), &json!("records.jsonl")][..]));
    assert!(files.iter().all(|file| file["problem"].is_string() != file["sha256"].is_string()), "{marked}");
    let [lines, records] = [0, 1].map(|nth| &marked["sources"][nth]);
    assert!(lines["problem"].is_null() && lines["files"] == 3, "{marked}");
    assert!(records["problem"].as_str().is_some_and(|why| why.contains("records.jsonl")), "{marked}");
    assert_eq!((&records["kind"], &records["files"]), (&json!("jsonl"), &Value::Null));
    let changes = marked["changes"].as_str().expect("changes");
    assert!(changes.contains("corpus/2.txt") && changes.contains("records.jsonl"), "{changes}");
    assert!(records["delivered"]["ids"].as_u64() > Some(0) && marked["skipped"][0]["line"] == 1);
    let output = project.program(&["report", "run", "--data"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in ["What cannot be read", "  gone", "records  jsonl  unknown   unknown  "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The remedy is that of its source, and not of the first one.
    let said = project.fail(&["report", "run", "--data", "--check"]);
    let place = std::fs::canonicalize(project.path("")).expect("a directory");
    let unmatched =
        format!("no file matches \"records.jsonl\" in {}; set source.1.paths to", place.display());
    assert!(said.contains(&unmatched), "{said}");
    assert!(records["problem"].as_str().is_some_and(|why| why.contains("set source.1.paths to")), "{marked}");

    // What the run read is still looked at where its source leads nowhere.
    std::fs::write(project.path("records.jsonl"), "{}\n").expect("written");
    let (code, marked) = data(&project, &["--set", "source.1.paths=elsewhere/*.jsonl"]);
    let problem = marked["sources"][1]["problem"].as_str().expect("a problem");
    assert!(code == Some(0) && problem.contains("elsewhere/*.jsonl"), "{problem}");
    let files = marked["files"].as_array().expect("files");
    let file = files.iter().find(|file| file["path"] == "records.jsonl").expect("a file");
    assert!(
        file["problem"].as_str().is_some_and(|problem| problem.starts_with("has 3 bytes, and had ")),
        "{file}"
    );
}

#[test]
fn each_change_of_the_files_is_named_with_its_remedy() {
    let project = trained();
    let (records, kept) = (project.path("records.jsonl"), project.path("kept/records.jsonl"));
    std::fs::create_dir(project.path("kept")).expect("made");
    std::fs::copy(&records, &kept).expect("copied");
    let len = records.metadata().expect("a file").len();
    let changes = || data(&project, &[]).1["changes"].clone();
    let refused = |expected: &str| {
        for command in [
            &["report", "run", "--data", "--check"][..],
            &["when", "run", "--document", "0.txt:1"],
            &["ledger", "run", "--count"],
        ] {
            let said = project.fail(command);
            assert!(said.contains(expected), "{said}");
        }
    };
    let way = "put them back, or say where they are: --set source.records.paths=";
    // The only file of its source is empty, then a directory, and then gone.
    std::fs::write(&records, "").expect("written");
    assert_eq!(changes(), json!(format!("other lengths: records.jsonl ({len} bytes, now 0)")));
    refused(way);
    std::fs::remove_file(&records).expect("removed");
    std::fs::create_dir(&records).expect("made");
    assert_eq!(changes(), json!("removed: records.jsonl"));
    refused(way);
    std::fs::remove_dir(&records).expect("removed");
    assert_eq!(changes(), json!("removed: records.jsonl"));
    refused(way);
    project.succeed(&["ledger", "run", "--count", "--set", "source.records.paths=kept/records.jsonl"]);
    std::fs::rename(&kept, &records).expect("back");

    std::fs::write(project.path("corpus/9.txt"), "more\n").expect("written");
    assert_eq!(changes(), json!("added: corpus/9.txt"));
    refused(
        "added: corpus/9.txt; take away those that are new, or name the others: --set source.lines.paths=",
    );
    std::fs::write(project.path("corpus/0.txt"), "less\n").expect("written");
    refused(
        "; put them back and take away those that are new, or say where they are: --set source.lines.paths=",
    );
}

#[test]
fn a_stretch_of_two_configs_is_made_again() {
    let project = trained();
    project.succeed(&[
        "train", "--resume", "run", "--set", "train.steps=73", "--set", "train.trail_every=7", "--set",
        "pipeline.batch_size=8",
    ]);
    let ends: Vec<u64> = trail(&project).iter().filter_map(|line| line["batch"].as_u64()).collect();
    assert!(ends.contains(&60) && ends.contains(&63), "{ends:?}");
    project
        .succeed(&["train", "--resume", "run", "--set", "train.steps=80", "--set", "pipeline.batch_size=4"]);
    let ends: Vec<u64> = trail(&project).iter().filter_map(|line| line["batch"].as_u64()).collect();
    assert!(ends.ends_with(&[63, 70, 77]), "{ends:?}");
    let (code, data) = data(&project, &["--check", "-n", "1000"]);
    let check = &data["check"];
    assert_eq!((code, &check["batches"], &check["of_batches"]), (Some(0), &json!(80), &json!(80)), "{check}");
}

#[test]
fn batches_that_are_left_out_are_not_made_again() {
    let project = trained();
    let settings = ["train.steps=70", "exclude.batches=[[62, 64], [68, 69]]"];
    project.succeed(&["train", "--resume", "run", "--set", settings[0], "--set", settings[1]]);
    let (code, data) = data(&project, &["--check", "-n", "1000"]);
    let check = &data["check"];
    assert_eq!((code, &data["batches"]), (Some(0), &json!(73)), "{check}");
    assert_eq!((&check["batches"], &check["of_batches"]), (&json!(70), &json!(70)), "{check}");

    // They are shown as a config has them.
    let document = "exclude.documents=[{ path = \"corpus/2.txt\", byte = 0 }]";
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=71", "--set", document]);
    let output = project.program(&["report", "run", "--data"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let (_, changes) = text.split_once("Changes of the stream\n").expect("changes");
    let changes = changes.lines().skip(1).take(4).flat_map(|line| line.split("  "));
    let changes: Vec<&str> = changes.map(str::trim).filter(|part| !part.is_empty()).collect();
    let [when, weights, excluded @ ..] = &changes[..] else { panic!("{text}") };
    assert!(*when == "from batch 0 (row 0) on" && weights.starts_with("weights = { lines = "), "{text}");
    assert_eq!(
        excluded,
        [
            "batches 62 to 63",
            "exclude.batches = [[62, 64]]",
            "batches 68 to 68",
            "exclude.batches = [[68, 69]]",
            "from batch 73 on",
            "exclude.documents = [{ path = \"corpus/2.txt\", byte = 0 }]",
        ],
        "{text}"
    );
}

/// The lines of the run's trail.
fn trail(project: &Project) -> Vec<Value> {
    let text = std::fs::read_to_string(project.path("run/cursors.jsonl")).expect("a trail");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Replaces the run's trail.
fn write_trail(project: &Project, lines: impl IntoIterator<Item = Value>) {
    let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(project.path("run/cursors.jsonl"), text).expect("written");
}

#[test]
fn a_killed_run_counts_targets_up_to_its_cursor() {
    let project = trained();
    std::fs::remove_dir_all(project.path("run/checkpoints")).expect("removed");
    for (last, counted) in [(35, 34), (40, 40)] {
        let whole = trail(&project);
        write_trail(&project, whole.iter().filter(|line| line["batch"].as_u64() <= Some(last)).cloned());
        let (_, data) = data(&project, &[]);
        assert_eq!((&data["batches"], &data["values_batches"]), (&json!(last), &json!(counted)));
        let values = data["values"]["lang"].as_object().expect("values");
        let sum: u64 = values.values().map(|value| value["ids"].as_u64().expect("a number")).sum();
        // A batch has 4 rows of 16 targets.
        assert_eq!(sum, counted * 64, "{data}");
        let output = project.program(&["report", "run", "--data"]).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let title = format!("Targets by lang, of the first {counted} batches");
        assert_eq!(text.contains(&title), counted < last, "{text}");
        write_trail(&project, whole);
    }
}

/// A run on two ranks: its trail has the first one's lanes, its checkpoints those of both.
#[test]
fn the_run_of_two_ranks_has_all_but_the_others_lanes() {
    let project = trained();
    let (_, alone) = data(&project, &["--check"]);
    let lanes = alone["check"]["of_lanes"].as_u64().expect("a number");
    let document = ["when", "run", "--document", "0.txt:1", "--json"];
    let found = |code: i32| {
        let output = project.program(&document).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["found"].clone()
    };
    let before = found(0);
    let shown = |arguments: &[&str]| {
        let output = project.program(&[&["inspect", "run.toml", "--json"], arguments].concat()).output();
        let output = output.expect("it runs");
        succeeded(&output);
        (output.stdout.clone(), said(&output))
    };
    let [early, late] = ["7", "57"].map(|batch| shown(&["--batch", batch]).0);
    let first = trail(&project).into_iter().map(|mut line| {
        if let Some(lanes) = line.get_mut("lanes").and_then(Value::as_array_mut) {
            lanes.iter_mut().skip(1).step_by(2).for_each(|lane| *lane = Value::Null);
            line.as_object_mut().expect("an object").remove("checksum");
        }
        line
    });
    write_trail(&project, first.collect::<Vec<_>>());
    let (code, both) = data(&project, &["--check"]);
    assert_eq!((code, &both["check"]["lanes"]), (Some(0), &json!(lanes / 2)), "{both}");
    assert_eq!(both["check"]["stretches"].as_array().map(Vec::len), Some(10));
    for key in ["ledger", "sources", "values", "files", "skipped", "batches"] {
        assert_eq!(both[key], alone[key], "{key}");
    }
    assert_eq!(found(0), before);
    assert_eq!(shown(&["--batch", "57"]).0, late);
    let (text, said) = shown(&["--batch", "7"]);
    assert!(text == early && said.contains("only the first rank's lanes"), "{said}");
}

/// From batch 30 on the trail has the first of two ranks' lanes.
fn with_two_ranks_from_30(project: &Project) {
    let trail = trail(project).into_iter().map(|mut line| {
        if let Some(lanes) = line["batch"].as_u64().filter(|batch| *batch > 30).and(line.get_mut("lanes")) {
            let lanes = lanes.as_array_mut().expect("lanes");
            lanes.iter_mut().skip(1).step_by(2).for_each(|lane| *lane = Value::Null);
            line.as_object_mut().expect("an object").remove("checksum");
        }
        line
    });
    write_trail(project, trail.collect::<Vec<_>>());
}

/// Between cursors of different numbers of ranks, the lanes that both know are checked, and the receipt says so.
#[test]
fn what_cursors_of_other_ranks_lead_through_is_checked() {
    let project = trained();
    let (_, whole) = data(&project, &["--check"]);
    let lanes = whole["check"]["of_lanes"].as_u64().expect("a number");
    with_two_ranks_from_30(&project);
    // The checkpoint after the last batch has all lanes, and leads there from the trail's first half.
    let lanes_at = |check: &Value, from: u64| -> Vec<u64> {
        let stretches = check["stretches"].as_array().into_iter().flatten();
        let here = stretches.filter(|stretch| stretch["from"] == from);
        here.filter_map(|stretch| stretch["lanes"].as_u64()).collect()
    };
    let (code, all) = data(&project, &["--check", "-n", "1000"]);
    let check = &all["check"];
    assert!(code == Some(0) && check.get("unchecked").is_none(), "{check}");
    assert_eq!((&check["batches"], &check["of_batches"]), (&json!(60), &json!(60)), "{check}");
    assert_eq!((lanes_at(check, 30), lanes_at(check, 35)), (vec![lanes], vec![lanes / 2]), "{check}");
    std::fs::remove_dir_all(project.path("run/checkpoints")).expect("removed");
    let (code, some) = data(&project, &["--check", "-n", "1000"]);
    let check = &some["check"];
    assert!(code == Some(0) && check.get("unchecked").is_none(), "{check}");
    assert_eq!((&check["batches"], &check["of_batches"]), (&json!(60), &json!(60)), "{check}");
    assert_eq!((lanes_at(check, 25), lanes_at(check, 30)), (vec![lanes], vec![lanes / 2]), "{check}");
    let output =
        project.program(&["report", "run", "--data", "--check", "-n", "100"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let half = format!("30 to 34  the same, in {} of {lanes} lanes\n", lanes / 2);
    assert!(text.contains("25 to 29  the same\n") && text.contains(&half), "{text}");

    // What was delivered there is compared.
    let edited = trail(&project).into_iter().map(|mut line| {
        if line["batch"] == 35 {
            line["lanes"][0]["digest"] = line["lanes"][2]["digest"].clone();
        }
        line
    });
    write_trail(&project, edited.collect::<Vec<_>>());
    let (code, other) = data(&project, &["--check", "-n", "1000"]);
    let differs = other["check"]["stretches"][0]["difference"].as_str().expect("a difference");
    assert!(code == Some(1) && differs.starts_with("lane 0 has digest"), "{other}");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let project = Project::trained();
    for (arguments, expected) in [
        (&["report", "run", "run", "--data"][..], "--data: it shows what one run read; name only one"),
        (&["report", "run", "--check"], "--data"),
        (&["ledger", "run", "--batches", "5"], "--batches: a run's ledger covers all of its batches"),
    ] {
        let output = project.program(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
}

#[test]
fn the_epochs_are_those_that_were_trained_on() {
    let project = trained();
    // Each source's epochs, and its documents.
    let receipt = || data(&project, &[]).1;
    let epochs = |receipt: &Value| -> Vec<[u64; 2]> {
        let of = |source: &Value| {
            ["complete", "begun"].map(|key| source["epochs"][key].as_u64().expect("a number"))
        };
        receipt["sources"].as_array().expect("sources").iter().map(of).collect()
    };
    let documents = |receipt: &Value| {
        [0, 1].map(|nth| receipt["ledger"]["sources"][nth]["documents"].as_u64().expect("a number"))
    };
    let train = |settings: &[String]| {
        std::fs::remove_dir_all(project.path("run")).expect("removed");
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        project.succeed(&[&["train", "run.toml", "--set", "train.log_every=0"], &settings[..]].concat());
        receipt()
    };
    let mut of_one = [0; 2];
    for (lanes, of) in [(4, [3, 2]), (1, [1, 2])] {
        let lanes = format!("pipeline.lanes={lanes}");
        let [lines, records] = [0, 1].map(|nth| format!("source.{nth}.epochs={}", of[nth]));
        let receipt = train(&["train.steps=100000".to_owned(), lanes, lines, records]);
        assert_eq!(epochs(&receipt), of.map(|epochs| [epochs, epochs]), "{receipt}");
        // What cannot be read is skipped in each epoch, and listed once.
        let skipped = &receipt["ledger"]["sources"][1]["skipped"];
        assert_eq!((skipped, receipt["skipped"].as_array().map(Vec::len)), (&json!(2), Some(1)), "{receipt}");
        of_one = [0, 1].map(|nth| documents(&receipt)[nth] / of[nth]);
    }
    let output = project.program(&["report", "run", "--data"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.lines().any(|line| line.starts_with("records ") && line.ends_with(" 2")), "{text}");
    assert!(text.contains("\nSkipped: 1 document, each once; the ledger counts "), "{text}");
    // One lane reads one epoch after the other.
    for steps in [3, 150, 320] {
        let settings = [format!("train.steps={steps}"), "pipeline.lanes=1".to_owned()];
        let receipt = train(&settings);
        let documents = documents(&receipt);
        let expected = [0, 1].map(|nth| {
            let (documents, of_one) = (documents[nth], of_one[nth]);
            [documents / of_one, documents.div_ceil(of_one)]
        });
        assert_eq!(epochs(&receipt), expected, "{receipt}");
    }
    // Without the files, the cursors tell the least.
    std::fs::remove_dir_all(project.path("corpus")).expect("removed");
    let receipt = receipt();
    assert_eq!(receipt["sources"][1]["epochs"]["at_least"], json!(true), "{receipt}");
}
