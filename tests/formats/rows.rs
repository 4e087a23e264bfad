//! The files, what is in them, and what a source makes of them.

use std::future::Future;
use std::path::PathBuf;

use futures::StreamExt;
use millstream::config::{OnError, SourceConfig, SourceKind};
use millstream::source::{Lane, Source};
use millstream::{LaneCursor, Position, Result};
use serde_json::Value;

/// The tables: every codec and version, row groups that end anywhere, streams and files.
pub(crate) const TABLES: [&str; 9] = [
    "snappy.parquet",
    "zstd.parquet",
    "gzip.parquet",
    "brotli.parquet",
    "stream.arrow",
    "file.arrow",
    "lz4.arrow",
    "zstd.arrow",
    "dictionary.arrow",
];

/// All files, by a name or a pattern.
pub(crate) const FILES: [&str; 13] = [
    "snappy.parquet",
    "zstd.parquet",
    "gzip.parquet",
    "brotli.parquet",
    "stream.arrow",
    "file.arrow",
    "lz4.arrow",
    "zstd.arrow",
    "dictionary.arrow",
    "gnu.tar",
    "pax.tar",
    "mds/*.mds",
    "mds-zstd/*.mds.zstd",
];

pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats")
}

/// The source of one of the files, and the column with the text.
pub(crate) fn config(file: &str) -> SourceConfig {
    let (kind, field) = match file {
        file if file.ends_with(".parquet") => (SourceKind::Parquet, "text"),
        file if file.ends_with(".arrow") => (SourceKind::Arrow, "text"),
        file if file.ends_with(".tar") => (SourceKind::Tar, "txt"),
        _ => (SourceKind::Mds, "text"),
    };
    let paths = vec![directory().join(file).display().to_string()];
    SourceConfig { kind, field: Some(field.to_owned()), paths, ..SourceConfig::default() }
}

/// The rows that the script wrote.
pub(crate) fn written() -> Vec<Value> {
    let text = std::fs::read_to_string(directory().join("texts.json")).expect("the rows");
    serde_json::from_str(&text).expect("JSON")
}

/// The texts that a file has: those of the first rows of all.
pub(crate) fn wanted(file: &str) -> Vec<String> {
    let rows = match file {
        file if file.ends_with(".tar") => 12,
        file if file.starts_with("mds") => 30,
        _ => 60,
    };
    texts_of(&written()[..rows], "/text")
}

/// The texts at a place in rows: neither null nor empty.
pub(crate) fn texts_of<'a>(rows: impl IntoIterator<Item = &'a Value>, at: &str) -> Vec<String> {
    let texts = rows.into_iter().filter_map(|row| row.pointer(at)?.as_str());
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) position: Position,
    pub(crate) cursor: LaneCursor,
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// What a source delivers of one lane, and the error that ends it.
pub(crate) async fn drain(source: &Source, lane: Lane, start: &LaneCursor) -> (Vec<Seen>, Option<String>) {
    let mut documents = source.lane(lane, start);
    let mut seen = Vec::new();
    while let Some(document) = documents.next().await {
        match document {
            Ok(document) => seen.push(Seen {
                text: document.value.text().to_owned(),
                position: document.value.position(),
                cursor: document.cursor,
            }),
            Err(error) => {
                assert!(documents.next().await.is_none(), "nothing follows an error");
                return (seen, Some(error.to_string()));
            }
        }
    }
    (seen, None)
}

pub(crate) async fn open(config: &SourceConfig) -> Result<Source> {
    Source::open(std::slice::from_ref(config)).await
}

/// The texts that a source delivers, or why it does not.
pub(crate) fn texts(config: &SourceConfig) -> Result<Vec<String>, String> {
    run(async {
        let source = open(config).await.map_err(|error| error.to_string())?;
        let (seen, error) = drain(&source, Lane::default(), &LaneCursor::default()).await;
        match error {
            None => Ok(seen.into_iter().map(|seen| seen.text).collect()),
            Some(error) => Err(error),
        }
    })
}

/// All bad documents are skipped.
pub(crate) fn skipping(config: SourceConfig) -> SourceConfig {
    SourceConfig { on_error: OnError::Skip(u64::MAX), ..config }
}
