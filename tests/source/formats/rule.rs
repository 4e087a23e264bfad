//! One rule for all formats: what is a document, where there is text, no text, or something else.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, NullArray, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Schema};
use millstream::config::{OnError, SourceConfig, SourceKind};
use millstream::{LaneCursor, Meter, Source};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chats_in_files::shard;
use crate::corpus::{Corpus, all, drain, open, run, texts};

/// The ways to store records that have an id and a text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Jsonl,
    Csv,
    Tsv,
    Parquet,
    Arrow,
    Tar,
    TarJson,
    Mds,
    MdsJson,
}

const WAYS: [Way; 9] = [
    Way::Jsonl,
    Way::Csv,
    Way::Tsv,
    Way::Parquet,
    Way::Arrow,
    Way::Tar,
    Way::TarJson,
    Way::Mds,
    Way::MdsJson,
];

impl Way {
    fn kind(self) -> SourceKind {
        match self {
            Self::Jsonl => SourceKind::Jsonl,
            Self::Csv => SourceKind::Csv,
            Self::Tsv => SourceKind::Tsv,
            Self::Parquet => SourceKind::Parquet,
            Self::Arrow => SourceKind::Arrow,
            Self::Tar | Self::TarJson => SourceKind::Tar,
            Self::Mds | Self::MdsJson => SourceKind::Mds,
        }
    }

    /// Where the text called `name` is.
    fn field(self, name: &str) -> String {
        match self {
            Self::TarJson => format!("json.{name}"),
            Self::MdsJson => format!("meta.{name}"),
            _ => name.to_owned(),
        }
    }

    /// Files of this kind whose records have these values, under `name`. A decoy lies where the dots of the name lead.
    fn write(self, name: &str, cells: &[Value]) -> Vec<u8> {
        let text = |cell: &Value| cell.as_str().map(str::to_owned);
        let decoy = || json!({ "b": "a decoy" });
        match self {
            Self::Jsonl => {
                let line = |cell| format!("{}\n", json!({ "id": 1, "a": decoy(), name: cell }));
                cells.iter().map(line).collect::<String>().into_bytes()
            }
            Self::Csv | Self::Tsv => {
                let mark = if self == Self::Csv { "," } else { "\t" };
                let cell = |cell| text(cell).unwrap_or_default().replace('"', "\"\"");
                let record = |of| format!("1{mark}x{mark}\"{}\"\n", cell(of));
                let head = format!("id{mark}a{mark}{name}\n");
                std::iter::once(head).chain(cells.iter().map(record)).collect::<String>().into_bytes()
            }
            Self::Parquet | Self::Arrow => {
                let column: ArrayRef = Arc::new(StringArray::from_iter(cells.iter().map(text)));
                table(self, &[(name, column), ("a", structs(&vec![Some("a decoy"); cells.len()]))])
            }
            Self::Tar => archive(cells.iter().enumerate().flat_map(|(id, cell)| {
                let decoy = (format!("{id}.a"), decoy().to_string());
                [decoy, (format!("{id}.{name}"), text(cell).unwrap_or_default())]
            })),
            Self::TarJson => {
                archive(cells.iter().enumerate().map(|(id, cell)| {
                    (format!("{id}.json"), json!({ "a": decoy(), name: cell }).to_string())
                }))
            }
            Self::Mds => {
                let row = |cell| vec![text(cell).unwrap_or_default(), decoy().to_string()];
                shard(&[name, "a"], &["str", "json"], &cells.iter().map(row).collect::<Vec<_>>())
            }
            Self::MdsJson => {
                let row = |cell: &Value| vec![json!({ "a": decoy(), name: cell }).to_string()];
                shard(&["meta"], &["json"], &cells.iter().map(row).collect::<Vec<_>>())
            }
        }
    }

    fn config(self, corpus: &Corpus, name: &str) -> SourceConfig {
        SourceConfig { kind: self.kind(), field: Some(self.field(name)), ..corpus.lines() }
    }
}

fn structs(texts: &[Option<&str>]) -> ArrayRef {
    let inner: ArrayRef = Arc::new(StringArray::from_iter(texts));
    let field = Arc::new(Field::new("b", DataType::Utf8, true));
    let nulls = texts.iter().map(Option::is_some).collect::<Vec<_>>().into();
    Arc::new(StructArray::new(vec![field].into(), vec![inner], Some(nulls)))
}

fn table(way: Way, columns: &[(&str, ArrayRef)]) -> Vec<u8> {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let columns = columns.iter().map(|(_, column)| column.clone()).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns).expect("a batch");
    let mut bytes = Vec::new();
    if way == Way::Parquet {
        let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, schema, None).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("written");
    } else {
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &schema).expect("a writer");
        writer.write(&batch).expect("written");
        writer.finish().expect("written");
    }
    bytes
}

fn archive(members: impl IntoIterator<Item = (String, String)>) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, text) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, name, text.as_bytes()).expect("written");
    }
    archive.into_inner().expect("written")
}

/// The texts that are delivered, how many documents were skipped as bad, and what ends the stream without skipping.
fn outcome(config: &SourceConfig) -> (Vec<String>, u64, Option<String>) {
    run(async {
        let meter = Meter::new("source");
        let skipping = SourceConfig { on_error: OnError::Skip(1000), ..config.clone() };
        let source = open(&skipping).await.with_meter(meter.clone());
        let seen = all(source.documents(&LaneCursor::default())).await;
        let (_, error) = drain(open(config).await.documents(&LaneCursor::default())).await;
        let texts = texts(&seen).into_iter().map(str::to_owned).collect();
        (texts, meter.snapshot().skipped, error.map(|error| error.to_string()))
    })
}

fn refused(config: SourceConfig) -> String {
    run(async { Source::open(&[config]).await.expect_err("a refusal").to_string() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_same_records_have_the_same_documents_in_every_format(
        cells in prop::collection::vec(prop::option::of("[a-zé\"\n ]{0,6}"), 1..30),
        name in prop::sample::select(vec!["text", "a.b"]),
    ) {
        prop_assume!(cells.iter().flatten().any(|text| !text.is_empty()));
        let wanted: Vec<String> = cells.iter().flatten().filter(|text| !text.is_empty()).cloned().collect();
        let cells: Vec<Value> = cells.into_iter().map(Value::from).collect();
        for way in WAYS {
            let corpus = Corpus::new([("records", way.write(name, &cells))]);
            let found = outcome(&way.config(&corpus, name));
            prop_assert_eq!(&found, &(wanted.clone(), 0, None), "{:?}", way);
        }
    }
}

#[test]
fn a_null_around_the_text_is_no_text_either() {
    let nested = [json!({ "b": "one" }), Value::Null, json!({ "b": null }), json!({ "b": "two" })];
    let lines: String = nested.iter().map(|nested| format!("{}\n", json!({ "a": nested }))).collect();
    let column = || structs(&[Some("one"), None, None, Some("two")]);
    let members = nested.iter().enumerate().map(|(id, nested)| (format!("{id}.a"), nested.to_string()));
    let rows: Vec<Vec<String>> = nested.iter().map(|nested| vec![nested.to_string()]).collect();
    for (way, bytes) in [
        (Way::Jsonl, lines.into_bytes()),
        (Way::Parquet, table(Way::Parquet, &[("a", column())])),
        (Way::Arrow, table(Way::Arrow, &[("a", column())])),
        (Way::Tar, archive(members)),
        (Way::Mds, shard(&["a"], &["json"], &rows)),
    ] {
        let corpus = Corpus::new([("records", bytes)]);
        let found = outcome(&way.config(&corpus, "a.b"));
        assert_eq!(found, (vec!["one".to_owned(), "two".to_owned()], 0, None), "{way:?}");
    }
}

#[test]
fn a_column_of_nulls_alone_has_no_documents_whatever_its_type() {
    for way in [Way::Parquet, Way::Arrow] {
        let nulls = || Arc::new(NullArray::new(3)) as ArrayRef;
        let field = Arc::new(Field::new("b", DataType::Null, true));
        let inside: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![nulls()], None));
        for (name, empty, full) in [
            ("b", nulls(), Arc::new(StringArray::from(vec!["one", "two"])) as ArrayRef),
            ("a.b", inside, structs(&[Some("one"), Some("two")])),
            ("a.b", nulls(), structs(&[Some("one"), Some("two")])),
        ] {
            let column = &name[..1];
            let files = [("1", table(way, &[(column, empty)])), ("2", table(way, &[(column, full)]))];
            let found = outcome(&way.config(&Corpus::new(files), name));
            assert_eq!(found, (vec!["one".to_owned(), "two".to_owned()], 0, None), "{way:?} {name}");
        }
    }
}

#[test]
fn a_record_without_the_field_is_bad_input() {
    let (good, bad) = (json!({ "text": "good" }), json!({ "other": "text" }));
    let member = |name: &str, text: &Value| (name.to_owned(), text.to_string());
    for (way, bytes, what) in [
        (Way::Jsonl, format!("{good}\n{bad}\n{good}\n").into_bytes(), "there is no field `text`"),
        (
            Way::TarJson,
            archive([member("0.json", &good), member("1.json", &bad), member("2.json", &good)]),
            "there is no field `text`",
        ),
        (
            Way::MdsJson,
            shard(&["meta"], &["json"], &[&good, &bad, &good].map(|value| vec![value.to_string()])),
            "there is no field `text`",
        ),
        (Way::Csv, b"id,text\n1,good\n2\n3,good\n".to_vec(), "the record has 1 field, and the header 2"),
    ] {
        let corpus = Corpus::new([("records", bytes)]);
        let (texts, skipped, error) = outcome(&way.config(&corpus, "text"));
        assert_eq!((&texts[..], skipped), (&["good".to_owned(), "good".to_owned()][..], 1), "{way:?}");
        let error = error.expect("an error");
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_table_without_the_column_is_refused_when_it_is_opened() {
    for way in [Way::Csv, Way::Tsv, Way::Parquet, Way::Arrow, Way::Mds] {
        let corpus = Corpus::new([("records", way.write("other", &[json!("x")]))]);
        let error = refused(way.config(&corpus, "text"));
        assert!(error.contains("there is no column \"text\""), "{error}");
    }
}

#[test]
fn a_value_of_another_type_is_bad_input_or_refused_when_the_table_is_opened() {
    let cells = [json!("good"), json!(7), json!(["x"]), json!({ "b": "x" }), json!(true)];
    for way in [Way::Jsonl, Way::TarJson, Way::MdsJson] {
        let corpus = Corpus::new([("records", way.write("text", &cells))]);
        let (texts, skipped, error) = outcome(&way.config(&corpus, "text"));
        assert_eq!((texts, skipped), (vec!["good".to_owned()], 4), "{way:?}");
        let error = error.expect("an error");
        assert!(error.contains("field `text` is a number and not a string"), "{error}");
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    for way in [Way::Parquet, Way::Arrow] {
        let corpus = Corpus::new([("records", table(way, &[("text", numbers.clone())]))]);
        assert!(refused(way.config(&corpus, "text")).contains("is Int64 and not text"));
    }
    let corpus = Corpus::new([("records", shard(&["text"], &["json"], &[vec!["\"x\"".to_owned()]]))]);
    assert!(refused(Way::Mds.config(&corpus, "text")).contains("is json and not text"));
}

#[test]
fn the_case_of_an_extension_does_not_matter() {
    let members = [("0.TXT", "one"), ("1.txt", "two"), ("2.Txt", "three")];
    let members = members.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let corpus = Corpus::new([("records", archive(members))]);
    for field in ["txt", "TXT"] {
        let found = outcome(&Way::Tar.config(&corpus, field));
        assert_eq!(found, (["one", "two", "three"].map(str::to_owned).to_vec(), 0, None));
    }
    let twice = [("0.TXT", "one"), ("0.txt", "two")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    let corpus = Corpus::new([("records", archive(twice))]);
    let (_, skipped, error) = outcome(&Way::Tar.config(&corpus, "txt"));
    assert_eq!(skipped, 1);
    assert!(error.expect("an error").contains("the sample has its text twice"));
}
