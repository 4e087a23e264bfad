//! The kinds of sources. [`SourceKind::facts`] is the one table of what is known about them: what configs take, errors
//! and the schema name, and files are recognized by follows from it. The code that reads a kind is registered in
//! `source::formats`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Unit};
use crate::files::Codec;

/// The format of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SourceKind {
    /// Plain UTF-8 text.
    #[default]
    Text,
    /// One JSON value per line; a `.json` file may be one array instead.
    Jsonl,
    /// A table with a header line and columns separated by commas (RFC 4180).
    Csv,
    /// A table with a header line and columns separated by tabs.
    Tsv,
    /// A table in columns. Its splits are its row groups, or parts of them if they are few. Only the needed
    /// columns are read.
    Parquet,
    /// A table in columns: the Arrow IPC stream or file format, as the Hugging Face libraries save it.
    Arrow,
    /// A tar archive, compressed or not. Members whose names agree up to the first dot are one sample, as in
    /// WebDataset. An archive without its end mark is bad input.
    Tar,
    /// Shards as MosaicML's Streaming writes them; paths may name the directory of their index.
    Mds,
    /// Directories of token shards that `millstream prepare` wrote; paths may name the one around those of
    /// several sources.
    Shards,
    /// A directory that the Hugging Face libraries wrote: a snapshot of the hub, or the result of
    /// `save_to_disk`.
    Huggingface,
    /// No files: as many documents of made-up words as you like, made from a seed. For tests, measurements
    /// and trying things out.
    Synthetic,
    /// Records in a format of the program's own, which `format` names.
    Custom,
}

/// What is known about a kind of source.
#[derive(Clone, Copy, Debug)]
struct Facts {
    name: &'static str,
    /// What the names of its files end in, the usual ending first; none if that does not tell the kind.
    extensions: &'static [&'static str],
    /// Bytes at an offset in its files that tell the kind, whatever the name.
    signatures: &'static [(usize, &'static [u8])],
    contents: Contents,
    unit: Unit,
    /// The keys that it takes, beside those that every kind takes.
    keys: &'static [&'static [&'static str]],
    /// The feature that reads it, and whether this build has it; `None` if every build can.
    feature: Option<(&'static str, bool)>,
    more_splits: &'static str,
}

/// What the files of a kind hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Text that is framed by its bytes alone. It may come from standard input.
    FramedText,
    /// Records of text, which may have line ends within them.
    TextRecords,
    /// Any bytes.
    Bytes,
}

/// The keys of every kind whose documents are text.
const DOCUMENTS: &[&str] = &["split", "max_document_bytes", "oversize", "cache"];

/// The keys of records that may be rendered, and of plain text, which has no conversations.
const TASKS: &[&str] = &["task", "chat", "fim", "seed"];
const FIM: &[&str] = &["task", "fim", "seed"];

/// The keys of records that have fields.
const FIELDS: &[&str] = &["field", "where", "columns"];

/// The keys of files that are read as they are, and of those that may be compressed as a whole.
const FILES: &[&str] = &["paths"];
const PACKED: &[&str] = &["paths", "zstd_window"];

/// The remedies for a source that comes in too few splits.
const MORE_FILES: &str = "make more files of it";
const MORE_GROUPS: &str =
    "make more files of it, or more row groups or record batches; if it has few documents, add some";
const UNPACKED: &str = "make more files of it, or leave it uncompressed; if it has few documents, add some";

impl Facts {
    /// The facts about files of any bytes, in which positions are bytes.
    const fn new(name: &'static str, keys: &'static [&'static [&'static str]]) -> Self {
        Self {
            name,
            extensions: &[],
            signatures: &[],
            contents: Contents::Bytes,
            unit: Unit::Byte,
            keys,
            feature: None,
            more_splits: UNPACKED,
        }
    }

    /// The facts about a table in columns.
    const fn columnar(name: &'static str) -> Self {
        Self {
            unit: Unit::Row,
            feature: Some(("columnar", cfg!(feature = "columnar"))),
            more_splits: MORE_GROUPS,
            ..Self::new(name, &[DOCUMENTS, FILES, TASKS, FIELDS, &["sample"]])
        }
    }

    /// The facts about a table of text.
    const fn table(name: &'static str) -> Self {
        Self {
            contents: Contents::TextRecords,
            more_splits: MORE_FILES,
            ..Self::new(name, &[DOCUMENTS, PACKED, TASKS, FIELDS, &["sample", "csv"]])
        }
    }
}

impl SourceKind {
    /// All kinds.
    pub const ALL: &'static [Self] = &[
        Self::Text,
        Self::Jsonl,
        Self::Csv,
        Self::Tsv,
        Self::Parquet,
        Self::Arrow,
        Self::Tar,
        Self::Mds,
        Self::Shards,
        Self::Huggingface,
        Self::Synthetic,
        Self::Custom,
    ];

    const fn facts(self) -> Facts {
        match self {
            Self::Text => Facts {
                extensions: &["txt"],
                contents: Contents::FramedText,
                ..Facts::new("text", &[DOCUMENTS, PACKED, FIM, &["document", "columns"]])
            },
            Self::Jsonl => Facts {
                extensions: &["jsonl", "ndjson", "json"],
                contents: Contents::FramedText,
                ..Facts::new("jsonl", &[DOCUMENTS, PACKED, TASKS, FIELDS, &["sample"]])
            },
            Self::Csv => Facts { extensions: &["csv"], ..Facts::table("csv") },
            Self::Tsv => Facts { extensions: &["tsv"], ..Facts::table("tsv") },
            Self::Parquet => Facts {
                extensions: &["parquet", "geoparquet", "gpq"],
                signatures: &[(0, b"PAR1")],
                ..Facts::columnar("parquet")
            },
            Self::Arrow => Facts {
                extensions: &["arrow"],
                // The second is the first bytes of a stream's messages.
                signatures: &[(0, b"ARROW1"), (0, b"\xff\xff\xff\xff")],
                ..Facts::columnar("arrow")
            },
            Self::Tar => Facts {
                extensions: &["tar", "tgz"],
                signatures: &[(257, b"ustar")],
                more_splits: MORE_FILES,
                ..Facts::new("tar", &[DOCUMENTS, PACKED, TASKS, FIELDS])
            },
            Self::Mds => Facts {
                extensions: &["mds"],
                unit: Unit::Row,
                ..Facts::new("mds", &[DOCUMENTS, PACKED, TASKS, FIELDS])
            },
            Self::Shards => Facts::new("shards", &[FILES, &["columns", "where"]]),
            Self::Huggingface => Facts::new(
                "huggingface",
                &[DOCUMENTS, PACKED, TASKS, FIELDS, &["sample", "csv", "repo", "revision", "subset", "part"]],
            ),
            Self::Synthetic => Facts {
                unit: Unit::Row,
                more_splits: "raise its documents",
                ..Facts::new("synthetic", &[DOCUMENTS, &["documents", "document_bytes", "seed"]])
            },
            Self::Custom => Facts {
                more_splits: MORE_FILES,
                ..Facts::new("custom", &[DOCUMENTS, PACKED, TASKS, &["format", "columns"]])
            },
        }
    }

    /// The kind's name in a config.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// What the names of its files end in, the usual ending first; none if that does not tell the kind.
    pub fn extensions(self) -> &'static [&'static str] {
        self.facts().extensions
    }

    /// The usual ending of each kind that has one, as messages list them: `.txt, .jsonl`.
    #[doc(hidden)]
    pub fn endings() -> String {
        let usual = Self::ALL.iter().filter_map(|kind| kind.extensions().first());
        usual.map(|extension| format!(".{extension}")).collect::<Vec<_>>().join(", ")
    }

    /// The kind that the ending of a name stands for.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.extensions().contains(&extension))
    }

    /// The kind that the name of a file or a glob ends in, before the ending of a compressed file.
    pub(in crate::config) fn of_name(name: &str) -> Option<Self> {
        let (_, endings) = name.rsplit('/').next()?.split_once('.')?;
        let mut endings = endings.rsplit(['.', '{', ',', '}']).filter(|ending| !ending.is_empty());
        Self::of_extension(endings.find(|ending| Codec::of_extension(ending).is_none())?)
    }

    /// The kind of a file that begins with `head`, if that alone tells.
    pub(crate) fn of_signature(head: &[u8]) -> Option<Self> {
        let is_there =
            |(at, bytes): &(usize, &[u8])| head.get(*at..).is_some_and(|rest| rest.starts_with(bytes));
        Self::ALL.iter().copied().find(|kind| kind.facts().signatures.iter().any(is_there))
    }

    pub(crate) fn contents(self) -> Contents {
        self.facts().contents
    }

    pub(crate) fn unit(self) -> Unit {
        self.facts().unit
    }

    /// Whether it takes a key that not every kind takes.
    pub(crate) fn takes(self, key: &str) -> bool {
        self.keys().any(|taken| taken == key)
    }

    /// The keys that it takes, beside those that every kind takes.
    pub(super) fn keys(self) -> impl Iterator<Item = &'static str> {
        self.facts().keys.iter().copied().flatten().copied()
    }

    pub(crate) fn more_splits(self) -> &'static str {
        self.facts().more_splits
    }

    /// Whether this build can read it.
    pub(crate) fn is_built(self) -> bool {
        self.facts().feature.is_none_or(|(_, is_built)| is_built)
    }

    /// The error of a source, with the table `key`, whose files have no format.
    pub(crate) fn unread(self, key: &str) -> Error {
        let problem = match self.facts().feature {
            Some((feature, _)) => {
                format!("this build cannot read {self}; build with the feature `{feature}`")
            }
            None => {
                format!("a source of kind {self} has no files of a format of its own; name those within it")
            }
        };
        Error::config(format!("{key}.kind"), problem)
    }
}

impl fmt::Display for SourceKind {
    /// Writes the name that configs use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Says in the schema of a source which kinds take a key, if not all do.
#[cfg(feature = "schema")]
pub(super) fn describe(schema: &mut schemars::Schema) {
    let Some(keys) = schema.ensure_object()["properties"].as_object_mut() else { return };
    for (key, property) in keys {
        let (with, without): (Vec<SourceKind>, Vec<SourceKind>) =
            SourceKind::ALL.iter().copied().partition(|kind| kind.takes(key));
        let (said, kinds) =
            if with.len() <= without.len() { ("Only for", with) } else { ("Not for", without) };
        // No kind is listed with a key that all take.
        if !kinds.is_empty() {
            let names: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
            let described = property["description"].as_str().unwrap_or_default();
            let described = format!("{described}\n\n{said} sources of kind {}.", names.join(", "));
            property["description"] = described.trim_start().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_kinds_are_listed_under_the_names_that_configs_use() {
        let names: Vec<String> = SourceKind::ALL.iter().map(|kind| format!("`{kind}`")).collect();
        let refused = serde_json::from_str::<SourceKind>("\"?\"").expect_err("no such kind").to_string();
        assert!(refused.contains(&format!("expected one of {} at", names.join(", "))), "{refused}");
    }

    #[test]
    fn a_glob_ends_in_the_kind_of_its_files() {
        let names = [
            ("x.jsonl", Some(SourceKind::Jsonl)),
            ("data/**/*.csv.gz", Some(SourceKind::Csv)),
            ("s3://bucket/v1.0/*.parquet", Some(SourceKind::Parquet)),
            ("*.{json,jsonl}.zst", Some(SourceKind::Jsonl)),
            ("*.jsonl{,.gz}", Some(SourceKind::Jsonl)),
            ("notes.json.txt", Some(SourceKind::Text)),
            ("notes.json.md", None),
            ("jsonl", None),
            ("x.jsonl/part-*", None),
        ];
        for (name, kind) in names {
            assert_eq!(SourceKind::of_name(name), kind, "{name}");
        }
    }

    #[test]
    fn an_ending_or_a_signature_stands_for_one_kind() {
        let mut seen = BTreeSet::new();
        for kind in SourceKind::ALL {
            for extension in kind.extensions() {
                assert!(seen.insert(extension.as_bytes()), "{extension}");
                assert_eq!(SourceKind::of_extension(extension), Some(*kind));
            }
            for (at, bytes) in kind.facts().signatures {
                let head = [vec![b' '; *at], bytes.to_vec()].concat();
                assert_eq!(SourceKind::of_signature(&head), Some(*kind));
                assert_eq!(SourceKind::of_signature(&head[..head.len() - 1]), None);
            }
        }
    }
}
