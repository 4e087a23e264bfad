//! In which steps a run was trained on a document.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use super::*;

/// A document: its path and line.
type Key = (String, u64);

/// A finished run, whose steps use two batches each.
fn trained() -> Project {
    let project = Project::new();
    let config = CONFIG.replace("paths =", "document = \"line\"\npaths =");
    let config = config.replace("steps = 20", "steps = 30\naccumulate = 2\ntrail_every = 2");
    let config = config.replace("batch_size = 4", "batch_size = 4\nwindow = 4\nlanes = 2");
    std::fs::write(project.path("run.toml"), config).expect("written");
    project.succeed(&["train", "run.toml"]);
    project
}

/// The pieces that `inspect` shows of each document, with the batch.
fn inspected(project: &Project, arguments: &[&str]) -> BTreeMap<Key, Vec<Value>> {
    let all = [&["inspect", "run.toml", "--json"], arguments].concat();
    let output = project.program(&all).output().expect("it runs");
    succeeded(&output);
    let mut pieces: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).expect("text").lines() {
        let batch: Value = serde_json::from_str(line).expect("JSON");
        for piece in batch["pieces"].as_array().expect("pieces") {
            let key =
                (piece["path"].as_str().expect("a path").to_owned(), piece["line"].as_u64().expect("a line"));
            let number = batch["batch"].as_u64().expect("a number");
            let place = json!({
                "step": number / 2 + 1, "batch": number, "row": piece["row"], "from": piece["from"],
                "to": piece["to"], "epoch": 0, "source": "0",
            });
            pieces.entry(key).or_default().push(place);
        }
    }
    pieces
}

/// The code and the object of a search.
fn when(project: &Project, document: &str) -> (Option<i32>, Value) {
    let output =
        project.program(&["when", "run", "--document", document, "--json"]).output().expect("it runs");
    (
        output.status.code(),
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output))),
    )
}

#[test]
fn a_search_says_the_steps_that_inspect_shows() {
    let project = trained();
    let shown = inspected(&project, &["-n", "60"]);
    for ((path, line), places) in shown.iter().step_by(shown.len() / 5) {
        let (code, found) = when(&project, &format!("{path}:{line}"));
        assert_eq!((code, &found["found"]), (Some(0), &Value::from(places.clone())), "{path}:{line}");
        assert_eq!(found["of_batches"], 60);
        assert!(found["read_batches"].as_u64() < Some(40), "{found}");
    }
    // The end of a path will do; people get lines.
    let ((path, line), places) = shown.first_key_value().expect("a document");
    let file = path.rsplit('/').next().expect("a name");
    let output = project.program(&["when", "run", "--document", &format!("{file}:{line}")]);
    let output = { output }.output().expect("it runs");
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    assert!(text.starts_with(&format!("{path}:{line}: ")), "{text}");
    assert!(
        text.contains(&format!("  step {}, batch {}, row ", places[0]["step"], places[0]["batch"])),
        "{text}"
    );
    assert!(succeeded(&output).contains("of 60 batches"), "{}", said(&output));
    // Without the trail it is the same, and costs more.
    let (_, before) = when(&project, &format!("{path}:{line}"));
    std::fs::remove_file(project.path("run/cursors.jsonl")).expect("removed");
    let (_, after) = when(&project, &format!("{path}:{line}"));
    assert_eq!(before["found"], after["found"]);
    let output = project.program(&["when", "run", "--document", &format!("{path}:{line}")]);
    assert!(succeeded(&{ output }.output().expect("it runs")).contains("has no trail"));
}

#[test]
fn a_document_that_was_not_trained_on_has_a_reason() {
    let project = trained();
    let shown = inspected(&project, &["-n", "60"]);
    let held_out = inspected(&project, &["--held-out", "-n", "1000"]);
    let (path, line) = held_out.keys().next().expect("a held-out document");
    let (code, found) = when(&project, &format!("{path}:{line}"));
    let reason = found["reason"].as_str().expect("a reason");
    assert!(code == Some(3) && reason.contains("held out"), "{found}");
    assert_eq!((&found["found"], &found["read_batches"]), (&json!([]), &json!(0)));

    let is_later = |line: &u64| {
        let key = (path.clone(), *line);
        !shown.contains_key(&key) && !held_out.contains_key(&key)
    };
    let line = (1..200).find(is_later).expect("a document that the run has not reached");
    let (code, found) = when(&project, &format!("{path}:{line}"));
    let reason = found["reason"].as_str().expect("a reason");
    assert!(code == Some(3) && reason.contains("the run has not reached it in its 60 batches"), "{found}");

    for (document, expected) in [
        ("corpus/2.text:1", "--document: corpus/2.text is not a file of the run; did you mean corpus/2.txt"),
        ("corpus/2.txt", "--document: corpus/2.txt has many documents; say on which line"),
        (
            "2.txt:900",
            "--document: no document begins at corpus/2.txt:900; the last one before it is corpus/2.txt:200",
        ),
    ] {
        let said = project.fail(&["when", "run", "--document", document]);
        assert!(said.contains(expected), "{said}");
    }
    // A script tells the answer from a failure by its code.
    for (command, codes) in
        [("when", "0 it was trained on, 3 it was not"), ("report", "0 done, 1 batches differ")]
    {
        let help = project.program(&[command, "-h"]).output().expect("it runs");
        let help = String::from_utf8(help.stdout).expect("text");
        assert!(help.contains(codes) && help.contains("2 wrong usage"), "{help}");
    }
    let said = project.fail(&["when", "corpus", "--document", "2.txt:1"]);
    assert!(said.contains("this is not a run's directory"), "{said}");
}

#[test]
fn a_file_is_named_as_it_is_found_and_each_of_its_sources() {
    let project = Project::new();
    let second = "\n[[source]]\nname = \"again\"\ndocument = \"line\"\npaths = [\"./corpus/../corpus/1.txt\"]\n\n[tokenizer]";
    let config = CONFIG.replace("paths =", "name = \"first\"\ndocument = \"line\"\npaths =");
    let config = config.replace("[tokenizer]", second).replace("holdout = 0.1", "lanes = 2\nepochs = 1");
    let config = config
        .replace("steps = 20", "steps = 1000\ntrail_every = 10")
        .replace("log_every = 1", "log_every = 0");
    std::fs::write(project.path("run.toml"), config.replace("validate_every = 10", "validate_every = 0"))
        .expect("written");
    project.succeed(&["train", "run.toml"]);
    let whole = project.path("corpus/1.txt").display().to_string();
    let (_, found) = when(&project, "corpus/1.txt:7");
    let sources: Vec<&str> = found["found"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|place| place["source"].as_str())
        .collect();
    assert!(sources.contains(&"first") && sources.contains(&"again"), "{found}");
    for path in ["./corpus/1.txt", "1.txt", "corpus/../corpus/1.txt", "./corpus/../corpus/1.txt", &whole] {
        let (code, other) = when(&project, &format!("{path}:7"));
        assert_eq!((code, &other["found"]), (Some(0), &found["found"]), "{path}: {other}");
    }
    let output = project.program(&["when", "run", "--document", "1.txt:7"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains(", epoch 0 of source first\n") && text.contains(", epoch 0 of source again\n"),
        "{text}"
    );
}

#[test]
fn a_file_whose_name_is_not_utf_8_is_named() {
    let project = Project::new();
    let name = b"caf\xe9.txt";
    let config = std::fs::read_to_string(project.path("run.toml")).expect("a config");
    let config =
        config.replace("steps = 20", "steps = 4\ntrail_every = 2").replace("holdout = 0.1", "holdout = 0.0");
    std::fs::write(project.path("run.toml"), config.replace("validate_every = 10", "validate_every = 0"))
        .expect("written");
    std::fs::remove_dir_all(project.path("corpus")).expect("removed");
    std::fs::create_dir(project.path("corpus")).expect("made");
    std::fs::write(project.path("corpus").join(OsStr::from_bytes(name)), "some words\n".repeat(20))
        .expect("written");
    project.succeed(&["train", "run.toml"]);
    let document = |name: &[u8]| [b"corpus/", name, b":1"].concat();
    let when = |document: &[u8]| {
        let output = project
            .program(&["when", "run", "--json", "--document"])
            .arg(OsStr::from_bytes(document))
            .output();
        let output = output.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // As it is, and as `inspect` shows it.
    for document in [document(name), document("caf\u{fffd}.txt".as_bytes())] {
        let (code, text) = when(&document);
        assert!(code == Some(0) && text.contains("corpus/caf\u{fffd}.txt"), "{text}");
    }
}

/// A project whose corpus has this many texts, of which one of three has more than one id: the others have no target.
fn of_short_texts(texts: u64) -> Project {
    let project = Project::new();
    std::fs::remove_dir_all(project.path("corpus")).expect("removed");
    std::fs::create_dir(project.path("corpus")).expect("a directory");
    let text: String = (0..texts)
        .map(|line| if line % 3 < 2 { "x\n".to_owned() } else { format!("line {line}\n") })
        .collect();
    std::fs::write(project.path("corpus/a.txt"), text).expect("written");
    project
}

/// Trains on short texts in their order, one in a batch, with a cursor after each step.
fn train_on_short_texts(project: &Project, more: &[&str]) {
    let settings = [
        "source.0.document=line",
        "tokenizer.eos=",
        "pipeline={ seq_len = 16, batch_size = 1, pack = 'pad', window = 1, lanes = 1, shuffle_splits = false }",
        "train.trail_every=1",
        "train.validate_every=",
    ];
    let settings = settings.iter().chain(more).flat_map(|setting| ["--set", setting]);
    project.succeed(&["train", "run.toml"].into_iter().chain(settings).collect::<Vec<_>>());
}

#[test]
fn batches_without_targets_belong_to_no_step() {
    let project = of_short_texts(60);
    train_on_short_texts(&project, &["train.steps=8"]);
    let trail = millstream::trail::all(project.path("run/cursors.jsonl")).expect("a trail");
    let ends: Vec<u64> = trail.iter().map(|cursor| cursor.batch()).collect();
    assert!(ends.len() == 8 && ends[7] > 8, "{ends:?}");
    let mut found_in = Vec::new();
    for line in (3..=21).step_by(3) {
        let (_, found) = when(&project, &format!("a.txt:{line}"));
        let place = &found["found"][0];
        let batch = place["batch"].as_u64().expect("a number");
        let step = ends.iter().position(|end| batch < *end).expect("it was read") as u64 + 1;
        assert_eq!(place["step"], step, "line {line}: {found} {ends:?}");
        found_in.push(step);
    }
    assert!(found_in.windows(2).any(|steps| steps[0] != steps[1]), "{found_in:?}");
    let (code, found) = when(&project, "a.txt:1");
    let reason = "it was in batch 0, which no step used: none of its rows has a target";
    assert_eq!((code, &found["reason"]), (Some(3), &json!(reason)), "{found}");

    // Who makes the batches again knows where each session began.
    let resume = ["train", "--resume", "run", "--set", "pipeline.batch_size=2", "--set", "train.steps=14"];
    project.succeed(&resume);
    project.succeed(&["report", "run", "--data", "--check", "-n", "50"]);
}

#[test]
fn batches_without_targets_before_a_resume_are_of_the_session_before() {
    let project = of_short_texts(62);
    train_on_short_texts(&project, &["train.steps=100", "pipeline.epochs=1"]);
    let more = ["--set", "pipeline.epochs=2", "--set", "pipeline.batch_size=2"];
    project.succeed(&[&["train", "--resume", "run"], &more[..]].concat());
    project.succeed(&["report", "run", "--data", "--check", "-n", "50"]);
    // Twenty texts have targets: one in each step of the first session, and in each of the second.
    for (line, steps) in [(57, [19, 39]), (60, [20, 40])] {
        let (_, found) = when(&project, &format!("a.txt:{line}"));
        let of: Vec<&Value> =
            found["found"].as_array().into_iter().flatten().map(|place| &place["step"]).collect();
        assert_eq!(of, steps, "{found}");
    }
}
