//! A part of the corpus that one pattern names, and what was found out about it.

use std::path::{Path, PathBuf};

use crate::config::{DocumentKind, SourceKind};

use super::field::{Fields, Lengths};

/// A part of the corpus that one pattern names.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// A path or a pattern, as configs have it.
    pub(super) pattern: String,
    /// The file or the directory that it was found in.
    pub(super) path: PathBuf,
    pub(super) kind: SourceKind,
    pub(super) field: Option<String>,
    /// Which subset of a Hugging Face directory, and which others there are.
    pub(super) subset: Option<(String, Vec<String>)>,
    /// Which of its splits, if it was asked for.
    pub(super) part: Option<String>,
    pub(super) document: DocumentKind,
    /// What was seen, for the reader of the config.
    pub(super) why: String,
    pub(super) files: usize,
    /// How much text it has, about, in bytes.
    pub(super) text: u64,
    /// How many documents it has, about.
    pub(super) documents: u64,
}

impl Part {
    /// What is found at `path`, of which nothing more is known yet.
    pub(super) fn new(pattern: String, path: &Path, kind: SourceKind) -> Self {
        Self {
            pattern,
            path: path.to_owned(),
            kind,
            field: None,
            subset: None,
            part: None,
            document: DocumentKind::Line,
            why: String::new(),
            files: 0,
            text: 0,
            documents: 0,
        }
    }

    /// Its text is `field` of the records of some files, of which `fields` are the first.
    pub(super) fn has(self, field: String, fields: &Fields, lengths: Lengths) -> Self {
        let documents = fields.count(lengths);
        let text = documents.saturating_mul(fields.mean(&field));
        Self { why: fields.beside(&field), field: Some(field), documents, text, ..self }
    }

    /// Whether both can be one source.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let alone = [SourceKind::Huggingface, SourceKind::Shards];
        (self.kind, &self.field, self.document) == (other.kind, &other.field, other.document)
            && !alone.contains(&self.kind)
    }
}

/// The pattern that only this path matches, as a config has it.
pub(super) fn exactly(path: &str) -> String {
    literal(&glob::Pattern::escape(path).replace('{', "[{]"))
}

/// A path that is not a pattern, as a config has it: without variables.
pub(super) fn literal(path: &str) -> String {
    let path = path.replace('$', "$$");
    if path.starts_with('~') { format!("./{path}") } else { path }
}
