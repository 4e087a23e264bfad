//! `millstream ledger`: of a config, with and without a count, and of what is none.

use std::path::Path;

use serde_json::Value;

use crate::program::{failure, text};

/// Two sources of lines, and a config of these settings that reads them.
fn written(directory: &Path, settings: &str) -> String {
    let lines = |name: &str, lines: u64| {
        let text: String = (0..lines).map(|line| format!("{name} has a line {line}\n")).collect();
        std::fs::write(directory.join(name), text).expect("a file");
        format!("[[source]]\npaths = [{:?}]\n", directory.join(name))
    };
    let sources = [lines("a.txt", 90), lines("b.txt", 41)].concat();
    let config = format!(
        "{sources}[tokenizer]\nkind = \"bytes\"\n[pipeline]\nlanes = 2\nseq_len = 16\nbatch_size = 4\n{settings}\n"
    );
    let path = directory.join("ledger.toml");
    std::fs::write(&path, config).expect("a config");
    path.display().to_string()
}

/// The numbers of all sources.
fn sources(arguments: &[&str]) -> Vec<Value> {
    let printed = text(&[&["ledger", "--json"], arguments].concat());
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    printed["sources"].as_array().expect("sources").clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn what_is_left_completes_what_was_delivered() {
    let directory = tempfile::tempdir().expect("a directory");
    let ids = ["a.txt", "b.txt"].map(|name| {
        written(directory.path(), "");
        let text = std::fs::read_to_string(directory.path().join(name)).expect("it was written");
        3 * text.lines().map(str::len).sum::<usize>() as u64
    });
    for (uneven, last) in [("pad", "short"), ("pad", "drop"), ("stop", "drop"), ("stop", "short")] {
        let config = written(directory.path(), &format!("epochs = 3\nuneven = {uneven:?}\nlast = {last:?}"));
        for (source, (ids, documents)) in sources(&[&config]).iter().zip(ids.iter().zip([270, 123])) {
            assert_eq!(number(&source["ids"]) + number(&source["dropped"]["ids"]), *ids, "{source}");
            assert_eq!(number(&source["documents"]) + number(&source["dropped"]["documents"]), documents);
            let is_dropped = number(&source["dropped"]["ids"]) > 0;
            assert!(!is_dropped || (uneven, last) != ("pad", "short"), "{source}");
        }
        let part = sources(&[&config, "-n", "5", "--count"]);
        for (source, ids) in part.iter().zip(ids) {
            assert!(number(&source["ids"]) > 0 && source.get("dropped").is_none(), "{source}");
            assert_eq!(number(&source["ids"]) + number(&source["not_reached"]["ids"]), ids, "{source}");
        }
    }
}

#[test]
fn the_batches_of_an_epoch_are_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "epochs = 1");
    let printed = |arguments: &[&str]| -> Value {
        serde_json::from_str(&text(&[&["ledger", "--json", &config], arguments].concat())).expect("JSON")
    };
    let all = printed(&[]);
    let batches = number(&all["batches"]);
    assert!(text(&["ledger", &config]).starts_with(&format!("all {batches} batches ")), "{all}");
    for (more, has_ended) in [(0, false), (1, true)] {
        let part = printed(&["-n", &(batches + more).to_string()]);
        assert_eq!((&part["batches"], &part["has_ended"]), (&batches.into(), &has_ended.into()), "{part}");
        assert_eq!(part["padding_of_no_source"], all["padding_of_no_source"]);
    }
}

#[test]
fn of_a_stream_without_end_one_epoch_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "");
    let [a, b] = &sources(&[&config, "-n", "300", "--count"])[..] else { panic!("two sources") };
    assert_eq!((number(&a["epoch"]["documents"]), number(&b["epoch"]["documents"])), (90, 41));
    assert!(number(&b["documents"]) > 82 && b.get("not_reached").is_none(), "{b}");
    let table = text(&["ledger", &config, "-n", "300"]);
    assert!(table.starts_with("300 batches ") && table.contains("\nids learned "), "{table}");
    assert!(!table.contains("masked"), "{table}");

    let (code, refused) = failure(&["ledger", &config]);
    assert_eq!(code, 2);
    assert!(refused.contains("--batches: this stream has no end; say how many batches to read"), "{refused}");
    let (_, refused) = failure(&["ledger", &directory.path().display().to_string()]);
    assert!(refused.contains("is not a run") || refused.contains("no run"), "{refused}");
}

#[test]
fn values_of_a_column_have_a_table_of_their_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "epochs = 1");
    let records = directory.path().join("c.jsonl");
    let record = |number: u64| {
        let lang = if number.is_multiple_of(3) { "de" } else { "en" };
        format!("{{\"text\": \"record {number}\", \"lang\": \"{lang}\"}}\n")
    };
    std::fs::write(&records, (0..30).map(record).collect::<String>()).expect("a file");
    let by = "pipeline.ledger_by=lang";
    let source = format!(
        "source.1={{ kind = 'jsonl', field = 'text', paths = ['{}'], columns = ['lang'] }}",
        records.display()
    );
    let arguments = [&*config, "--set", &source, "--set", by];
    let printed: Value =
        serde_json::from_str(&text(&[&["ledger", "--json"][..], &arguments].concat())).expect("JSON");
    assert_eq!(printed["ledger_by"], "lang");
    let documents = |value: &Value| (value["value"].clone(), number(&value["documents"]));
    let values: Vec<_> = printed["values"].as_array().expect("values").iter().map(documents).collect();
    assert_eq!(values, [("none".into(), 90), ("en".into(), 20), ("de".into(), 10)]);
    let sum: u64 =
        printed["values"].as_array().into_iter().flatten().map(|value| number(&value["ids"])).sum();
    let all: u64 =
        printed["sources"].as_array().into_iter().flatten().map(|source| number(&source["ids"])).sum();
    assert_eq!(sum, all);

    let some = text(&[&["ledger", "-n", "2", "--count"][..], &arguments].concat());
    let (_, table) = some.split_once("\n\n").expect("two tables");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..2], ["lang", "source"], "{table}");
    assert_eq!((lines[0].last(), lines.len()), (Some(&"all"), 4), "{table}");
    let all = |value: &str| {
        let line = lines.iter().find(|line| line[0] == value).expect("the value");
        line.last().and_then(|ids| ids.parse::<u64>().ok()).expect("a number")
    };
    assert_eq!(all("none") + all("en") + all("de"), sum, "{table}");

    let (code, refused) = failure(&["ledger", &config, "--set", by]);
    assert_eq!(code, 2, "{refused}");
    assert!(refused.contains("pipeline.ledger_by: no source has the column \"lang\""), "{refused}");
}

#[test]
fn no_cell_of_a_table_is_blank_for_a_value_or_a_source() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "epochs = 1");
    let records = directory.path().join("c.jsonl");
    let langs = ["\"\"", "\" \"", "\"en\"", "\" en\"", "1", "\"1\""];
    let record = |lang: &str| format!("{{\"text\": \"some words\", \"lang\": {lang}}}\n");
    std::fs::write(&records, langs.map(record).concat()).expect("a file");
    let source = format!(
        "source.1={{ kind = 'jsonl', field = 'text', paths = ['{}'], columns = ['lang'] }}",
        records.display()
    );
    let arguments = ["ledger", &config, "--set", &source, "--set", "pipeline.ledger_by=lang"];
    let table = text(&arguments);
    let (head, by_value) = table.split_once("\n\n").expect("two tables");
    assert!(head.lines().next().is_some_and(|head| head.ends_with("  source 0  source 1")), "{table}");
    let mut begins: Vec<&str> =
        by_value.lines().map(|line| line.split("  ").next().unwrap_or_default()).collect();
    begins.sort_unstable();
    assert_eq!(begins, ["\" \"", "\" en\"", "\"\"", "1", "en", "lang", "none"], "{table}");
    // For scripts they are as they are.
    let printed: Value = serde_json::from_str(&text(&[&arguments[..], &["--json"]].concat())).expect("JSON");
    let values = printed["values"].as_array().into_iter().flatten();
    let mut values: Vec<&str> = values.filter_map(|value| value["value"].as_str()).collect();
    values.sort_unstable();
    assert_eq!(values, ["", " ", " en", "1", "en", "none"]);
    assert_eq!(printed["padding_of_no_source"].as_u64().map(|targets| targets % 16), Some(0), "{printed}");
}

/// A source's documents and ids, with those of a row that a count adds.
fn with(source: &Value, row: &str) -> [u64; 2] {
    ["documents", "ids"].map(|key| number(&source[key]) + number(&source[row][key]))
}

#[test]
fn a_rank_counts_its_own_lanes() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "epochs = 3");
    let all = sources(&[&config]);
    for (rows, row) in
        [(&["-n", "5", "--count"][..], "not_reached"), (&["--set", "pipeline.last=drop"], "dropped")]
    {
        let ranks = ["pipeline.rank=0", "pipeline.rank=1"].map(|rank| {
            let rank = ["--set", rank, "--set", "pipeline.world=2"];
            sources(&[&[&*config][..], &rank, rows].concat())
        });
        for (nth, all) in all.iter().enumerate() {
            let [one, other] = ranks.each_ref().map(|rank| with(&rank[nth], row));
            assert!(one[1] > 0 && other[1] > 0, "{ranks:?}");
            assert_eq!(
                [one[0] + other[0], one[1] + other[1]],
                ["documents", "ids"].map(|key| number(&all[key]))
            );
        }
    }
}

#[test]
fn what_wraps_counts_as_often_as_it_comes() {
    let directory = tempfile::tempdir().expect("a directory");
    // One lane has far more than the others.
    let config = written(directory.path(), "epochs = 1\nuneven = \"wrap\"\nlast = \"drop\"");
    let arguments = [&*config, "--set", "pipeline.lanes=3", "--set", "pipeline.batch_size=7"];
    let whole = sources(&[&arguments[..], &["--set", "pipeline.last=short"]].concat());
    let dropped = sources(&arguments);
    let part = sources(&[&arguments[..], &["-n", "3", "--count"]].concat());
    for (nth, whole) in whole.iter().enumerate() {
        let expected = with(whole, "dropped");
        assert_eq!(number(&whole["dropped"]["ids"]), 0, "{whole}");
        assert_eq!(with(&dropped[nth], "dropped"), expected);
        assert_eq!(with(&part[nth], "not_reached"), expected);
    }
    assert!(dropped.iter().any(|source| number(&source["dropped"]["ids"]) > 0), "{dropped:?}");
}

#[test]
fn what_a_source_without_a_weight_has_left_is_dropped() {
    let directory = tempfile::tempdir().expect("a directory");
    let all = sources(&[&written(directory.path(), "epochs = 1")]);
    let weights = ["--set", "source.0.weight=1", "--set", "source.1.weight=1"];
    let from_the_start = &["--set", "source.1.weight=0"][..];
    let later = &["--set", "mixture.changes=[{ batch = 3, weights = { 0 = 1, 1 = 0 } }]"][..];
    for change in [from_the_start, later] {
        let config = written(directory.path(), "epochs = 1");
        let arguments = [&[&*config][..], &weights, change].concat();
        let ended = sources(&arguments);
        let part = sources(&[&arguments[..], &["-n", "4", "--count"]].concat());
        for (nth, all) in all.iter().enumerate() {
            let expected = [number(&all["documents"]), number(&all["ids"])];
            assert_eq!(
                [with(&ended[nth], "dropped"), with(&part[nth], "not_reached")],
                [expected; 2],
                "{change:?}"
            );
        }
        assert!(number(&ended[1]["dropped"]["documents"]) > 0, "{ended:?}");
    }
}

#[test]
fn one_epoch_is_one_of_each_source() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "");
    let arguments =
        [&*config, "-n", "3", "--count", "--set", "source.0.epochs=2", "--set", "pipeline.lanes=3"];
    for uneven in ["pad", "stop", "wrap"] {
        let uneven = format!("pipeline.uneven={uneven}");
        let arguments = [&arguments[..], &["--set", &uneven, "--set", "pipeline.batch_size=3"]].concat();
        let sources = sources(&arguments);
        let epochs: Vec<u64> = sources.iter().map(|source| number(&source["epoch"]["documents"])).collect();
        assert_eq!(epochs, [90, 41], "{uneven}");
    }
}

#[test]
fn a_row_without_its_documents_is_padding_of_its_source() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "pack = \"pad\"");
    let arguments =
        [&*config, "-n", "5", "--set", "source.0.document=line", "--set", "source.1.document=line"];
    let ledger = |more: &[&str]| -> Value {
        let printed = text(&[&["ledger", "--json"], &arguments[..], more].concat());
        serde_json::from_str(&printed).expect("JSON")
    };
    let batches = text(&[&["inspect", "--json"], &arguments[..]].concat());
    let documents: std::collections::BTreeSet<String> = batches
        .lines()
        .flat_map(|batch| {
            let batch: Value = serde_json::from_str(batch).expect("JSON");
            batch["pieces"].as_array().expect("pieces").clone()
        })
        .map(|piece| format!("{{ path = {}, byte = {} }}", piece["path"], piece["byte"]))
        .collect();
    let some: Vec<&str> = documents.iter().step_by(2).map(String::as_str).collect();
    let exclude = format!("exclude.documents=[{}]", some.join(", "));
    let (before, after) = (ledger(&[]), ledger(&["--set", &exclude]));
    assert_eq!(before["padding_of_no_source"], after["padding_of_no_source"]);
    for nth in 0..2 {
        // Each row has 16 targets, whatever is in it.
        let of = |ledger: &Value| {
            let source = &ledger["sources"][nth];
            ["learned", "padding"].map(|key| number(&source[key]))
        };
        let ([learned, padding], [less, more]) = (of(&before), of(&after));
        assert!(less < learned && learned + padding == less + more, "{before} {after}");
        let excluded = number(&after["sources"][nth]["excluded"]["documents"]);
        assert_eq!(
            number(&after["sources"][nth]["documents"]) + excluded,
            number(&before["sources"][nth]["documents"])
        );
    }
}
