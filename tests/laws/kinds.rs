//! `columns` and `where`: the same rows in files of every kind give the same documents, with the same values.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, StructArray};
use millstream::config::{
    ByteCount, Config, SampleConfig, ShuffleRule, SourceConfig, SourceKind, TokenCacheConfig, TokenizerConfig,
};
use millstream::document::ColumnValue;
use millstream::prepare::prepare;
use millstream::{Batch, Error, Result};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::chats_in_files::{shard, table};
use crate::corpus::{all, block_on, configs, digests, resumes, values};

/// A value that a record may lack, or have as a null.
type Field<T> = Option<Option<T>>;

#[derive(Clone, Debug)]
struct Row {
    id: i64,
    text: Option<String>,
    word: Field<String>,
    /// Within an object, which may be missing too.
    inner: Field<String>,
    count: Field<i64>,
    ratio: Field<f64>,
    flag: Field<bool>,
}

const COLUMNS: [&str; 6] = ["id", "word", "meta.inner", "count", "ratio", "flag"];

fn field<T: Clone + std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Field<T>> {
    prop::option::weighted(0.8, prop::option::weighted(0.8, of))
}

/// Words without a letter that the tests below replace. An empty one is null in CSV.
fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{1,2}", "[aé'\",\n\r\t% ]{1,5}"]
}

fn ratio() -> impl Strategy<Value = f64> {
    (-8_i32..8).prop_map(|eighths| f64::from(eighths) / 4.0)
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let fields = (field(word()), field(word()), field(-3_i64..4), field(ratio()), field(any::<bool>()));
    let row = (prop::option::weighted(0.9, "[a-z]{0,8}"), fields);
    prop::collection::vec(row, 1..20).prop_map(|rows| {
        let row = |(id, (text, (word, inner, count, ratio, flag)))| Row {
            id,
            text,
            word,
            inner,
            count,
            ratio,
            flag,
        };
        (0..).zip(rows).map(row).collect()
    })
}

impl Row {
    /// Its values, as JSON gives them.
    fn json(&self) -> Value {
        let mut row = Map::from_iter([("id".to_owned(), json!(self.id))]);
        let mut add = |name: &str, value: Field<Value>| {
            row.extend(value.map(|value| (name.to_owned(), value.unwrap_or_default())));
        };
        add("word", self.word.clone().map(|value| value.map(Value::from)));
        add("count", self.count.map(|value| value.map(Value::from)));
        add("ratio", self.ratio.map(|value| value.map(Value::from)));
        add("flag", self.flag.map(|value| value.map(Value::from)));
        add("meta", self.inner.clone().map(|inner| Some(json!({ "x": [1], "inner": inner }))));
        Value::Object(row)
    }

    /// The values of its columns, as a kind of files has them.
    fn columns(&self, kind: SourceKind) -> Vec<ColumnValue> {
        let text = |field: &Field<String>| field.clone().flatten().map(|text| ColumnValue::Text(text.into()));
        let values = [
            Some(ColumnValue::Integer(self.id.into())),
            text(&self.word),
            text(&self.inner),
            self.count.flatten().map(|count| ColumnValue::Integer(count.into())),
            self.ratio.flatten().map(ColumnValue::Float),
            self.flag.flatten().map(ColumnValue::Bool),
        ];
        let value = |value: Option<ColumnValue>| match value {
            None => ColumnValue::Null,
            Some(value) if has_types(kind) => value,
            Some(value) => ColumnValue::Text(value.to_string().into()),
        };
        values.into_iter().map(value).collect()
    }
}

fn has_types(kind: SourceKind) -> bool {
    !matches!(kind, SourceKind::Csv | SourceKind::Tsv)
}

/// Whether an expression is true of a row, false or null.
type Truth = Arc<dyn Fn(&Row) -> Option<bool>>;

/// An expression. In its text `@` stands before the name of a column, and `$` before that of one of truth values.
#[derive(Clone)]
struct Expression(String, Truth);

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Expression {
    fn new(text: impl Into<String>, truth: impl Fn(&Row) -> Option<bool> + 'static) -> Self {
        Self(text.into(), Arc::new(truth))
    }

    /// Its text for a kind of files, whose columns have this before their names. Text has no truth values.
    fn text(&self, kind: SourceKind, before: &str) -> String {
        let truth = if has_types(kind) { "@flag" } else { "(@flag = 'true')" };
        self.0.replace("$flag", truth).replace('@', before)
    }
}

fn expressions() -> impl Strategy<Value = Expression> {
    let leaf = (word(), -3_i64..4, ratio(), 0..14).prop_map(|(text, number, ratio, nth)| {
        let quoted = format!("'{}'", text.replace('\'', "''"));
        let word = |of: &str, truth: fn(&str, &str) -> bool| {
            let text = text.clone();
            Expression::new(of.replace('?', &quoted), move |row| {
                Some(truth(row.word.as_ref()?.as_deref()?, &text))
            })
        };
        match nth {
            0 => word("@word = ?", |word, text| word == text),
            1 => word("? <= @word", |word, text| text <= word),
            2 => word("@word not in (?, 'a')", |word, text| word != text && word != "a"),
            3 => {
                Expression::new("@word like 'a%'", |row| Some(row.word.as_ref()?.as_ref()?.starts_with('a')))
            }
            4 => Expression::new("@word is null", |row| {
                Some(row.word.as_ref().and_then(Option::as_ref).is_none())
            }),
            5 => Expression::new(format!("@meta.inner <> {quoted}"), move |row| {
                Some(*row.inner.as_ref()?.as_ref()? != text)
            }),
            6 => Expression::new(format!("@count > {number}"), move |row| Some(row.count?? > number)),
            7 => Expression::new(format!("@count between {number} and 2"), move |row| {
                Some((number..=2).contains(&row.count??))
            }),
            8 => Expression::new("@count is not null", |row| Some(row.count.flatten().is_some())),
            9 => Expression::new("@count + 0 < @ratio", |row| Some((row.count?? as f64) < row.ratio??)),
            10 => Expression::new(format!("@ratio >= {ratio}"), move |row| Some(row.ratio?? >= ratio)),
            11 => Expression::new(format!("@ratio * 2 = {number}"), move |row| {
                Some(row.ratio?? * 2.0 == number as f64)
            }),
            12 => Expression::new("$flag", |row| row.flag?),
            _ => Expression::new("$flag is not true", |row| Some(row.flag.flatten() != Some(true))),
        }
    });
    leaf.prop_recursive(3, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|Expression(text, truth)| {
                Expression::new(format!("not ({text})"), move |row| truth(row).map(|truth| !truth))
            }),
            (inner.clone(), inner, any::<bool>()).prop_map(
                |(Expression(a, left), Expression(b, right), is_and)| {
                    // The value that decides, whatever the other is.
                    let (word, decides) = if is_and { ("and", false) } else { ("or", true) };
                    Expression::new(format!("({a}) {word} ({b})"), move |row| match (left(row), right(row)) {
                        (Some(left), Some(right)) => Some(if is_and { left && right } else { left || right }),
                        (left, right) => left.or(right).filter(|truth| *truth == decides),
                    })
                }
            ),
        ]
    })
}

/// The files that rows are written to: their kind, the name of a file, and what stands before the names of columns.
const FILES: [(SourceKind, &str, &str); 8] = [
    (SourceKind::Jsonl, "a.jsonl", ""),
    (SourceKind::Jsonl, "a.json", ""),
    (SourceKind::Csv, "a.csv", ""),
    (SourceKind::Tsv, "a.tsv", ""),
    (SourceKind::Parquet, "a.parquet", ""),
    (SourceKind::Arrow, "a.arrow", ""),
    (SourceKind::Mds, "a.mds", "row."),
    (SourceKind::Tar, "a.tar", "json."),
];

fn bytes(kind: SourceKind, name: &str, rows: &[Row]) -> Vec<u8> {
    let text = |row: &Row| row.text.clone().unwrap_or_default();
    let whole = |row: &Row| {
        let mut whole = row.json();
        whole["text"] = row.text.clone().into();
        whole
    };
    match kind {
        SourceKind::Jsonl if name == "a.json" => Value::from_iter(rows.iter().map(whole)).to_string().into(),
        SourceKind::Jsonl => rows.iter().map(|row| whole(row).to_string() + "\n").collect::<String>().into(),
        SourceKind::Csv | SourceKind::Tsv => {
            let mark = if kind == SourceKind::Csv { "," } else { "\t" };
            let quoted = |value: String| format!("\"{}\"", value.replace('"', "\"\""));
            let line = |row: &Row| {
                let values = row.columns(SourceKind::Csv).into_iter().map(|value| match value {
                    ColumnValue::Null => String::new(),
                    value => quoted(value.to_string()),
                });
                values.chain([quoted(text(row))]).collect::<Vec<_>>().join(mark) + "\n"
            };
            let lines: String = rows.iter().map(line).collect();
            format!("{}{mark}text\n{lines}", COLUMNS.join(mark)).into()
        }
        SourceKind::Mds => {
            let cells = |row: &Row| vec![text(row), row.json().to_string()];
            shard(&["text", "row"], &["str", "json"], &rows.iter().map(cells).collect::<Vec<_>>())
        }
        SourceKind::Tar => {
            let mut archive = tar::Builder::new(Vec::new());
            for row in rows {
                // Before the text and behind it.
                let (json, text) = (("json", Some(row.json().to_string())), ("txt", row.text.clone()));
                for (extension, member) in if row.id % 2 == 0 { [json, text] } else { [text, json] } {
                    let Some(member) = member else { continue };
                    let mut header = tar::Header::new_gnu();
                    header.set_size(member.len() as u64);
                    let name = format!("{:04}.{extension}", row.id);
                    archive.append_data(&mut header, name, member.as_bytes()).expect("a member");
                }
            }
            archive.into_inner().expect("an archive")
        }
        _ => table(kind, &arrays(rows)),
    }
}

fn arrays(rows: &[Row]) -> Vec<(&'static str, ArrayRef)> {
    let texts = |of: fn(&Row) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let inner = arrow_schema::Field::new("inner", arrow_schema::DataType::Utf8, true);
    let meta = StructArray::new(
        vec![inner].into(),
        vec![texts(|row| row.inner.clone().flatten())],
        Some(rows.iter().map(|row| row.inner.is_some()).collect::<Vec<_>>().into()),
    );
    vec![
        ("id", Arc::new(rows.iter().map(|row| Some(row.id)).collect::<Int64Array>())),
        ("word", texts(|row| row.word.clone().flatten())),
        ("meta", Arc::new(meta)),
        ("count", Arc::new(rows.iter().map(|row| row.count.flatten()).collect::<Int64Array>())),
        ("ratio", Arc::new(rows.iter().map(|row| row.ratio.flatten()).collect::<Float64Array>())),
        ("flag", Arc::new(rows.iter().map(|row| row.flag.flatten()).collect::<BooleanArray>())),
        ("text", texts(|row| row.text.clone())),
    ]
}

/// A source of rows in a file below `directory`, with all of their columns.
fn source(
    (kind, name, before): (SourceKind, &str, &str),
    directory: &Path,
    rows: &[Row],
    filter: &Expression,
) -> SourceConfig {
    let path = directory.join(name);
    fs::write(&path, bytes(kind, name, rows)).expect("a file");
    SourceConfig {
        kind,
        paths: vec![path.display().to_string()],
        field: Some(if kind == SourceKind::Tar { "txt" } else { "text" }.to_owned()),
        filter: Some(filter.text(kind, before)),
        columns: COLUMNS.iter().map(|column| format!("{before}{column}")).collect(),
        ..SourceConfig::default()
    }
}

/// The values of each document, in the order of the rows; all pieces of a document have the same ones.
fn documents(batches: Result<Vec<Batch>>) -> Vec<Vec<(String, ColumnValue)>> {
    let batches = match batches {
        Err(Error::Corpus { problem }) if problem.starts_with("there is no batch") => Vec::new(),
        batches => batches.expect("no errors"),
    };
    let mut all = BTreeMap::new();
    for values in batches.iter().flat_map(values) {
        let id: i64 = values[0].1.to_string().parse().expect("a number");
        let known = all.entry(id).or_insert_with(|| values.clone());
        assert_eq!(*known, values);
    }
    all.into_values().collect()
}

fn expected(
    (kind, _, before): (SourceKind, &str, &str),
    rows: &[Row],
    filter: &Expression,
) -> Vec<Vec<(String, ColumnValue)>> {
    let rows = rows.iter().filter(|row| row.text.as_deref().is_some_and(|text| !text.is_empty()));
    let rows = rows.filter(|row| (filter.1)(row) == Some(true));
    let of = |row: &Row| {
        let names = COLUMNS.iter().map(|name| format!("{before}{name}"));
        names.zip(row.columns(kind)).collect()
    };
    rows.map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn the_same_rows_are_the_same_documents_in_every_kind(
        rows in rows(), filter in expressions(), base in configs(),
    ) {
        for file in FILES {
            let directory = tempfile::tempdir().expect("a directory");
            let sources = vec![source(file, directory.path(), &rows, &filter)];
            let config = Config { sources, ..base.clone() };
            let found = documents(block_on(all(&config)));
            prop_assert_eq!(found, expected(file, &rows, &filter), "{:?} {:?}", file, config.sources[0].filter);
        }
    }

    #[test]
    fn a_resume_goes_on_with_the_same_values(
        rows in rows(), filter in expressions(), base in configs(), file in prop::sample::select(FILES.to_vec()),
        is_sample: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut source = source(file, directory.path(), &rows, &filter);
        // A third of the rows have the largest weight, and others none.
        let is_sample = is_sample && !matches!(file.0, SourceKind::Mds | SourceKind::Tar);
        source.sample = is_sample.then(|| SampleConfig { field: "id".to_owned(), max: 13.0 });
        let config = Config { sources: vec![source], ..base };
        let batches = block_on(all(&config));
        prop_assume!(batches.is_ok());
        let wanted = expected(file, &rows, &filter);
        prop_assert!(documents(batches).iter().all(|found| wanted.contains(found)));
        prop_assert_eq!(block_on(resumes(&config)), Ok(()));
    }
}

/// A config of JSON lines of which a filter leaves every third.
fn thirds(directory: &Path) -> Config {
    let line = |n: usize| json!({ "text": format!("text {n}"), "n": n });
    let lines: String = (0..300).map(|n| line(n).to_string() + "\n").collect();
    fs::write(directory.join("a.jsonl"), lines).expect("a file");
    let source = SourceConfig {
        filter: Some("n % 3 = 0".to_owned()),
        ..SourceConfig::jsonl(directory.join("a.jsonl").display().to_string(), "text")
    };
    let mut config =
        Config { sources: vec![source], tokenizer: TokenizerConfig::bytes(), ..Config::default() };
    let pipeline = &mut config.pipeline;
    (pipeline.seq_len, pipeline.epochs, pipeline.lanes) = (32, Some(1), 2.into());
    (pipeline.holdout, pipeline.memory) = (0.2, ByteCount::mib(16));
    config
}

#[test]
fn token_shards_and_the_token_cache_have_what_the_filter_leaves() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = thirds(directory.path());
    let wanted = digests(&block_on(all(&config)).expect("no errors"));
    assert!(!wanted.is_empty());
    let shards = directory.path().join("shards");
    let prepared = block_on(prepare(&config, &shards, |_| {})).expect("they are prepared");
    assert_eq!((prepared.documents, prepared.skipped), (100, 0));
    let mut stored =
        Config { sources: vec![SourceConfig::shards(shards.display().to_string())], ..config.clone() };
    assert_eq!(digests(&block_on(all(&stored)).expect("no errors")), wanted);
    for shuffle in [ShuffleRule::Window, ShuffleRule::Global] {
        let mut without = stored.clone();
        without.sources[0].filter = Some("1 > 2".to_owned());
        without.pipeline.shuffle = shuffle;
        assert!(documents(block_on(all(&without))).is_empty(), "{shuffle}");
    }
    stored.pipeline.shuffle = ShuffleRule::Global;
    let shuffled = block_on(all(&stored)).expect("no errors");
    let text_bytes = |batches: &[Batch]| batches.iter().map(Batch::text_bytes).sum::<u64>();
    assert_eq!(text_bytes(&shuffled), text_bytes(&block_on(all(&config)).expect("no errors")));

    let mut cached = config;
    cached.sources[0].cache =
        Some(TokenCacheConfig { path: directory.path().join("tokens"), limit: ByteCount::mib(64) });
    for _ in 0..2 {
        assert_eq!(digests(&block_on(all(&cached)).expect("no errors")), wanted);
    }
}
