//! Parquet and Arrow: columns that are not there, weights, and texts beyond the bound.

use millstream::config::{OnError, Oversize, SampleConfig, SourceConfig};
use millstream::{LaneCursor, Meter, Source};

use super::others::{at, config, rows};
use crate::corpus::{all, bound, drain, open, run, texts};

const TABLES: [&str; 3] = ["snappy.parquet", "lz4.parquet", "replaced.arrow"];

fn refused(config: SourceConfig) -> String {
    run(async { Source::open(&[config]).await.expect_err("a refusal").to_string() })
}

#[test]
fn a_column_that_is_not_there_is_named_when_the_corpus_is_opened() {
    for name in TABLES {
        let error = refused(at("body", config(name)));
        assert!(error.contains("there is no column \"body\"; it has id, lang, score, text"), "{error}");
        let error = refused(at("doc.body.words", config(name)));
        assert!(error.contains("there is no column \"doc.body.words\"; it has text"), "{error}");
        let error = refused(at("quality", config(name)));
        assert!(error.contains("column \"quality\" is Int64 and not text"), "{error}");
        let sample = Some(SampleConfig { field: "lang".to_owned(), max: 1.0 });
        let error = refused(SourceConfig { sample, ..config(name) });
        assert!(error.contains("column \"lang\" is Utf8 and not a number"), "{error}");
    }
    let error = refused(at("body", config("mds")));
    assert!(error.contains("there is no column \"body\"; it has id, meta, raw, text"), "{error}");
    let error = refused(at("id", config("mds")));
    assert!(error.contains("column \"id\" is int and not text"), "{error}");
}

#[test]
fn a_weight_is_drawn_by_and_one_that_is_null_is_bad_input() {
    for name in TABLES {
        let weighted = |field: &str| {
            let sample = Some(SampleConfig { field: field.to_owned(), max: 1.0 });
            SourceConfig { sample, ..config(name) }
        };
        run(async {
            let seen = all(open(&weighted("quality")).await.documents(&LaneCursor::default())).await;
            let rows = rows();
            let wanted: Vec<&str> =
                rows.iter().filter(|row| row.quality > 0).filter_map(|row| row.document()).collect();
            assert_eq!(texts(&seen), wanted);
            let (_, error) = drain(open(&weighted("score")).await.documents(&LaneCursor::default())).await;
            let error = error.expect("an error").to_string();
            assert!(error.contains("(row 9): column \"score\" is null and not a number"), "{error}");
        });
    }
}

#[test]
fn texts_beyond_the_bound_follow_the_policy() {
    let rows = rows();
    let wanted: Vec<&str> = rows.iter().filter_map(|row| row.document()).collect();
    for name in ["snappy.parquet", "lz4.parquet", "replaced.arrow", "mds-zstd"] {
        let wanted = if name == "mds-zstd" { &wanted[..26] } else { &wanted[..] };
        for max in [20, 30, 33] {
            let of = |oversize| SourceConfig { max_document_bytes: bound(max), oversize, ..config(name) };
            run(async {
                let seen = all(open(&of(Oversize::Truncate)).await.documents(&LaneCursor::default())).await;
                let cut: Vec<&str> = wanted.iter().map(|text| cut_to(text, max)).collect();
                assert_eq!(texts(&seen), cut);
                let meter = Meter::new("source");
                let source = open(&of(Oversize::Skip)).await.with_meter(meter.clone());
                let seen = all(source.documents(&LaneCursor::default())).await;
                let short: Vec<&str> = wanted.iter().copied().filter(|text| text.len() <= max).collect();
                assert_eq!(texts(&seen), short);
                assert_eq!(meter.snapshot().skipped as usize, wanted.len() - short.len());
                let config = SourceConfig { on_error: OnError::Skip(60), ..of(Oversize::Error) };
                let seen = all(open(&config).await.documents(&LaneCursor::default())).await;
                assert_eq!(texts(&seen), short);
            });
        }
    }
}

/// The longest start of a text that is not longer than `max` bytes.
fn cut_to(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.expect("0 is one")]
}
