//! The files that `tests/data/make_formats.py` made with other programs, and what their own readers find in them.

use std::path::{Path, PathBuf};

use millstream::config::{SourceConfig, SourceKind};
use serde::Deserialize;

/// The files with the same texts, by their names, and those texts.
#[derive(Deserialize)]
pub(crate) struct Group {
    pub(crate) files: Vec<String>,
    pub(crate) texts: Vec<String>,
}

/// A row of the tables.
#[derive(Clone, Deserialize)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) lang: String,
    pub(crate) score: Option<f64>,
    pub(crate) text: Option<String>,
    pub(crate) doc: Option<Doc>,
    pub(crate) quality: i64,
    pub(crate) hash: u64,
    pub(crate) day: String,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Doc {
    pub(crate) body: Body,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Body {
    pub(crate) text: String,
}

impl Row {
    /// Its text, if that is a document.
    pub(crate) fn document(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !text.is_empty())
    }
}

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(name)
}

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).expect("a file")
}

pub(crate) fn groups() -> Vec<Group> {
    serde_json::from_slice(&bytes("documents.json")).expect("JSON")
}

pub(crate) fn rows() -> Vec<Row> {
    serde_json::from_slice(&bytes("rows.json")).expect("JSON")
}

/// What a file of this name is, and where its text is.
pub(crate) fn kind(name: &str) -> (SourceKind, &'static str) {
    match name {
        _ if name.ends_with(".parquet") => (SourceKind::Parquet, "text"),
        _ if name.ends_with(".arrow") => (SourceKind::Arrow, "text"),
        _ if name.contains(".tar") => (SourceKind::Tar, "txt"),
        _ => (SourceKind::Mds, "text"),
    }
}

/// The file of this name, as a source.
pub(crate) fn config(name: &str) -> SourceConfig {
    let (kind, field) = kind(name);
    let paths = vec![path(name).display().to_string()];
    SourceConfig { kind, field: Some(field.to_owned()), paths, ..SourceConfig::default() }
}

/// The text in another place.
pub(crate) fn at(field: &str, config: SourceConfig) -> SourceConfig {
    SourceConfig { field: Some(field.to_owned()), ..config }
}
