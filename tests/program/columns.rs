//! Columns that come along: how `inspect` shows them, and what becomes of them in token shards.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{failure, run, said, text};

/// Two directories of records, and a config that asks for some columns.
fn written(directory: &Path, columns: &str) -> String {
    let write = |name: &str, lines: &str| {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, lines).expect("a file");
    };
    write(
        "lang=en/a.jsonl",
        "{\"text\": \"one\", \"score\": 1.0, \"meta\": {\"url\": \"x\\\"y\"}}\n{\"text\": \"two\", \"score\": 7}\n",
    );
    write("lang=de/b.jsonl", "{\"text\": \"drei\", \"lang\": null, \"score\": true}\n");
    let paths = format!("{}/*/*.jsonl", directory.display());
    let config = format!(
        "[[source]]\nkind = \"jsonl\"\npaths = [{paths:?}]\nfield = \"text\"\n{columns}\n[tokenizer]\nkind = \"bytes\"\n\
         eos = \"<|endoftext|>\"\n[pipeline]\nlanes = 1\nseq_len = 16\nbatch_size = 8\nepochs = 1\nlast = \"short\"\n\
         pack = \"pad\"\nwindow = 1\nshuffle_splits = false\n"
    );
    write("run.toml", &config);
    directory.join("run.toml").display().to_string()
}

/// The columns of all pieces, by their texts' first letters.
fn columns(config: &str) -> Vec<Value> {
    let shown = text(&["inspect", config, "--json", "-n", "9"]);
    let batches = shown.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let pieces = batches.flat_map(|batch| batch["pieces"].as_array().expect("pieces").clone());
    pieces.map(|piece| piece["columns"].clone()).collect()
}

#[test]
fn inspect_shows_the_columns_of_each_piece() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "columns = [\"score\", \"lang\", \"meta.url\"]");
    let expected = [
        json!({"score": true, "lang": null, "meta.url": null}),
        json!({"score": 1.0, "lang": "en", "meta.url": "x\"y"}),
        json!({"score": 7, "lang": "en", "meta.url": null}),
    ];
    assert_eq!(columns(&config), expected);
    let shown = text(&["inspect", &config]);
    for line in [
        "b.jsonl:1 (byte 0), score = true, lang = null, meta.url = null\n",
        "a.jsonl:1 (byte 0), score = 1.0, lang = \"en\", meta.url = \"x\\\"y\"\n",
        "a.jsonl:2 (byte 55), score = 7, lang = \"en\", meta.url = null\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let config = written(directory.path(), "");
    assert_eq!(columns(&config), [Value::Null, Value::Null, Value::Null]);
}

#[test]
fn a_value_without_a_type_is_null_and_said_once_for_each_column() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "columns = [\"lang\", \"tags\", \"n\"]");
    let lines: String =
        (0..5).map(|n| format!("{{\"text\": \"{n}\", \"tags\": [{n}], \"n\": {n}e400}}\n")).collect();
    std::fs::write(directory.path().join("lang=en/a.jsonl"), &lines[lines.find('\n').expect("a line") + 1..])
        .expect("a file");
    std::fs::write(directory.path().join("lang=de/b.jsonl"), "{\"text\": \"drei\"}\n").expect("a file");
    let null = |lang: &str| json!({"lang": lang, "tags": null, "n": null});
    assert_eq!(columns(&config), [null("de"), null("en"), null("en"), null("en"), null("en")]);
    let said = said(&run(&["inspect", &config, "-n", "9"]));
    let [tags, number] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    for (line, what) in
        [(tags, "column \"tags\" is a list"), (number, "column \"n\" is 1e400, which cannot be read")]
    {
        let parts = [
            "WARN", what, "it is null in batches", "name a field within it", "lang=en/a.jsonl", "line=1",
            "byte=0",
        ];
        for part in parts {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}

#[test]
fn a_column_that_no_record_has_is_said_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), "columns = [\"lang\", \"langg\", \"rare\"]");
    let line = |n: u32| match n {
        90 => "{\"text\": \"90\", \"rare\": 1}\n".to_owned(),
        n => format!("{{\"text\": \"{n}\"}}\n"),
    };
    std::fs::write(directory.path().join("lang=en/a.jsonl"), (0..300).map(line).collect::<String>())
        .expect("a file");
    let said = said(&run(&["inspect", &config, "-n", "99"]));
    let warned = said.lines().filter(|line| line.contains("WARN")).collect::<Vec<_>>();
    assert!(
        warned.len() == 1 && warned[0].contains("has the column \"langg\": it is null in batches"),
        "{said}"
    );
}

#[test]
fn token_shards_have_the_columns_that_they_were_prepared_with() {
    let directory = tempfile::tempdir().expect("a directory");
    let shards = directory.path().join("shards");
    let config = written(directory.path(), "columns = [\"score\", \"lang\"]");
    text(&["prepare", &config, "--output", &shards.display().to_string()]);
    let of_shards = |columns: &str| {
        let config = format!(
            "[[source]]\nkind = \"shards\"\npaths = [{shards:?}]\n{columns}\n[pipeline]\nlanes = 1\nseq_len = 16\n\
             batch_size = 8\nepochs = 1\nlast = \"short\"\npack = \"pad\"\nwindow = 1\nshuffle_splits = false\n"
        );
        let path = directory.path().join("shards.toml");
        std::fs::write(&path, config).expect("a file");
        path.display().to_string()
    };
    let config = of_shards("columns = [\"lang\"]");
    assert_eq!(columns(&config), [json!({"lang": null}), json!({"lang": "en"}), json!({"lang": "en"})]);
    let config = of_shards("columns = [\"lang\", \"url\"]");
    let (_, refused) = failure(&["inspect", &config]);
    let expected = format!(
        "source.0.columns: {} has the columns score, lang, and not url; prepare it again, with source.columns",
        shards.display()
    );
    assert!(refused.contains(&expected), "{refused}");
    // Programs that read ids alone get them all.
    let file = directory.path().join("ids.bin");
    let [from, to] = [&shards, &file].map(|path| path.display().to_string());
    text(&["export", &from, "--to", "megatron", "--eos", "<|endoftext|>", "--output", &to]);
    assert!(file.metadata().expect("a file").len() > 0);
}
