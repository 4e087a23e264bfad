//! Columns: each piece of each batch has the values that its document's record has, however the document was shuffled,
//! packed, dealt, resumed, cached or prepared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use futures::{StreamExt, TryStreamExt};
use millstream::config::{
    ByteCount, Config, OrAuto, ShuffleRule, SourceConfig, SourceKind, TokenCacheConfig, TokenizerKind,
};
use millstream::document::ColumnValue;
use millstream::loader::LoaderBuilder;
use millstream::prepare::prepare;
use millstream::{Batch, Cursor, Document, Loader, Sequence, Tokens};
use proptest::prelude::*;

use crate::corpus::{block_on, builder, configs, reread};
use crate::support::tokenizers::before;

/// The columns of the test, by their names in the files.
const NAMES: [&str; 4] = ["score", "meta.url", "lang", "id"];

type Values = Vec<ColumnValue>;

/// The values of each document, by its file and the byte where it begins.
type Known = BTreeMap<(PathBuf, u64), Values>;

/// A record: its text, an integer, perhaps a float, perhaps a language (of the record, or else of its directory), and
/// perhaps an object with a link.
type Record = (String, i64, Option<f64>, Option<Option<String>>, Option<String>);

fn records() -> impl Strategy<Value = BTreeMap<String, Vec<Record>>> {
    let text = prop_oneof![8 => "[a-zé€😀]{2,12}( [a-z]{1,9}){0,4}", 1 => "[a-z]{200,400}"];
    let score = prop::option::of((-1000_i32..1000).prop_map(|score| f64::from(score) / 8.0));
    let lang = prop::option::of(prop::option::of("[a-z]{2}"));
    let record = (text, any::<i64>(), score, lang, prop::option::of("[a-z/\"\n]{0,20}"));
    prop::collection::btree_map(
        "(lang=(en|de|__HIVE_DEFAULT_PARTITION__)/)?[a-z]{1,3}\\.jsonl",
        prop::collection::vec(record, 0..14),
        1..6,
    )
    .prop_filter("a corpus has documents", |files| files.values().any(|file| !file.is_empty()))
}

/// Writes the files, and says what each document's columns are.
fn write(directory: &Path, files: &BTreeMap<String, Vec<Record>>) -> Known {
    let mut known = Known::new();
    for (name, records) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        let partition = name.strip_prefix("lang=").and_then(|rest| rest.split('/').next());
        let partition = partition.filter(|value| value.len() == 2);
        let mut file = String::new();
        for (text, id, score, lang, url) in records {
            let mut record = serde_json::json!({ "id": id, "text": text });
            if let Some(score) = score {
                record["score"] = (*score).into();
            }
            if let Some(lang) = lang {
                record["lang"] = lang.clone().into();
            }
            if let Some(url) = url {
                record["meta"] = serde_json::json!({ "url": url });
            }
            let of_text =
                |text: Option<&str>| text.map_or(ColumnValue::Null, |text| ColumnValue::Text(text.into()));
            let lang = match lang {
                Some(lang) => of_text(lang.as_deref()),
                None => of_text(partition),
            };
            let score = score.map_or(ColumnValue::Null, ColumnValue::Float);
            let values = vec![score, of_text(url.as_deref()), lang, ColumnValue::Integer((*id).into())];
            known.insert((path.clone(), file.len() as u64), values);
            file.push_str(&format!("{record}\n"));
        }
        std::fs::write(path, file).expect("a file");
    }
    known
}

/// All batches, from a cursor on.
fn batches(builder: LoaderBuilder, cursor: Option<&Cursor>) -> Vec<Batch> {
    block_on(async {
        let builder = match cursor {
            Some(cursor) => builder.with_cursor(cursor.clone()),
            None => builder,
        };
        builder.open().await.expect("it opens").try_collect().await.expect("no error")
    })
}

/// Checks the columns of all pieces. Returns how many there are.
fn check(batches: &[Batch], known: &Known, names: &[&str]) -> Result<usize, TestCaseError> {
    let mut pieces = 0;
    for batch in batches {
        for piece in batch.pieces() {
            let place = (batch.path(piece).to_owned(), piece.position.byte);
            let of = |name: &&str| {
                known[&place][NAMES.iter().position(|other| other == name).expect("a name")].clone()
            };
            let expected: Values = names.iter().map(of).collect();
            let found: Values = batch.columns(piece).map(|(_, value)| value.clone()).collect();
            prop_assert_eq!(&found, &expected, "{:?}", place);
            for (name, value) in names.iter().zip(&expected) {
                prop_assert_eq!(batch.column(piece, name), Some(value));
            }
            prop_assert_eq!(batch.column(piece, "other"), None);
            pieces += 1;
        }
    }
    Ok(pieces)
}

fn ids(batches: &[Batch]) -> Vec<Vec<u32>> {
    batches.iter().map(|batch| batch.ids().to_vec()).collect()
}

/// All documents that batches have, by their files and bytes.
fn documents(batches: &[Batch]) -> BTreeSet<(PathBuf, u64)> {
    let place = |batch: &Batch| {
        let places = batch.pieces().iter().map(|piece| (batch.path(piece).to_owned(), piece.position.byte));
        places.collect::<Vec<_>>()
    };
    batches.iter().flat_map(place).collect()
}

/// Stages that look at the columns, and replace texts, ids and rows.
fn with_stages(builder: LoaderBuilder) -> LoaderBuilder {
    let shout = |document: Document| {
        assert!(document.column("id").is_some());
        document.with_text(document.text().to_uppercase())
    };
    let twice = |tokens: Tokens| {
        assert!(tokens.column("id").is_some());
        tokens.with_ids(tokens.ids().repeat(2))
    };
    let next = |row: Sequence| {
        assert!(row.parts().iter().all(|part| part.column("id").is_some()));
        row.map_ids(|_, id| id.saturating_sub(1))
    };
    builder
        .stage("shout", move |documents, _| documents.map_ok(move |it| it.map(shout)).boxed())
        .token_stage("twice", move |tokens, _| tokens.map_ok(move |it| it.map(twice)).boxed())
        .row_stage("next", move |rows, _| rows.map_ok(move |it| it.map(next)).boxed())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn each_piece_has_the_columns_of_its_document(
        files in records(), config in configs(), names in prop::sample::subsequence(NAMES.to_vec(), 1..=4).prop_shuffle(),
        resumed in any::<prop::sample::Index>(), is_global: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let known = write(&directory.path().join("files"), &files);
        let paths = vec![format!("{}/files/**/*.jsonl", directory.path().display())];
        let columns: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let plain = SourceConfig { kind: SourceKind::Jsonl, field: Some("text".to_owned()), paths, split: Some(ByteCount(300)), ..SourceConfig::default() };
        let source = SourceConfig { columns: columns.clone(), ..plain.clone() };
        let mut config = Config { sources: vec![plain], ..config };
        config.tokenizer.kind = TokenizerKind::Bytes;
        let without = batches(builder(&config), None);

        // They change nothing else.
        config.sources = vec![source.clone()];
        let all = batches(builder(&config), None);
        prop_assert_eq!(ids(&all), ids(&without));
        prop_assert!(check(&all, &known, &names)? > 0);

        let cursor = reread(all[resumed.index(all.len())].cursor());
        let rest = batches(builder(&config), Some(&cursor));
        prop_assert_eq!(ids(&rest), ids(&all[all.len() - rest.len()..]));
        check(&rest, &known, &names)?;

        // The first run writes the cache, and the second one reads it.
        let cache = TokenCacheConfig { path: directory.path().join("cache"), limit: ByteCount::mib(64) };
        config.sources = vec![SourceConfig { cache: Some(cache), ..source.clone() }];
        for is_cached in [false, true] {
            let count: Arc<AtomicUsize> = Arc::default();
            let counted = count.clone();
            let tokenizer = before("bytes, counted", move |_| {
                counted.fetch_add(1, Relaxed);
                Ok(())
            });
            let cached = batches(Loader::builder(&config).with_tokenizer(tokenizer), None);
            prop_assert_eq!(ids(&cached), ids(&all));
            check(&cached, &known, &names)?;
            prop_assert_eq!(count.load(Relaxed) == 0, is_cached);
        }

        // Shards have all columns; whoever reads them says which ones are wanted.
        let shards = directory.path().join("shards");
        let made_of = SourceConfig { columns: NAMES.map(str::to_owned).to_vec(), ..source.clone() };
        config.sources = vec![made_of];
        block_on(prepare(&config, &shards, |_| ())).expect("prepared");
        let of_shards = |columns| SourceConfig {
            kind: SourceKind::Shards,
            paths: vec![shards.display().to_string()],
            columns,
            ..SourceConfig::default()
        };
        config.sources = vec![of_shards(columns.clone())];
        if is_global {
            (config.pipeline.shuffle, config.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
            config.pipeline.shuffle_splits = true;
        }
        let of_prepared = batches(builder(&config), None);
        prop_assert!(check(&of_prepared, &known, &names)? > 0);
        config.sources = vec![of_shards(Vec::new())];
        let none = batches(builder(&config), None);
        prop_assert_eq!(ids(&none), ids(&of_prepared));
        check(&none, &known, &[])?;
    }

    #[test]
    fn where_chooses_the_same_documents_of_shards_as_of_text(
        files in records(), config in configs(), filter in prop::sample::select(vec![
            "score >= 0", "lang = 'en'", "lang is null or score < 0", "id > 0 and \"meta.url\" is null",
        ]),
        resumed in any::<prop::sample::Index>(), is_global: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        // One that each of them chooses.
        let chosen = vec![
            ("chosen".to_owned(), 5, Some(1.0), Some(Some("en".to_owned())), None),
            ("chosen".to_owned(), 5, Some(-1.0), None, None),
        ];
        let mut files = files;
        files.insert("chosen.jsonl".to_owned(), chosen);
        let known = write(&directory.path().join("files"), &files);
        let filter = Some(filter.to_owned());
        let text = SourceConfig {
            kind: SourceKind::Jsonl,
            field: Some("text".to_owned()),
            paths: vec![format!("{}/files/**/*.jsonl", directory.path().display())],
            split: Some(ByteCount(300)),
            columns: NAMES.map(str::to_owned).to_vec(),
            ..SourceConfig::default()
        };
        let mut config = Config { sources: vec![SourceConfig { filter: filter.clone(), ..text.clone() }], ..config };
        config.tokenizer.kind = TokenizerKind::Bytes;
        let expected = batches(builder(&config), None);

        let shards = directory.path().join("shards");
        config.sources = vec![text];
        block_on(prepare(&config, &shards, |_| ())).expect("prepared");
        let paths = vec![shards.display().to_string()];
        let columns = vec!["id".to_owned()];
        config.sources = vec![SourceConfig { kind: SourceKind::Shards, paths, filter, columns, ..SourceConfig::default() }];
        let of_shards = batches(builder(&config), None);
        prop_assert_eq!(ids(&of_shards), ids(&expected));
        check(&of_shards, &known, &["id"])?;
        if !of_shards.is_empty() {
            let cursor = reread(of_shards[resumed.index(of_shards.len())].cursor());
            let rest = batches(builder(&config), Some(&cursor));
            prop_assert_eq!(ids(&rest), ids(&of_shards[of_shards.len() - rest.len()..]));
        }
        if is_global {
            config.pipeline.shuffle_splits = true;
            (config.pipeline.shuffle, config.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
            let all = batches(builder(&config), None);
            check(&all, &known, &["id"])?;
            prop_assert_eq!(documents(&all), documents(&expected));
            if !all.is_empty() {
                let cursor = reread(all[resumed.index(all.len())].cursor());
                let rest = batches(builder(&config), Some(&cursor));
                prop_assert_eq!(ids(&rest), ids(&all[all.len() - rest.len()..]));
            }
        }
    }

    #[test]
    fn stages_that_replace_texts_ids_and_rows_keep_the_columns(files in records(), config in configs()) {
        let directory = tempfile::tempdir().expect("a directory");
        let known = write(directory.path(), &files);
        let source = SourceConfig {
            kind: SourceKind::Jsonl,
            field: Some("text".to_owned()),
            paths: vec![format!("{}/**/*.jsonl", directory.path().display())],
            columns: NAMES.map(str::to_owned).to_vec(),
            ..SourceConfig::default()
        };
        let config = Config { sources: vec![source], ..config };
        prop_assert!(check(&batches(with_stages(builder(&config)), None), &known, &NAMES)? > 0);
    }
}
