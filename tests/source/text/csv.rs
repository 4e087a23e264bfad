//! CSV and TSV: tables of text, over generated cells and as other programs write them.

use futures::TryStreamExt;
use millstream::config::{CsvConfig, OnError, Oversize, SampleConfig, SourceConfig, SourceKind};
use millstream::{Error, LaneCursor, Meter, Source};
use proptest::prelude::*;

use crate::corpus::{Corpus, all, bound, drain, open, run, texts};

fn config(corpus: &Corpus, delimiter: char) -> SourceConfig {
    let kind = if delimiter == ',' { SourceKind::Csv } else { SourceKind::Tsv };
    SourceConfig { kind, field: Some("text".to_owned()), ..corpus.lines() }
}

/// A cell as RFC 4180 quotes it, where it has to be or where `always`; or as Spark does, with backslashes.
fn quoted(cell: &str, delimiter: char, always: bool, backslashes: bool) -> String {
    if always || cell.contains(['"', '\n', '\r', delimiter]) {
        match backslashes {
            true => format!("\"{}\"", cell.replace('\\', "\\\\").replace('"', "\\\"")),
            false => format!("\"{}\"", cell.replace('"', "\"\"")),
        }
    } else {
        cell.to_owned()
    }
}

#[derive(Clone, Debug)]
struct Table {
    cells: Vec<[String; 3]>,
    delimiter: char,
    end: &'static str,
    always: bool,
    bom: bool,
    ended: bool,
    backslashes: bool,
}

impl Table {
    fn text(&self) -> String {
        let header = ["id", "text", "note"].map(str::to_owned);
        let line = |cells: &[String; 3]| {
            cells
                .each_ref()
                .map(|cell| quoted(cell, self.delimiter, self.always, self.backslashes))
                .join(&self.delimiter.to_string())
        };
        let lines: Vec<String> = std::iter::once(&header).chain(&self.cells).map(line).collect();
        let text = lines.join(self.end) + if self.ended { self.end } else { "" };
        if self.bom { format!("\u{feff}{text}") } else { text }
    }

    fn wanted(&self) -> Vec<&str> {
        self.cells.iter().map(|cells| cells[1].as_str()).filter(|text| !text.is_empty()).collect()
    }
}

fn table() -> impl Strategy<Value = Table> {
    let cell = prop_oneof![
        4 => "\u{feff}?[a-zé漢,;\t\"\\\\\n\r ]{0,12}",
        1 => (50_usize..200).prop_map(|n| "long, \"".repeat(n)),
    ];
    let cells = prop::collection::vec([cell.clone(), cell.clone(), cell], 0..30);
    let end = prop::sample::select(vec!["\n", "\r\n"]);
    (cells, prop::sample::select(vec![',', '\t', ';']), end, any::<[bool; 4]>()).prop_map(
        |(cells, delimiter, end, [always, bom, ended, backslashes])| Table {
            cells,
            delimiter,
            end,
            always,
            bom,
            ended,
            backslashes,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn each_record_is_a_document_and_every_cursor_resumes(table in table(), slab in 4_usize..400) {
        let corpus = Corpus::new([("table", table.text())]);
        run(async {
            let mut config = config(&corpus, table.delimiter);
            config.csv.delimiter = (table.delimiter == ';').then(|| ";".to_owned());
            config.csv.escape = table.backslashes.then(|| "\\".to_owned());
            let source = open(&config).await.with_slab_bytes(slab);
            let whole = all(source.documents(&LaneCursor::default())).await;
            prop_assert_eq!(texts(&whole), table.wanted());
            for (index, seen) in whole.iter().enumerate() {
                let rest = all(source.documents(&seen.cursor)).await;
                prop_assert_eq!(&rest, &whole[index + 1..], "after record {}", index);
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_in_a_table_panics_or_hangs(bytes in prop::collection::vec(prop::sample::select(b"a,\"\n\r\t\xff".to_vec()), 0..200)) {
        let corpus = Corpus::new([("table", [b"text,b\n".to_vec(), bytes].concat())]);
        run(async {
            let config = SourceConfig { on_error: OnError::Skip(1000), ..config(&corpus, ',') };
            let meter = Meter::new("source");
            let source = open(&config).await.with_meter(meter.clone());
            let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
            prop_assert!(error.is_none(), "{error:?}");
            prop_assert!(seen.iter().all(|seen| !seen.text.is_empty()));
            Ok(())
        })?;
    }
}

#[test]
fn a_record_of_other_fields_is_bad_input() {
    let corpus = Corpus::new([("table", "text,b\none,1\ntwo\nthree,3\n")]);
    run(async {
        let source = open(&config(&corpus, ',')).await;
        let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["one"]);
        let error = error.expect("an error").to_string();
        let expected = "table:3 (byte 13): the record has 1 field, and the header 2; mend the record, or say";
        assert!(error.contains(expected), "{error}");

        let config = SourceConfig { on_error: OnError::Skip(1), ..config(&corpus, ',') };
        let seen = all(open(&config).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["one", "three"]);
    });
}

#[test]
fn quotes_that_are_escaped_are_told_their_setting() {
    let lines = ["1,\"he said \\\"hi, you\\\"\"", "1,\"ends with \\\"\""];
    for line in lines {
        let corpus = Corpus::new([("table", format!("id,text\n{line}\n"))]);
        run(async {
            let source = open(&config(&corpus, ',')).await;
            let (_, error) = drain(source.documents(&LaneCursor::default())).await;
            let error = error.expect("an error").to_string();
            assert!(error.contains(r#"csv = { escape = "\\" } if \" is a quote within a field"#), "{error}");
        });
    }
}

#[test]
fn without_quotes_they_are_text() {
    let corpus = Corpus::new([("table", "id\ttext\n1\t\"not closed\n2\ta \"\"b\"\n3\t\"c\"\n")]);
    run(async {
        let csv = CsvConfig { quote: String::new(), ..CsvConfig::default() };
        let config = SourceConfig { csv, ..config(&corpus, '\t') };
        let seen = all(open(&config).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["\"not closed", "a \"\"b\"", "\"c\""]);
    });
}

#[test]
fn a_setting_of_tables_that_cannot_be_is_refused() {
    let corpus = Corpus::new([("table", "text,b\none,1\n")]);
    let refused = |kind, (delimiter, quote, escape): (&str, &str, &str)| {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let csv = CsvConfig { delimiter: some(delimiter), quote: quote.to_owned(), escape: some(escape) };
        let config = SourceConfig { kind, csv, ..config(&corpus, ',') };
        let error = run(Source::open(&[config])).expect_err("an error");
        let Error::Config { key, .. } = error else { panic!("{error}") };
        key
    };
    for (setting, values) in [
        ("delimiter", (";;", "\"", "")),
        ("delimiter", ("\n", "\"", "")),
        ("delimiter", ("é", "\"", "")),
        ("quote", ("", "''", "")),
        ("quote", ("'", "'", "")),
        ("quote", ("", "'", "'")),
        ("escape", ("", "", "\\")),
        ("escape", ("\\", "'", "\\")),
    ] {
        assert_eq!(refused(SourceKind::Csv, values), format!("source.0.csv.{setting}"));
    }
    assert_eq!(refused(SourceKind::Jsonl, (";", "\"", "")), "source.0.csv");
}

#[test]
fn a_record_beyond_the_bound_follows_the_policy() {
    let long = "x".repeat(100_000);
    let corpus = Corpus::new([("table", format!("text,b\none,1\n{long},2\nthree,3\n"))]);
    run(async {
        for max in [100, 99_999] {
            let skipping = SourceConfig {
                max_document_bytes: bound(max),
                oversize: Oversize::Skip,
                ..config(&corpus, ',')
            };
            let seen = all(open(&skipping).await.documents(&LaneCursor::default())).await;
            assert_eq!(texts(&seen), ["one", "three"]);
            let cutting = SourceConfig { oversize: Oversize::Truncate, ..skipping };
            let seen = all(open(&cutting).await.documents(&LaneCursor::default())).await;
            assert_eq!(texts(&seen), ["one", &long[..max], "three"]);
        }
    });
}

#[test]
fn a_column_that_is_not_there_is_named_beside_those_that_are() {
    let corpus = Corpus::new([("table", "id,body\n1,one\n")]);
    run(async {
        let error = Source::open(&[config(&corpus, ',')]).await.expect_err("an error").to_string();
        assert!(error.contains("there is no column \"text\"; the header has id, body"), "{error}");
    });
}

#[test]
fn a_weight_is_a_number() {
    let corpus = Corpus::new([("table", "text,w\nall,2\nnone,0\nbad,x\n")]);
    run(async {
        let sample = Some(SampleConfig { field: "w".to_owned(), max: 2.0 });
        let config = SourceConfig { sample, ..config(&corpus, ',') };
        let (seen, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["all"]);
        let error = error.expect("an error").to_string();
        assert!(error.contains("column \"w\" is \"x\" and not a number"), "{error}");
    });
}

/// The line that an error about each document names.
async fn lines_of(config: &SourceConfig) -> Vec<u64> {
    let source = open(config).await;
    let documents: Vec<_> = source.documents(&LaneCursor::default()).try_collect().await.expect("no errors");
    let line = |error| match error {
        Error::Document { line, .. } => line,
        other => panic!("{other}"),
    };
    documents.iter().map(|document| line(document.value.error("it is odd", "mend it"))).collect()
}

#[test]
fn a_quote_that_is_never_closed_is_bad_input_where_it_opens() {
    let rest = "5,five,\n".repeat(50_000);
    let cases = [
        // What comes before the quote, the quote to the end, and where the quote is: its line and byte.
        ("id,text,note\n1,one,\n".to_owned(), format!("2,\"two,\n{rest}"), 3, 22),
        ("id,text,note\n1,one,\n".to_owned(), "\"2,two,".to_owned(), 3, 20),
        ("id,text,note\r\n1,one,\r\n\r\n".to_owned(), "\"2,two,".to_owned(), 4, 24),
        ("id,text,note\n1,one,\n2,\"a\nb\",".to_owned(), "\"c\"\"\n".to_owned(), 4, 28),
    ];
    for (before, quote, line, byte) in cases {
        let corpus = Corpus::new([("table", format!("{before}{quote}"))]);
        run(async {
            let source = open(&config(&corpus, ',')).await;
            let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
            assert_eq!(texts(&seen), ["one"], "{before}");
            let error = error.expect("an error").to_string();
            let expected = format!(
                "table:{line} (byte {byte}): the quote that opens here is never closed, so the rest of the file, {} \
                 bytes, cannot be told into records; close it, or double it if it is text",
                quote.len() - quote.find('"').expect("a quote")
            );
            assert!(error.contains(&expected), "{error}");

            let meter = Meter::new("source");
            let skipping = SourceConfig { on_error: OnError::Skip(1), ..config(&corpus, ',') };
            let source = open(&skipping).await.with_meter(meter.clone());
            assert_eq!(texts(&all(source.documents(&LaneCursor::default())).await), ["one"]);
            assert_eq!(meter.snapshot().skipped, 1);
        });
    }
}

#[test]
fn a_header_whose_quote_is_never_closed_is_bad_input() {
    let corpus = Corpus::new([("table", "id,\"text\n1,one\n2,two\n")]);
    run(async {
        let source = open(&config(&corpus, ',')).await;
        let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
        assert!(seen.is_empty());
        let error = error.expect("an error").to_string();
        assert!(error.contains("table:1 (byte 3): the quote that opens here is never closed"), "{error}");
    });
}

#[test]
fn records_are_on_the_lines_that_they_begin_on() {
    for end in ["\n", "\r\n"] {
        let table = ["id,text", "1,one", "", "2,\"two", "more\"", "3,three", ""].join(end);
        let corpus = Corpus::new([("table", &table)]);
        let config = config(&corpus, ',');
        assert_eq!(run(lines_of(&config)), [2, 4, 6], "{end:?}");
        let documents = run(async { all(open(&config).await.documents(&LaneCursor::default())).await });
        let begins = ["1,one", "2,\"two", "3,three"].map(|record| table.find(record).map(|at| at as u64));
        let bytes = documents.iter().map(|document| Some(document.position.byte));
        assert_eq!(bytes.collect::<Vec<_>>(), begins, "{end:?}");
    }
}

#[test]
fn lines_of_a_compressed_table_are_not_known() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, b"id,text\n1,one\n2,two\n").expect("written");
    let corpus = Corpus::new([("table", packed.finish().expect("written"))]);
    assert_eq!(run(lines_of(&config(&corpus, ','))), [0, 0]);
}

#[test]
fn what_is_said_of_a_huge_header_is_short() {
    let names = (0..100_000).map(|n| format!("column{n}")).collect::<Vec<_>>().join(",");
    for header in [names, "x".repeat(1 << 20)] {
        let corpus = Corpus::new([("table", header)]);
        run(async {
            let error = Source::open(&[config(&corpus, ',')]).await.expect_err("an error").to_string();
            assert!(error.contains("there is no column \"text\"; the header has "), "{:.900}", error);
            assert!(error.len() < 1000, "{} bytes", error.len());
        });
    }
    let corpus = Corpus::new([("table", format!("text,w\nall,{}\n", "x".repeat(1 << 20)))]);
    run(async {
        let sample = Some(SampleConfig { field: "w".to_owned(), max: 2.0 });
        let config = SourceConfig { sample, ..config(&corpus, ',') };
        let (_, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
        assert!(error.expect("an error").to_string().len() < 1000);
    });
}
