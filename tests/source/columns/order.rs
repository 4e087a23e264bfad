//! `columns` changes neither which documents there are nor their order: a value without a type is null.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BinaryArray, ListArray, StringArray};
use futures::StreamExt;
use millstream::config::{OnError, SourceConfig, SourceKind};
use millstream::document::ColumnValue;
use millstream::files::Position;
use millstream::{LaneCursor, Source, Tracked};
use proptest::prelude::*;

use super::{names, source, text};
use crate::chats_in_files::{shard, table};
use crate::corpus::{Corpus, run};

/// A document without its columns.
type Bare = (String, Position, LaneCursor);

/// All documents in order, and the error that ends them.
type Documents = (Vec<Bare>, Option<String>);

/// The documents of a source, and apart from these, the columns of each.
fn read(config: &SourceConfig) -> (Documents, Vec<Vec<ColumnValue>>) {
    run(async {
        let (mut bare, mut values) = (Vec::new(), Vec::new());
        let source = match Source::open(std::slice::from_ref(config)).await {
            Ok(source) => source,
            Err(error) => return ((bare, Some(error.to_string())), values),
        };
        let mut documents = std::pin::pin!(source.documents(&LaneCursor::default()));
        while let Some(document) = documents.next().await {
            match document {
                Ok(Tracked { value, cursor }) => {
                    let column = |name: &String| value.column(name).cloned().expect("it comes along");
                    values.push(config.columns.iter().map(column).collect());
                    bare.push((value.text().to_owned(), value.position(), cursor));
                }
                Err(error) => return ((bare, Some(error.to_string())), values),
            }
        }
        ((bare, None), values)
    })
}

/// Checks that the documents are those without `columns`, and have the values that `expected` gives for their numbers.
fn check(
    config: &SourceConfig,
    columns: &[&str],
    expected: impl Fn(usize) -> Vec<ColumnValue>,
) -> Result<(), TestCaseError> {
    let (without, _) = read(config);
    let (with, values) = read(&SourceConfig { columns: names(columns), ..config.clone() });
    prop_assert_eq!(&with, &without, "{}", config.kind);
    let ((documents, error), strict) = (with, config.on_error == OnError::Fail);
    prop_assert!(!strict || error.is_none(), "{}: {:?}", config.kind, error);
    for ((text, ..), values) in documents.iter().zip(values) {
        let number = text.strip_prefix("text ").and_then(|number| number.parse().ok());
        prop_assert_eq!(values, expected(number.expect("a number")), "{}: {}", config.kind, text);
    }
    Ok(())
}

/// A value in JSON, and what it and its field `x` are as columns.
fn json() -> impl Strategy<Value = (&'static str, ColumnValue, ColumnValue)> {
    const NULL: ColumnValue = ColumnValue::Null;
    prop::sample::select(vec![
        ("null", NULL, NULL),
        ("true", ColumnValue::Bool(true), NULL),
        ("-7", ColumnValue::Integer(-7), NULL),
        ("0.5", ColumnValue::Float(0.5), NULL),
        ("\"é\"", text("é"), NULL),
        ("{\"x\": 5}", NULL, ColumnValue::Integer(5)),
        ("{\"x\": 1e400, \"x\": 5}", NULL, ColumnValue::Integer(5)),
        ("{}", NULL, NULL),
        ("[1, [2]]", NULL, NULL),
        ("NaN", NULL, NULL),
        ("1e400", NULL, NULL),
        ("-1e999", NULL, NULL),
        ("\"\\ud800\"", NULL, NULL),
        ("[1e400, \"\\ud800\"]", NULL, NULL),
        ("{\"x\": [1]}", NULL, NULL),
        ("{\"x\": 1e400}", NULL, NULL),
        ("{\"x\": 5, \"\\ud800\": 1}", NULL, NULL),
    ])
}

fn archive(members: &[(String, Option<Vec<u8>>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        let bytes = bytes.as_deref().unwrap_or_else(|| {
            header.set_entry_type(tar::EntryType::Symlink);
            &[]
        });
        header.set_size(bytes.len() as u64);
        if header.entry_type().is_symlink() {
            archive.append_link(&mut header, name, "elsewhere").expect("a link");
        } else {
            archive.append_data(&mut header, name, bytes).expect("a member");
        }
    }
    archive.into_inner().expect("an archive")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn values_of_json_change_no_documents(
        records in prop::collection::vec(json(), 1..9), broken in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let broken = broken.map(|broken| broken.index(records.len()));
        let raw = |number: usize| if broken == Some(number) { "{\"x\": " } else { records[number].0 };
        let lines: Vec<String> =
            (0..records.len()).map(|n| format!("{{\"v\": {}, \"text\": \"text {n}\"}}", raw(n))).collect();
        let rows: Vec<_> = (0..records.len()).map(|n| vec![raw(n).to_owned(), format!("text {n}")]).collect();
        let members: Vec<_> = (0..records.len())
            .flat_map(|n| [("json", format!("{{\"v\": {}}}", raw(n))), ("text", format!("text {n}"))]
                .map(|(extension, bytes)| (format!("{n}.{extension}"), Some(bytes.into_bytes()))))
            .collect();
        let cases = [
            (SourceKind::Jsonl, ["v", "v.x"], (lines.join("\n") + "\n").into_bytes()),
            (SourceKind::Jsonl, ["v", "v.x"], format!("[{}]", lines.join(",\n")).into_bytes()),
            (SourceKind::Mds, ["v", "v.x"], shard(&["v", "text"], &["json", "str"], &rows)),
            (SourceKind::Tar, ["json.v", "json.v.x"], archive(&members)),
        ];
        for (kind, columns, bytes) in cases {
            let corpus = Corpus::new([("1.json", bytes)]);
            let mut config = source(&corpus, kind);
            if broken.is_some() {
                config.on_error = OnError::Skip(1000);
            }
            check(&config, &columns, |number| match broken {
                Some(broken) if broken == number => vec![ColumnValue::Null; 2],
                _ => vec![records[number].1.clone(), records[number].2.clone()],
            })?;
        }
    }

    #[test]
    fn values_of_tables_and_members_change_no_documents(
        records in prop::collection::vec(
            (prop::sample::select(vec![&b"a"[..], "é".as_bytes(), b"\xff", b"b\xe9", &[b'x'; 100]]), 0..5_usize),
            1..9,
        ),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        const MAX: usize = 50;
        let texts: Vec<String> = (0..records.len()).map(|n| format!("text {n}")).collect();
        let bytes = |n: usize| records[n].0.to_vec();
        let table_of = |kind| {
            let lists: Vec<_> = records.iter().map(|_| Some(vec![Some(1)])).collect();
            let columns: [(&str, ArrayRef); 3] = [
                ("text", Arc::new(StringArray::from(texts.clone()))),
                ("bytes", Arc::new(BinaryArray::from_iter_values(records.iter().map(|(bytes, _)| bytes)))),
                ("other", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
            ];
            table(kind, &columns)
        };
        let rows: Vec<_> =
            (0..records.len()).map(|n| vec![bytes(n), texts[n].clone().into_bytes(), b"x".to_vec()]).collect();
        let csv: Vec<u8> = rows.iter().flat_map(|row| [&row.join(&b","[..])[..], b"\n"].concat()).collect();
        let members = (0..records.len()).flat_map(|n| {
            let mut members = vec![
                (format!("{n}.bytes"), Some(bytes(n))), (format!("{n}.text"), Some(texts[n].clone().into_bytes())),
            ];
            // A link of another sample before this one, or of this one before its text or after it.
            let apart = if records[n].1 == 0 { "-apart" } else { "" };
            if let 0..4 = records[n].1 {
                members.insert(records[n].1.saturating_sub(1), (format!("{n}{apart}.other"), None));
            }
            members
        });
        let tar = archive(&members.collect::<Vec<_>>());
        let mds = shard(&["bytes", "text", "other"], &["bytes", "str", "ndarray"], &rows);
        let cut_at = |bytes: &[u8]| cut.map_or(bytes.len(), |cut| cut.index(bytes.len()));
        let cases = [
            (SourceKind::Csv, [&b"bytes,text,other\n"[..], &csv].concat()),
            (SourceKind::Parquet, table_of(SourceKind::Parquet)),
            (SourceKind::Arrow, table_of(SourceKind::Arrow)),
            (SourceKind::Mds, mds[..cut_at(&mds)].to_vec()),
            (SourceKind::Tar, tar[..cut_at(&tar)].to_vec()),
        ];
        for (kind, file) in cases {
            let corpus = Corpus::new([("1", file)]);
            let mut config = source(&corpus, kind);
            config.max_document_bytes = millstream::config::ByteCount(MAX as u64);
            if cut.is_some() {
                config.on_error = OnError::Skip(1000);
            }
            check(&config, &["bytes", "other"], |number| {
                let is_table = matches!(kind, SourceKind::Parquet | SourceKind::Arrow);
                let bytes = records[number].0;
                let fits = is_table || bytes.len() <= MAX;
                let of = str::from_utf8(bytes).ok().filter(|_| fits).map_or(ColumnValue::Null, text);
                let other = if kind == SourceKind::Csv { text("x") } else { ColumnValue::Null };
                vec![of, other]
            })?;
        }
    }
}
