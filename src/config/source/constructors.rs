//! Sources in code.

use super::{ChatConfig, SourceConfig, SourceKind, Task};
use crate::custom_format::CustomFormat;
use crate::location::STDIN;

/// Sources in code. [`with_path`](SourceConfig::with_path) adds further files. For all other settings, set
/// the fields.
impl SourceConfig {
    fn new(kind: SourceKind, path: impl Into<String>, field: Option<String>) -> Self {
        Self { kind, paths: vec![path.into()], field, ..Self::default() }
    }

    /// Reads text files, each line a document; `path` is a glob, such as `"src/**/*.rs"`.
    pub fn text(path: impl Into<String>) -> Self {
        Self::new(SourceKind::Text, path, None)
    }

    /// Reads files of one JSON value per line, with the text at `field`, such as `"doc.text"`.
    pub fn jsonl(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Jsonl, path, Some(field.into()))
    }

    /// Reads tables with columns separated by commas and the text in the column `field`.
    pub fn csv(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Csv, path, Some(field.into()))
    }

    /// Reads tables with columns separated by tabs and the text in the column `field`.
    pub fn tsv(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Tsv, path, Some(field.into()))
    }

    /// Reads Parquet files with the text in the column `field`.
    pub fn parquet(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Parquet, path, Some(field.into()))
    }

    /// Reads Arrow IPC files with the text in the column `field`.
    pub fn arrow(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Arrow, path, Some(field.into()))
    }

    /// Reads tar archives in WebDataset's layout, with the text in the members with the extension `field`.
    pub fn tar(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Tar, path, Some(field.into()))
    }

    /// Reads MosaicML Streaming shards, or the directory of their index, with the text in the column `field`.
    pub fn mds(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Mds, path, Some(field.into()))
    }

    /// Reads a directory that the Hugging Face libraries wrote, with the text in the column `field`.
    pub fn huggingface(path: impl Into<String>, field: impl Into<String>) -> Self {
        Self::new(SourceKind::Huggingface, path, Some(field.into()))
    }

    /// Reads a directory of token shards that `millstream prepare` wrote. Of one with those of several sources,
    /// it reads all.
    pub fn shards(directory: impl Into<String>) -> Self {
        Self::new(SourceKind::Shards, directory, None)
    }

    /// Reads files of a custom format.
    pub fn custom(path: impl Into<String>, format: CustomFormat) -> Self {
        Self { format: Some(format), ..Self::new(SourceKind::Custom, path, None) }
    }

    /// Reads text from standard input, each line a document.
    pub fn stdin() -> Self {
        Self::text(STDIN)
    }

    /// Adds another path.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Sets the source's name in weights, cursors and logs.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Sets the source's share of the rows, relative to the other sources' weights.
    #[must_use]
    pub fn with_weight(self, weight: f64) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// Sets what each record is. A completion is read from several fields, so it has no `field`.
    #[must_use]
    pub fn with_task(self, task: Task) -> Self {
        let field = self.field.filter(|_| task != Task::Completion);
        Self { task, field, ..self }
    }

    /// Sets how conversations and completions are rendered, and what is learned from.
    #[must_use]
    pub fn with_chat(self, chat: ChatConfig) -> Self {
        Self { chat, ..self }
    }

    /// Sets how many times the source is read at most.
    #[must_use]
    pub fn with_epochs(self, epochs: u64) -> Self {
        Self { epochs: Some(epochs), ..self }
    }
}
