//! `where` and weights: which rows of a table are documents.

use millstream::config::{SampleConfig, SourceConfig};
use proptest::prelude::*;
use serde_json::Value;

use crate::rows::{TABLES, config, texts, texts_of, written};

fn filtered(file: &str, filter: &str) -> SourceConfig {
    SourceConfig { filter: Some(filter.to_owned()), ..config(file) }
}

/// The texts of the rows that `is_wanted`.
fn of(is_wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    texts_of(written().iter().filter(|row| is_wanted(row)), "/text")
}

fn score(row: &Value) -> Option<f64> {
    row["score"].as_f64()
}

#[test]
fn an_expression_is_what_sql_says() {
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("lang = 'en' and score > 3", of(|row| row["lang"] == "en" && score(row) > Some(3.0))),
        ("score <= 2.5", of(|row| score(row).is_some_and(|score| score <= 2.5))),
        // What is null is neither true nor false.
        ("not (score > 3)", of(|row| score(row).is_some_and(|score| score <= 3.0))),
        ("score is null", of(|row| score(row).is_none())),
        ("score is not null or lang = 'de'", of(|row| score(row).is_some() || row["lang"] == "de")),
        ("lang in ('de', 'fr')", of(|row| row["lang"] != "en")),
        ("lang not in ('de', 'fr')", of(|row| row["lang"] == "en")),
        ("id between 5 and 9", of(|row| (5..=9).contains(&row["id"].as_i64().expect("an id")))),
        ("id not between 5 and 9", of(|row| !(5..=9).contains(&row["id"].as_i64().expect("an id")))),
        (
            "doc.body.text like 'deep 1%'",
            of(|row| {
                row.pointer("/doc/body/text")
                    .is_some_and(|text| text.as_str().expect("text").starts_with("deep 1"))
            }),
        ),
        ("lang ilike 'E_'", of(|row| row["lang"] == "en")),
        ("doc.title is null", of(|row| row["doc"].is_null())),
        (
            "id % 7 = 3 and -id < 2 * (1 - 6)",
            of(|row| row["id"].as_i64().expect("an id") % 7 == 3 && row["id"].as_i64() > Some(10)),
        ),
        ("true", of(|_| true)),
        ("null", Vec::new()),
        ("1 > 2", Vec::new()),
        ("(score > 3) is not true", of(|row| score(row).is_none_or(|score| score <= 3.0))),
        ("\"lang\" <> 'en'", of(|row| row["lang"] != "en")),
    ];
    for file in TABLES {
        for (filter, wanted) in &cases {
            assert_eq!(texts(&filtered(file, filter)).as_ref(), Ok(wanted), "{file} where {filter}");
        }
    }
}

#[test]
fn what_is_no_condition_is_refused() {
    let refusals = [
        ("lang = ", "source.0.where: sql parser error"),
        ("lang = 'en' lang", "source.0.where: \"lang\" follows the expression"),
        ("upper(lang) = 'EN'", "source.0.where: `upper(lang)` is not supported"),
        ("exists (select 1)", "is not supported"),
        ("missing = 1", "there is no column \"missing\""),
        ("lang > 3", "where: Utf8 cannot be compared with Int64"),
        ("lang", "where: a value of Utf8 stands where true or false must be"),
    ];
    for (filter, problem) in refusals {
        let error = texts(&filtered("snappy.parquet", filter)).expect_err("a refusal");
        assert!(error.contains(problem), "{filter}: {error}");
    }
    let text = SourceConfig {
        kind: millstream::config::SourceKind::Text,
        field: None,
        ..filtered("texts.json", "true")
    };
    assert!(texts(&text).expect_err("a refusal").starts_with("source.0.where: a text source has no columns"));
}

#[test]
fn weights_draw_rows() {
    for file in TABLES {
        let sample = Some(SampleConfig { field: "quality".to_owned(), max: 4.0 });
        let drawn = texts(&SourceConfig { sample, ..config(file) }).expect("no error");
        let never = of(|row| row["quality"] == 0);
        let always = of(|row| row["quality"] == 4);
        assert!(
            always.iter().all(|text| drawn.contains(text)) && never.iter().all(|text| !drawn.contains(text))
        );
        assert!((20..50).contains(&drawn.len()), "{}", drawn.len());
        let sample = Some(SampleConfig { field: "score".to_owned(), max: 4.0 });
        let error = texts(&SourceConfig { sample, ..config(file) }).expect_err("row 9 has none");
        assert!(error.contains("(row 9): column \"score\" is null and not a number"), "{error}");
        let sample = Some(SampleConfig { field: "lang".to_owned(), max: 4.0 });
        let error = texts(&SourceConfig { sample, ..config(file) }).expect_err("no number");
        assert!(error.contains("column \"lang\" is Utf8 and not a number"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_expression_panics(filter in "[a-z0-9 .'()<>=%+*/-]{0,40}|(lang|score|id|doc) (=|<|like|in|between|is|and|or|%|/) (lang|score|id|0|null|'a'|\\(1\\))( (=|and|or|/) (id|score|0|null))?") {
        let _ = texts(&filtered("snappy.parquet", &filter));
    }
}
