//! `columns` and `where`: where values are looked for, their types, and what is refused.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray, Float32Array,
    Int64Array, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_buffer::i256;
use futures::StreamExt;
use millstream::config::{ChatConfig, OnError, Oversize, Samples, SourceConfig, SourceKind, Task};
use millstream::document::ColumnValue;
use millstream::{Error, LaneCursor, Source, Tracked};

use serde_json::{Value, json};

use crate::chats_in_files::{TEMPLATES, shard, table};
use crate::corpus::{Corpus, run};

mod order;

fn text(text: &str) -> ColumnValue {
    ColumnValue::Text(text.into())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A source of all files of a corpus.
fn source(corpus: &Corpus, kind: SourceKind) -> SourceConfig {
    let field = Some(kind).filter(|kind| *kind != SourceKind::Text).map(|_| "text".to_owned());
    SourceConfig { kind, field, ..corpus.lines() }
}

/// The text of a document, and its columns.
type Found = (String, Vec<Option<ColumnValue>>);

/// All documents, ordered by their texts; or the error.
fn found(config: &SourceConfig) -> Result<Vec<Found>, Error> {
    run(async {
        let source = Source::open(std::slice::from_ref(config)).await?;
        let mut documents = std::pin::pin!(source.documents(&LaneCursor::default()));
        let mut found = Vec::new();
        while let Some(document) = documents.next().await {
            let Tracked { value, .. } = document?;
            let columns = config.columns.iter().map(|name| value.column(name).cloned()).collect();
            assert_eq!(value.column("?"), None);
            found.push((value.text().to_owned(), columns));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    })
}

fn texts(config: &SourceConfig) -> Vec<String> {
    found(config).expect("no errors").into_iter().map(|(text, _)| text).collect()
}

fn refused(config: &SourceConfig) -> String {
    found(config).expect_err("a refusal").to_string()
}

/// One table in a file of each kind, as its column `text` and one with this name and value.
fn files(name: &str, value: &str) -> Vec<(SourceKind, Vec<u8>)> {
    let strings = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text.to_owned()])) };
    let columns = [("text", strings("a text")), (name, strings(value))];
    let mut archive = tar::Builder::new(Vec::new());
    for (extension, text) in [("text", "a text"), (name, value)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, format!("1.{extension}"), text.as_bytes()).expect("a member");
    }
    let row = vec!["a text".to_owned(), value.to_owned()];
    let line = format!("{{\"text\": \"a text\", {name:?}: {value:?}}}");
    vec![
        (SourceKind::Jsonl, line.clone().into_bytes()),
        (SourceKind::Jsonl, format!("[{line}]").into_bytes()),
        (SourceKind::Csv, format!("text,{name}\na text,{value}\n").into_bytes()),
        (SourceKind::Tsv, format!("text\t{name}\na text\t{value}\n").into_bytes()),
        (SourceKind::Parquet, table(SourceKind::Parquet, &columns)),
        (SourceKind::Arrow, table(SourceKind::Arrow, &columns)),
        (SourceKind::Mds, shard(&["text", name], &["str", "str"], &[row])),
        (SourceKind::Tar, archive.into_inner().expect("an archive")),
    ]
}

#[test]
fn a_column_that_a_file_lacks_is_in_its_path() {
    for (kind, bytes) in files("own", "x") {
        let corpus = Corpus::new([
            ("lang=en/year=2024/own=y/1.json", &bytes),
            ("lang=de/year=__HIVE_DEFAULT_PARTITION__/own=y/1.json", &bytes),
        ]);
        let mut config = source(&corpus, kind);
        config.columns = names(&["year", "own", "lang"]);
        let all = found(&config).expect("no errors");
        let mut values: Vec<_> = all.iter().map(|(_, values)| format!("{values:?}")).collect();
        values.sort();
        let wanted = [
            [Some(ColumnValue::Null), Some(text("x")), Some(text("de"))],
            [Some(text("2024")), Some(text("x")), Some(text("en"))],
        ];
        assert_eq!(values, wanted.map(|values| format!("{values:?}")), "{kind}: the file's own goes first");
        for (filter, count) in [("lang = 'en'", 1), ("year > 2023", 1), ("year is null", 1), ("own = 'x'", 2)]
        {
            let config = SourceConfig { filter: Some(filter.to_owned()), ..config.clone() };
            assert_eq!(texts(&config).len(), count, "{kind}: {filter}");
        }
    }
    let corpus = Corpus::new([("lang=en/1.txt", "one\ntwo\n"), ("2.txt", "three\n")]);
    let config = SourceConfig { columns: names(&["lang"]), ..source(&corpus, SourceKind::Text) };
    let en = Some(text("en"));
    let wanted = [("one", en.clone()), ("three", Some(ColumnValue::Null)), ("two", en)];
    let wanted = wanted.map(|(document, value)| (document.to_owned(), vec![value]));
    assert_eq!(found(&config).expect("no errors"), wanted);
}

#[test]
fn names_of_directories_are_decoded() {
    for (kind, bytes) in files("own", "x") {
        let directory =
            "my%20lang=a%2Fb%C3%A9/empty=/null=__HIVE_DEFAULT_PARTITION__/cut=50%/wrong=%zz%41/bytes=%ff%20";
        let corpus = Corpus::new([(format!("{directory}/1.json"), &bytes)]);
        let columns = ["my lang", "empty", "null", "cut", "wrong", "bytes"];
        let mut config = SourceConfig { columns: names(&columns), ..source(&corpus, kind) };
        let wanted = [text("a/bé"), text(""), ColumnValue::Null, text("50%"), text("%zzA"), text("%ff%20")];
        let wanted = [("a text".to_owned(), wanted.map(Some).to_vec())];
        assert_eq!(found(&config).expect("no errors"), wanted, "{kind}");
        config.filter = Some("\"my lang\" = 'a/bé' and empty = '' and \"null\" is null".to_owned());
        assert_eq!(found(&config).expect("no errors"), wanted, "{kind}");
    }
}

#[test]
fn a_missing_column_is_refused_when_the_corpus_is_opened() {
    for (kind, bytes) in files("own", "x") {
        let corpus = Corpus::new([("a/1.json", &bytes)]);
        for is_filter in [false, true] {
            let mut config = source(&corpus, kind);
            match is_filter {
                true => config.filter = Some("lang is null".to_owned()),
                false => config.columns = names(&["lang"]),
            }
            // No record of these needs to have a field.
            if let SourceKind::Jsonl | SourceKind::Tar = kind {
                assert_eq!(texts(&config), ["a text"], "{kind}");
                continue;
            }
            let error = run(async { Source::open(&[config]).await }).expect_err("a refusal").to_string();
            let wanted = "there is no column \"lang\"; ";
            assert!(
                error.contains(wanted) && error.contains("1.json") && error.contains("own"),
                "{kind}: {error}"
            );
        }
    }
    let corpus = Corpus::new([("a/1.txt", "one\n")]);
    let config = SourceConfig { columns: names(&["lang"]), ..source(&corpus, SourceKind::Text) };
    let error = run(async { Source::open(&[config]).await }).expect_err("a refusal").to_string();
    assert_eq!(
        error,
        "source.0.columns: no file has the column \"lang\": those of a text source are in the names of its \
         directories, such as lang=x; remove it, or write such directories"
    );
}

#[test]
fn an_expression_without_names_is_of_all_records() {
    for (kind, bytes) in files("own", "x") {
        let corpus = Corpus::new([("1.json", &bytes)]);
        for (filter, count) in [("true", 1), ("null", 0), ("1 > 2", 0)] {
            let config = SourceConfig { filter: Some(filter.to_owned()), ..source(&corpus, kind) };
            assert_eq!(texts(&config).len(), count, "{kind}: {filter}");
        }
    }
}

#[test]
fn values_of_tables_keep_their_types() {
    let big = i256::from_string("123456789012345678901234567890123456789012345").expect("a number");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(vec!["0"]))),
        ("big", Arc::new(UInt64Array::from(vec![u64::MAX]))),
        ("ratio", Arc::new(Float32Array::from(vec![0.5]))),
        ("price", Arc::new(Decimal128Array::from(vec![-5]).with_precision_and_scale(9, 2).expect("it fits"))),
        ("whole", Arc::new(Decimal128Array::from(vec![7]).with_precision_and_scale(9, 0).expect("it fits"))),
        (
            "long",
            Arc::new(Decimal256Array::from(vec![big]).with_precision_and_scale(60, 3).expect("it fits")),
        ),
        ("day", Arc::new(Date32Array::from(vec![19_782]))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(vec![1_709_251_199_250_000]).with_timezone("+02:00")),
        ),
        ("word", Arc::new(vec!["a"].into_iter().collect::<DictionaryArray<Int32Type>>())),
        ("bytes", Arc::new(BinaryArray::from(vec!["é".as_bytes()]))),
    ];
    let wanted = [
        ColumnValue::Integer(u64::MAX.into()),
        ColumnValue::Float(0.5),
        text("-0.05"),
        text("7"),
        text("123456789012345678901234567890123456789012.345"),
        text("2024-02-29"),
        text("2024-02-29T23:59:59.25"),
        text("a"),
        text("é"),
    ];
    for kind in [SourceKind::Parquet, SourceKind::Arrow] {
        let corpus = Corpus::new([("1", table(kind, &columns))]);
        let of = columns[1..].iter().map(|(name, _)| (*name).to_owned()).collect();
        let config = SourceConfig { columns: of, ..source(&corpus, kind) };
        let (_, values) = found(&config).expect("no errors").remove(0);
        assert_eq!(values, wanted.clone().map(Some), "{kind}");
    }
}

#[test]
fn what_does_not_fit_is_the_problem_of_its_record() {
    let line =
        |n: &str| format!("{{\"text\": \"text of {}\", \"n\": {n}, \"tags\": [1]}}\n", n.trim_matches('"'));
    let lines: String = ["1", "\"x\"", "null", "5"].into_iter().map(line).collect();
    let lines = lines + "{\"text\": \"without\"}\n";
    let corpus = Corpus::new([("1.jsonl", &lines)]);
    let path = corpus.path("1.jsonl");
    let mut config = SourceConfig { filter: Some("n > 2".to_owned()), ..source(&corpus, SourceKind::Jsonl) };
    let begins = line("1").len();
    assert_eq!(
        refused(&config),
        format!(
            "{path}:2 (byte {begins}): where: column \"n\" is text, and cannot be compared with a number; mend the \
             record, or compare it as what it is, or let some be skipped with on_error = {{ skip = 100 }}"
        )
    );
    config.on_error = OnError::Skip(1);
    assert_eq!(texts(&config), ["text of 5"]);
    config.filter = Some("tags is null".to_owned());
    assert_eq!(texts(&config), ["without"]);

    let corpus = Corpus::new([("1.csv", "text,n\na,1\nb,x\nc,\n")]);
    let mut config = SourceConfig { filter: Some("n < 2".to_owned()), ..source(&corpus, SourceKind::Csv) };
    let problem = format!(
        "{}:3 (byte 11): where: column \"n\" is \"x\", and not a number; mend the",
        corpus.path("1.csv")
    );
    let error = refused(&config);
    assert!(error.starts_with(&problem), "{error}");
    config.on_error = OnError::Skip(1);
    assert_eq!(texts(&config), ["a"]);
}

#[test]
fn a_broken_line_is_one_whatever_is_asked_for() {
    for broken in [
        "{\"text\": \"b\", \"n\": 0",
        "{\"text\": \"b\", \"n\": 0} {}",
        "{\"text\": \"b\", \"n\": 0, \"\\ud800\": 1}",
    ] {
        let corpus = Corpus::new([("1.jsonl", format!("{{\"text\": \"a\", \"n\": 5}}\n{broken}\n"))]);
        let plain = source(&corpus, SourceKind::Jsonl);
        let filtered = SourceConfig { filter: Some("n > 2".to_owned()), ..plain.clone() };
        assert_eq!(refused(&filtered), refused(&plain), "{broken}");
    }
}

#[test]
fn a_value_is_not_cut() {
    let long = "x".repeat(200);
    for (kind, bytes) in files("own", &long) {
        if let SourceKind::Parquet | SourceKind::Arrow | SourceKind::Jsonl = kind {
            continue;
        }
        let corpus = Corpus::new([("1.json", &bytes)]);
        let mut config = source(&corpus, kind);
        config.columns = names(&["own"]);
        config.max_document_bytes = millstream::config::ByteCount(100);
        assert_eq!(
            found(&config).expect("no errors"),
            [("a text".to_owned(), vec![Some(ColumnValue::Null)])],
            "{kind}"
        );
        config.filter = Some("own = 'x'".to_owned());
        let error = refused(&config);
        assert!(error.contains("is a value of text longer than max_document_bytes, and"), "{kind}: {error}");
        // One that is too long as a document is skipped as it is without a filter.
        config.field = Some("own".to_owned());
        config.oversize = Oversize::Skip;
        config.filter = Some("own like 'x%'".to_owned());
        assert!(texts(&config).is_empty(), "{kind}");
    }
}

#[test]
fn members_of_an_archive_are_columns() {
    let mut archive = tar::Builder::new(Vec::new());
    let members = [
        ("txt", "a text"),
        ("cls", "7"),
        ("url.txt", "x.org"),
        ("json", "{\"a\": {\"b\": true}}"),
        ("n.json", "3"),
    ];
    for (extension, text) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, format!("1.{extension}"), text.as_bytes()).expect("a member");
    }
    let corpus = Corpus::new([("1.tar", archive.into_inner().expect("an archive"))]);
    let mut config = source(&corpus, SourceKind::Tar);
    config.field = Some("txt".to_owned());
    config.columns = names(&["cls", "url.txt", "json.a.b", "n.json", "JSON.a.c", "gone"]);
    config.filter = Some("cls > 6 and json.a.b and n.json = 3".to_owned());
    let wanted = [
        text("7"),
        text("x.org"),
        ColumnValue::Bool(true),
        ColumnValue::Integer(3),
        ColumnValue::Null,
        ColumnValue::Null,
    ];
    assert_eq!(found(&config).expect("no errors"), [("a text".to_owned(), wanted.map(Some).to_vec())]);
    config.filter = Some("cls > 7".to_owned());
    assert!(texts(&config).is_empty());
}

#[test]
fn documents_of_a_conversation_have_the_columns_of_its_record() {
    let turns = ["user", "assistant", "user", "assistant"];
    let messages: Vec<Value> = turns
        .iter()
        .enumerate()
        .map(|(n, role)| json!({ "role": role, "content": format!("turn {n}") }))
        .collect();
    let list = Value::from(messages);
    let line = |n: u32| json!({ "messages": list, "n": n }).to_string();
    let cell = format!("\"{}\"", list.to_string().replace('"', "\"\""));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![list.to_string(), list.to_string()]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let columns = [("messages", texts), ("n", numbers)];
    let mut archive = tar::Builder::new(Vec::new());
    for n in [1, 2] {
        let mut header = tar::Header::new_gnu();
        header.set_size(line(n).len() as u64);
        archive.append_data(&mut header, format!("{n}.json"), line(n).as_bytes()).expect("a member");
    }
    let rows = [1, 2].map(|n| vec![list.to_string(), n.to_string()]);
    let cases = [
        (SourceKind::Jsonl, "n", format!("{}\n{}\n", line(1), line(2)).into_bytes()),
        (SourceKind::Csv, "n", format!("messages,n\n{cell},1\n{cell},2\n").into_bytes()),
        (SourceKind::Parquet, "n", table(SourceKind::Parquet, &columns)),
        (SourceKind::Arrow, "n", table(SourceKind::Arrow, &columns)),
        (SourceKind::Mds, "n", shard(&["messages", "n"], &["json", "str_int"], &rows)),
        (SourceKind::Tar, "json.n", archive.into_inner().expect("an archive")),
    ];
    for (kind, name, bytes) in cases {
        let (corpus, home) = (Corpus::new([("1", &bytes)]), tempfile::tempdir().expect("a directory"));
        let chat = ChatConfig { samples: Samples::Turns, ..TEMPLATES[0].chat(home.path()) };
        let config = SourceConfig {
            columns: names(&[name]),
            filter: Some(format!("{name} > 1")),
            task: Task::Chat,
            field: None,
            ..source(&corpus, kind)
        };
        let found = found(&config.with_chat(chat)).expect("no errors");
        let value = if kind == SourceKind::Csv { text("2") } else { ColumnValue::Integer(2) };
        let of: Vec<_> = found.into_iter().map(|(_, values)| values).collect();
        assert_eq!(of, [[Some(value.clone())], [Some(value)]], "{kind}: a document for each answer");
    }
}

#[test]
fn files_of_a_dataset_are_read_as_those_of_their_kind() {
    let table = |rows: &str| format!("text,n\n{rows}");
    let corpus = Corpus::new([
        ("tables/train.csv", table("a,1\nb,2\n")),
        ("tables/test.csv", table("c,3\n")),
        ("texts/train.txt", "a\n".to_owned()),
        ("texts/test.txt", "b\n".to_owned()),
    ]);
    let of = |directory: &str| SourceConfig {
        kind: SourceKind::Huggingface,
        paths: vec![corpus.path(directory)],
        field: Some("text".to_owned()),
        filter: Some("n > 1".to_owned()),
        columns: names(&["n"]),
        ..SourceConfig::default()
    };
    assert_eq!(found(&of("tables")).expect("no errors"), [("b".to_owned(), vec![Some(text("2"))])]);
    for (columns, key) in [(names(&["n"]), "columns"), (Vec::new(), "where")] {
        let error = refused(&SourceConfig { columns, ..of("texts") });
        assert!(error.starts_with(&format!("source.0.{key}: no file has the column \"n\"")), "{error}");
    }
}

#[test]
fn names_and_expressions_are_checked() {
    let corpus = Corpus::new([("1.jsonl", "{\"text\": \"a\"}\n")]);
    let config = |columns: &[&str], filter: Option<&str>, kind: SourceKind| {
        let filter = filter.map(str::to_owned);
        SourceConfig { columns: names(columns), filter, ..source(&corpus, kind) }
    };
    let jsonl = SourceKind::Jsonl;
    let cases = [
        (
            config(&["a", ""], None, jsonl),
            "source.0.columns: a name is empty; write it as \"lang\" or \"meta.url\", or remove it",
        ),
        (config(&["a", "b", "a"], None, jsonl), "source.0.columns: \"a\" is named twice; remove one of them"),
        (
            config(&["a..b"], None, jsonl),
            "source.0.columns: \"a..b\" has an empty part; write it as \"doc.text\"",
        ),
        (
            config(&[], Some("a ="), jsonl),
            "source.0.where: at character 4: expected a column or a value, found the end",
        ),
        (
            config(&[], Some("a = 1"), SourceKind::Text),
            "source.0.where: a source of kind text has no `where`; remove it, or set kind = ",
        ),
    ];
    for (config, problem) in cases {
        let error = refused(&config);
        assert!(error.starts_with(problem), "{error}");
    }
    let synthetic =
        SourceConfig { columns: names(&["a"]), kind: SourceKind::Synthetic, ..SourceConfig::default() };
    let error = refused(&synthetic);
    assert!(
        error.starts_with("source.0.columns: a source of kind synthetic has no `columns`; remove it"),
        "{error}"
    );
}
