//! `[[source]]`: where documents come from.

use serde::{Deserialize, Serialize};

use super::{ByteCount, require};
use crate::error::{Error, Result};

/// Some files, and how documents lie in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceConfig {
    /// What weights, cursors and logs call it; its number, from 0, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its share of the rows, beside the other sources' weights: in tokens, where all rows are full. If no source
    /// has one, they are as their files' lengths are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// How many times it is read at most; `pipeline.epochs` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// The format of the files.
    pub kind: SourceKind,
    /// Globs; `~` and `${NAME:-default}` are expanded first. Files come in the byte order of their paths.
    pub paths: Vec<String>,
    /// What a document is, in files of kind `text`.
    pub document: DocumentKind,
    /// Where the text is in a line, in files of kind `jsonl`: a dotted path such as `doc.text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The bound on a document's length as it stands in the file.
    pub max_document_bytes: ByteCount,
    /// What happens to a document beyond that bound.
    pub oversize: Oversize,
    /// What happens to a document that cannot be read.
    pub on_error: OnError,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Plain UTF-8 text.
    #[default]
    Text,
    /// One JSON value a line.
    Jsonl,
}

/// What a document is in plain text. An empty one is no document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentKind {
    /// Each line, without its end.
    #[default]
    Line,
    /// Each whole file.
    File,
    /// Each run of lines between blank ones, without its last line's end.
    Paragraph,
}

/// What happens to a document longer than `max_document_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Oversize {
    /// It is bad input, and `on_error` decides.
    #[default]
    Error,
    /// It is skipped, logged and counted, however many there are.
    Skip,
    /// It ends at the last character within the bound. A JSON line cannot be cut, and is bad input.
    Truncate,
}

/// What happens to a document that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum OnError {
    /// The stream ends with an error that says where.
    #[default]
    Fail,
    /// It is skipped, logged and counted; more than so many in one epoch of a lane are an error.
    Skip(u64),
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            name: None,
            weight: None,
            epochs: None,
            kind: SourceKind::default(),
            paths: Vec::new(),
            document: DocumentKind::default(),
            field: None,
            max_document_bytes: ByteCount::mib(16),
            oversize: Oversize::default(),
            on_error: OnError::default(),
        }
    }
}

impl SourceConfig {
    pub(crate) fn validate(&self, key: &str) -> Result<()> {
        if self.paths.is_empty() {
            return Err(Error::config(
                format!("{key}.paths"),
                "no paths; name the corpus's files, such as \"corpus/**/*.txt\"",
            ));
        }
        if self.epochs == Some(0) {
            return Err(Error::config(
                format!("{key}.epochs"),
                "0 must be at least 1; leave it out for pipeline.epochs",
            ));
        }
        match (self.kind, &self.field) {
            (SourceKind::Jsonl, None) => {
                return Err(Error::config(
                    format!("{key}.field"),
                    "a jsonl source needs the field that holds the text, such as \"text\"",
                ));
            }
            (SourceKind::Text, Some(_)) => {
                return Err(Error::config(
                    format!("{key}.field"),
                    "a text source has no fields; remove it, or set kind = \"jsonl\"",
                ));
            }
            (SourceKind::Jsonl, Some(field)) if field.split('.').any(str::is_empty) => {
                return Err(Error::config(
                    format!("{key}.field"),
                    format!("{field:?} has an empty part; write it as \"doc.text\""),
                ));
            }
            _ => {}
        }
        if self.kind == SourceKind::Jsonl && self.document != DocumentKind::Line {
            return Err(Error::config(
                format!("{key}.document"),
                "each line of a jsonl source is a document; remove it, or set kind = \"text\"",
            ));
        }
        require(
            (1..=1 << 30).contains(&self.max_document_bytes.0),
            &format!("{key}.max_document_bytes"),
            self.max_document_bytes,
            "from 1 byte to 1GiB",
        )
    }
}
