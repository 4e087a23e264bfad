//! `where`: rows by an expression, beside what a plain evaluation of the rows says.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Int8Array,
    Int64Array, ListArray, RecordBatch, RunArray, StringArray, Time32SecondArray, TimestampMicrosecondArray,
    UInt64Array, UnionArray,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, UnionFields};
use millstream::config::{SourceConfig, SourceKind};
use millstream::{LaneCursor, Source};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

use super::others::{Row, config, rows};
use crate::corpus::{Corpus, all, open, run, texts};

const TABLES: [&str; 4] = ["gzip.parquet", "lz4.parquet", "zstd.arrow", "view.arrow"];

fn filtered(name: &str, filter: &str) -> SourceConfig {
    SourceConfig { filter: Some(filter.to_owned()), ..config(name) }
}

fn found(name: &str, filter: &str) -> Vec<String> {
    run(async {
        let seen = all(open(&filtered(name, filter)).await.documents(&LaneCursor::default())).await;
        texts(&seen).into_iter().map(str::to_owned).collect()
    })
}

fn refused(name: &str, filter: &str) -> String {
    run(async { Source::open(&[filtered(name, filter)]).await.expect_err("a refusal").to_string() })
}

/// Whether a row is one: true, false or null.
type Truth = fn(&Row) -> Option<bool>;

const EXPRESSIONS: &[(&str, Truth)] = &[
    ("lang = 'en'", |row| Some(row.lang == "en")),
    ("lang <> 'en'", |row| Some(row.lang != "en")),
    ("lang in ('en', 'fr')", |row| Some(row.lang != "de")),
    ("lang not in ('en', 'fr')", |row| Some(row.lang == "de")),
    ("lang like '_e'", |row| Some(row.lang == "de")),
    ("lang ilike 'E%'", |row| Some(row.lang == "en")),
    ("lang not like 'e%'", |row| Some(row.lang != "en")),
    ("score > 3", |row| row.score.map(|score| score > 3.0)),
    ("3 >= score", |row| row.score.map(|score| score <= 3.0)),
    ("score between 2 and 7.5", |row| row.score.map(|score| (2.0..=7.5).contains(&score))),
    ("score not between 2 and 7.5", |row| row.score.map(|score| !(2.0..=7.5).contains(&score))),
    ("score in (1, null)", |row| row.score.and_then(|score| (score == 1.0).then_some(true))),
    ("score is null", |row| Some(row.score.is_none())),
    ("score is not null", |row| Some(row.score.is_some())),
    ("(score > 3) is true", |row| Some(row.score.is_some_and(|score| score > 3.0))),
    ("(score > 3) is not false", |row| Some(row.score.is_none_or(|score| score > 3.0))),
    ("quality * 2 - 1 >= 3", |row| Some(row.quality * 2 > 3)),
    ("id % 7 = -(-2)", |row| Some(row.id % 7 == 2)),
    ("id / 10 = quality", |row| Some(row.id / 10 == row.quality)),
    ("hash > 9223372036854775808", |row| Some(row.hash > 1 << 63)),
    ("hash % 3 = 0", |row| Some(row.hash % 3 == 0)),
    ("day >= '2024-01-20'", |row| Some(row.day.as_str() >= "2024-01-20")),
    ("doc.body.text = 'deep 7'", |row| Some(row.doc.as_ref()?.body.text == "deep 7")),
    ("doc.body.text is null", |row| Some(row.doc.is_none())),
    ("text like '%word word%'", |row| Some(row.text.as_ref()?.contains("word word"))),
    ("null", |_| None),
    ("true", |_| Some(true)),
];

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// An expression over the ones above, and whether it is true of each row.
fn expression() -> impl Strategy<Value = (String, Vec<Option<bool>>)> {
    let rows = rows();
    let leaf = prop::sample::select(EXPRESSIONS.to_vec()).prop_map(move |(text, truth)| {
        (text.to_owned(), rows.iter().map(truth).collect::<Vec<Option<bool>>>())
    });
    leaf.prop_recursive(3, 8, 2, |inner| {
        let not = |truth: &Option<bool>| truth.map(|truth| !truth);
        prop_oneof![
            inner
                .clone()
                .prop_map(move |(text, truths)| (format!("not ({text})"), truths.iter().map(not).collect())),
            (inner.clone(), inner, any::<bool>()).prop_map(move |((a, left), (b, right), is_and)| {
                let pairs = left.iter().zip(&right);
                // By De Morgan, or is and of what is not.
                let or = |(left, right): (&Option<bool>, &Option<bool>)| not(&and(not(left), not(right)));
                match is_and {
                    true => {
                        (format!("({a}) AND {b}"), pairs.map(|(left, right)| and(*left, *right)).collect())
                    }
                    false => (format!("({a}) or ({b})"), pairs.map(or).collect()),
                }
            }),
        ]
    })
}

#[test]
fn every_operator_does_what_sql_says() {
    let rows = rows();
    for (filter, truth) in EXPRESSIONS {
        let wanted: Vec<&str> =
            rows.iter().filter(|row| truth(row) == Some(true)).filter_map(Row::document).collect();
        for name in TABLES {
            assert_eq!(found(name, filter), wanted, "{name}: {filter}");
        }
    }
    assert_eq!(found("binary.parquet", "text = 'row 5, “”\nsecond line'").len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_row_is_a_document_where_the_expression_is_true(
        (filter, truths) in expression(),
        name in prop::sample::select(TABLES.to_vec()),
    ) {
        // `and` binds closer than `or`; what stands behind it here has none on its outside.
        prop_assume!(!filter.contains("AND (") && !filter.contains("AND not"));
        let rows = rows();
        let wanted: Vec<&str> = rows
            .iter()
            .zip(truths)
            .filter_map(|(row, truth)| row.document().filter(|_| truth == Some(true)))
            .collect();
        prop_assert_eq!(found(name, &filter), wanted, "{}", filter);
    }
}

#[test]
fn chains_may_be_long() {
    let rows = rows();
    let wanted: Vec<&str> = rows.iter().filter(|row| row.id >= 40).filter_map(Row::document).collect();
    let ids: Vec<String> = (40..5040).map(|id| format!("id = {id}")).collect();
    assert_eq!(found("gzip.parquet", &ids.join(" or ")), wanted);
}

/// The name of a column of numbers, and its values.
type Numbers<'a> = (&'a str, &'a [Option<i64>]);

/// Files of tables at these paths, with these columns.
fn tables(files: &[(&str, &[Numbers<'_>])]) -> Corpus {
    let table = |(path, numbers): &(&str, &[Numbers<'_>])| {
        let rows = numbers[0].1.len();
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{path} {row}"))));
        let number = |(name, values): &Numbers<'_>| {
            (name.to_string(), Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)
        };
        let columns = numbers.iter().map(number).chain([("text".to_owned(), texts)]);
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
        let batch = batch.expect("a table");
        ((*path).to_owned(), stored(path, &batch))
    };
    Corpus::new(files.iter().map(table))
}

/// A table as it is stored in a file of this name.
fn stored(path: &str, batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    if path.ends_with(".parquet") {
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a writer");
        writer.write(batch).expect("written");
        writer.close().expect("written");
    } else {
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
        writer.write(batch).expect("written");
        writer.finish().expect("written");
    }
    bytes
}

/// What a filter leaves of such files, or why it is refused.
fn left(corpus: &Corpus, kind: SourceKind, filter: &str) -> Result<Vec<String>, String> {
    let paths = vec![corpus.path("**")];
    let (field, filter) = (Some("text".to_owned()), Some(filter.to_owned()));
    let config = SourceConfig { kind, paths, field, filter, ..SourceConfig::default() };
    run(async {
        let source = Source::open(&[config]).await.map_err(|error| error.to_string())?;
        let seen = all(source.documents(&LaneCursor::default())).await;
        let mut texts: Vec<String> = texts(&seen).into_iter().map(str::to_owned).collect();
        texts.sort();
        Ok(texts)
    })
}

#[test]
fn a_column_that_only_some_files_have_is_null_in_the_others() {
    let (one, both) = ([Some(1), Some(2)], [Some(3), None]);
    for (kind, extension) in [(SourceKind::Parquet, "parquet"), (SourceKind::Arrow, "arrow")] {
        let [a, b] = ["a", "b"].map(|name| format!("{name}.{extension}"));
        let corpus = tables(&[(&a, &[("x", &one)]), (&b, &[("x", &one), ("y", &both)])]);
        let wanted = |rows: &[(&str, u32)]| -> Result<Vec<String>, String> {
            Ok(rows.iter().map(|(file, row)| format!("{file} {row}")).collect())
        };
        assert_eq!(left(&corpus, kind, "y > 2"), wanted(&[(&b, 0)]), "{kind}");
        assert_eq!(left(&corpus, kind, "y is null and x = 2"), wanted(&[(&a, 1), (&b, 1)]), "{kind}");
        assert_eq!(left(&corpus, kind, "not (y > 2) or x in (1, y)"), wanted(&[(&a, 0), (&b, 0)]), "{kind}");
        let error = left(&corpus, kind, "z > 2 or y > 2").expect_err("no file has it");
        assert!(error.contains("there is no column \"z\"") && error.contains(extension), "{error}");
    }
}

#[test]
fn directories_of_partitions_are_columns() {
    let row = [Some(0), Some(7)];
    let corpus = tables(&[
        ("lang=en/year=2023/1.parquet", &[("x", &row)]),
        ("lang=en/year=2024/1.parquet", &[("x", &row)]),
        ("lang=de/year=__HIVE_DEFAULT_PARTITION__/1.parquet", &[("x", &row)]),
        ("lang=de/year=2024/1.parquet", &[("year", &row)]),
    ]);
    let kind = SourceKind::Parquet;
    let found = |filter: &str| {
        let texts = left(&corpus, kind, filter).expect("it can be evaluated");
        texts.iter().map(|text| text.replace("/1.parquet", "").replace("year=", "")).collect::<Vec<_>>()
    };
    assert_eq!(found("lang = 'en' and x = 7"), ["lang=en/2023 1", "lang=en/2024 1"]);
    assert_eq!(found("year >= 2024 and lang like 'e%'"), ["lang=en/2024 0", "lang=en/2024 1"]);
    assert_eq!(found("year in ('2023') and x > 1"), ["lang=en/2023 1"]);
    assert_eq!(found("year is null and x = 0"), ["lang=de/__HIVE_DEFAULT_PARTITION__ 0"]);
    assert_eq!(found("year = x + 2017"), ["lang=en/2024 1"]);
    assert_eq!(found("year = 7"), ["lang=de/2024 1"], "the table's own column goes first");
    let error = left(&corpus, kind, "x > lang").expect_err("a path without a number");
    assert!(
        error.contains("where: column \"lang\" is \"") && error.contains("\", and not a number"),
        "{error}"
    );
}

#[test]
fn columns_of_many_types_are_compared() {
    // 2024-01-31, and half past ten on that day in UTC.
    let (day, time) = (19_753, 1_706_697_000_000_000);
    let times = TimestampMicrosecondArray::from(vec![Some(time - 1), Some(time), None]);
    let prices = Decimal128Array::from(vec![1990, 2000, 550]).with_precision_and_scale(10, 2);
    let tags = vec![Some(vec![Some(1)]), None, Some(Vec::new())];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("small", Arc::new(Int8Array::from(vec![Some(-1), Some(7), None]))),
        ("big", Arc::new(UInt64Array::from(vec![0, u64::MAX, 5]))),
        ("ratio", Arc::new(Float32Array::from(vec![0.5, -0.0, f32::NAN]))),
        ("price", Arc::new(prices.expect("they fit"))),
        ("day", Arc::new(Date32Array::from(vec![day - 1, day, day + 1]))),
        ("at", Arc::new(times.with_timezone("+02:00"))),
        ("noon", Arc::new(Time32SecondArray::from(vec![43_199, 43_200, 43_201]))),
        (
            "word",
            Arc::new(vec![Some("a"), Some("b"), None].into_iter().collect::<DictionaryArray<Int32Type>>()),
        ),
        ("bytes", Arc::new(BinaryArray::from(vec![&b"b1"[..], b"\xff", b"c"]))),
        ("tags", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(tags))),
        ("text", Arc::new(StringArray::from(vec!["0", "1", "2"]))),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a table");
    let cases: &[(&str, &[&str])] = &[
        ("small < big", &["0", "1"]),
        ("small - big < 0", &["0", "1"]),
        ("big > 9223372036854775807", &["1"]),
        ("big + 1 > big and small is not null", &["0", "1"]),
        ("ratio = 0.5", &["0"]),
        ("ratio = 0", &["1"]),
        ("ratio > 1e300", &["2"]),
        ("price = 19.9", &["0"]),
        ("price between 5.5 and 19.99", &["0", "2"]),
        ("price + price = 40", &["1"]),
        ("day = '2024-01-31'", &["1"]),
        ("day not in ('2024-01-31', '2024-02-02')", &["0", "2"]),
        ("'2024-01-31T00:00:01' > day", &["0", "1"]),
        ("at >= '2024-01-31T12:30:00'", &["1"]),
        ("at < '2024-01-31 10:30:00Z'", &["0"]),
        ("noon <= '12:00'", &["0", "1"]),
        ("word = 'b'", &["1"]),
        ("word is null", &["2"]),
        ("bytes like 'b_' or bytes = 'c'", &["0", "2"]),
        ("bytes > word", &["0", "1"]),
        ("tags is null", &["1"]),
        ("small >= '7'", &["1"]),
        ("big / (small - 7) >= 0", &["0"]),
        ("(1 / ratio) is null", &["1"]),
    ];
    let refused = [
        ("tags = 1", "column \"tags\" is a value of List("),
        (
            "at > 'noon'",
            "where: column \"at\" is a date or time, and \"noon\" is not; write it as 2024-01-31",
        ),
        ("noon = day", "where: column \"noon\" is a time of day, and cannot be compared with a date or time"),
        ("day + 1 > day", "where: column \"day\" is a date or time, and stands where a number must be"),
        ("small like '7'", "where: column \"small\" is a number, and stands where text must be"),
    ];
    for (kind, path) in [(SourceKind::Parquet, "1.parquet"), (SourceKind::Arrow, "1.arrow")] {
        let corpus = Corpus::new([(path.to_owned(), stored(path, &batch))]);
        for (filter, wanted) in cases {
            let wanted = wanted.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(left(&corpus, kind, filter), Ok(wanted), "{kind}: {filter}");
        }
        for (filter, problem) in refused {
            let error = left(&corpus, kind, filter).expect_err(filter);
            assert!(error.contains(problem), "{filter}: {error}");
        }
    }
}

#[test]
fn nulls_within_runs_and_unions_are_null() {
    let words = [Some("a"), None, None, Some("b")];
    let runs: RunArray<Int32Type> = words.into_iter().collect();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), None, Some(2)]));
    let fields: UnionFields =
        [(0, Arc::new(Field::new("number", DataType::Int64, true)))].into_iter().collect();
    let union = UnionArray::try_new(fields, vec![0_i8; 4].into(), None, vec![numbers]).expect("a union");
    let columns: [(&str, ArrayRef); 3] = [
        ("run", Arc::new(runs)),
        ("union", Arc::new(union)),
        ("text", Arc::new(StringArray::from(vec!["0", "1", "2", "3"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a table");
    let corpus = Corpus::new([("1.arrow".to_owned(), stored("1.arrow", &batch))]);
    for (filter, wanted) in [("run is null", ["1", "2"]), ("union is not null", ["1", "3"])] {
        let wanted = wanted.map(str::to_owned).to_vec();
        assert_eq!(left(&corpus, SourceKind::Arrow, filter), Ok(wanted), "{filter}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_refused_when_the_corpus_is_opened() {
    let cases = [
        ("lang =", "source.0.where: at character 7: expected a column or a value, found the end"),
        (
            "lang = 'en' lang",
            "source.0.where: at character 13: expected an operator or the end, found \"lang\"",
        ),
        ("lower(lang) = 'en'", "at character 1: the function \"lower\" is not supported; use comparisons"),
        ("exists (select 1)", "the function \"exists\" is not supported; use comparisons"),
        ("lang = X'00'", "at character 9: expected an operator or the end, found \"'\"; use comparisons"),
        ("language = 'en'", "there is no column \"language\"; it has id, lang, score"),
        ("doc.body.texts is null", "there is no column \"doc.body.texts\"; it has text"),
        ("lang.x = 1", "column \"lang.x\" leads through \"lang\", which is Utf8"),
        ("lang > 3", "where: column \"lang\" is text, and cannot be compared with a number"),
        ("quality", "where: column \"quality\" is a number, and stands where true or false must be"),
        ("day > 'some day'", "where: "),
    ];
    for (filter, problem) in cases {
        for name in ["gzip.parquet", "stream.arrow"] {
            let error = refused(name, filter);
            assert!(error.contains(problem), "{filter}: {error}");
        }
    }
}
