//! `[[source]]`: where documents come from.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::ByteCount;
use super::bounds::{Bound, Bounded, COUNT, Limit, Number, POSITIVE, WEIGHT};
use crate::custom_format::CustomFormat;
use crate::files::ZSTD_WINDOW;
use crate::location::STDIN;

mod check;
mod constructors;
mod kinds;
mod task;
mod texts;

pub(crate) use kinds::Contents;
pub use kinds::SourceKind;
pub use task::{Border, ChatConfig, FimConfig, Learn, Samples, Task, TurnConfig};
pub(crate) use task::{ROLES, day};
pub use texts::Texts;

/// Some files, and how documents are stored in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = kinds::describe, transform = super::bounds::describe::<SourceConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct SourceConfig {
    /// The name in weights, cursors and logs; the source's number, from 0, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The source's share of the rows, relative to the other sources' weights; that is its share of the
    /// tokens where all rows are full. If no source has a weight, shares follow the lengths of the sources'
    /// files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// How many times the source is read at most; `pipeline.epochs` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// The format of the files. A config file may leave it out only where no path ends as files of another format do.
    pub kind: SourceKind,
    /// The name of the custom format. The program that opens the source brings the code that reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub format: Option<CustomFormat>,
    /// Globs, or one alone; `~` and `${NAME:-default}` are expanded first. Files come in the byte order of their paths.
    /// URLs name files in stores, and `hf://datasets/OWNER/NAME@REVISION/PATH` names those on the Hugging Face Hub.
    /// `"-"` alone is standard input: text or JSON lines that come once, in one lane. Resuming skips what was
    /// read, so it is exact if the same text is given again from its start; nothing can check that it is the
    /// same.
    ///
    /// Text in any format may be compressed with gzip, zstd, bzip2 or xz. A file's first bytes decide,
    /// whatever its name. Positions are then in the unpacked text, except where the file breaks off: that
    /// position is in the file's own bytes.
    #[serde(deserialize_with = "read_paths")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema_of_paths"))]
    pub paths: Vec<String>,
    /// Texts in memory instead of files: documents for kind `text`, records for kind `jsonl`. Configs are written without
    /// them.
    #[serde(skip)]
    pub texts: Option<Texts>,
    /// How many documents are made in an epoch; 10,000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<usize>,
    /// The mean length of synthetic documents; 2 KiB if absent. Each is about a quarter of it to seven
    /// quarters long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_bytes: Option<ByteCount>,
    /// The seed of synthetic documents, and of the holes of `task = "fim"`; the config's seed if absent. Two synthetic
    /// sources with the same seed and the same `document_bytes` make the same documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The name of a dataset on the Hugging Face Hub, such as `OWNER/NAME`, instead of `paths`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The branch, tag or commit of that dataset; `main` if absent. A run stays at the commit that it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Which subset of the dataset to read; its default, or its only one, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// Which part of that subset to read (a split, as the Hugging Face libraries call it); `train` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// What a document is in plain text.
    pub document: DocumentKind,
    /// The length of the splits that a longer file is divided into, cut between documents. It is part of the
    /// order. If absent, the loader chooses: a thousandth of the source, from 4 KiB to 256 KiB, or more where
    /// that makes too many splits. A source of up to 16 MiB is cut so that each split has a document. Lanes
    /// then read many splits side by side.
    ///
    /// A compressed file is one split, unless it is zstd with many frames that can be found: by the seek
    /// table of the seekable format, or because each frame says how long its text is. Such a file is cut
    /// between frames, and `split` then counts its compressed bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<ByteCount>,
    /// Where the text is: a dotted path such as `doc.text` for the kinds `jsonl`, `parquet` and `arrow`, a
    /// column's name for `csv`, `tsv` and `mds`, and a member's extension for `tar`. If a column of `mds` or
    /// a member of `tar` is JSON, the path continues in it: `json.text` is the field `text` of the member
    /// `json`. A column or key with exactly this name comes before what its dots lead to. Columns hold
    /// strings, or bytes that are UTF-8. A record whose text is empty or null, and a sample without the
    /// member, give no document.
    ///
    /// With `task = "chat"` it is where the messages are: `messages` if absent. Such a record is read as a whole: in a
    /// `tar`, all JSON members of a sample are one record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What each record is: plain `text`, a `chat`, a prompt with its `completion`, or text for `fim`.
    #[serde(skip_serializing_if = "Task::is_text")]
    pub task: Task,
    /// How conversations and completions are rendered, and what is learned from.
    #[serde(skip_serializing_if = "ChatConfig::is_default")]
    pub chat: ChatConfig,
    /// How text with a hole is made.
    #[serde(skip_serializing_if = "FimConfig::is_default")]
    pub fim: FimConfig,
    /// Which records are documents: an SQL expression over their columns or fields, such as `lang = 'en' and score > 3`. A
    /// record is a document if the expression is true, and not if it is false or null. You can use comparisons, `and`,
    /// `or`, `not`, `in`, `between`, `like`, `ilike`, `is null`, arithmetic, and names with dots for fields within a column.
    /// Write names as they are in the file.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Which values of a record come along with its document to the batches, by the names of their columns or fields: such
    /// as `["lang", "meta.url"]`. They are strings, integers, floats, booleans or null. A column that a file lacks is taken
    /// from its path, if a directory there is named like `lang=en`. They change nothing about the order and the ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// How tables of text are written.
    #[serde(skip_serializing_if = "CsvConfig::is_default")]
    pub csv: CsvConfig,
    /// Which documents an epoch draws; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleConfig>,
    /// The bound on a document's length in the file, in bytes.
    pub max_document_bytes: ByteCount,
    /// What happens to a document longer than that bound.
    pub oversize: Oversize,
    /// What happens to a document that cannot be read.
    pub on_error: OnError,
    /// The largest window of a zstd file, which is held in memory while the file is open; 128 MiB if absent. It is
    /// rounded up to a power of two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zstd_window: Option<ByteCount>,
    /// Where tokens are cached for later epochs and runs; nowhere if absent. It never changes a byte of what
    /// is delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<TokenCacheConfig>,
}

const EPOCHS: Bound = Bound::Noted(&COUNT, " (leave it out for pipeline.epochs)");

impl Bounded for SourceConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("weight", WEIGHT, |source| source.weight.number()),
        ("epochs", EPOCHS, |source| source.epochs.number()),
        ("documents", Bound::Within(1.0, 1e12), |source| source.documents.number()),
        ("document_bytes", Bound::Bytes(16, 1 << 20), |source| source.document_bytes.number()),
        ("split", Bound::Bytes(1, u64::MAX), |source| source.split.number()),
        ("max_document_bytes", Bound::Bytes(1, 1 << 30), |source| source.max_document_bytes.number()),
        ("zstd_window", Bound::Bytes(1 << 10, 1 << 31), |source| source.zstd_window.number()),
    ];
}

/// A directory that caches the tokens of the splits that a loader reads, so that later epochs, later runs and
/// other processes need not tokenize them again.
///
/// Corpora, tokenizers and hold-outs may share one directory. A local file that changed is tokenized again.
/// Tokens are written a split at a time as documents are read, so a split is cached once it was read from
/// start to end. A kill loses what was not written yet, and checksums detect damaged tokens. What is not
/// cached is read as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = super::bounds::describe::<TokenCacheConfig>))]
#[serde(deny_unknown_fields, expecting = "a table such as { path = \"tokens\", limit = \"50GiB\" }")]
pub struct TokenCacheConfig {
    /// The directory. It is created if it does not exist.
    pub path: PathBuf,
    /// The bound on everything cached there, in bytes. To make room, tokens of other corpora, tokenizers and
    /// hold-outs are removed unless a process has them open, those least recently open first. If that is not
    /// enough, no more tokens are cached. If several processes write there, each may exceed the bound by a
    /// 64th of it, or by 64 MiB if that is less.
    #[serde(default = "TokenCacheConfig::limit")]
    pub limit: ByteCount,
}

impl Bounded for TokenCacheConfig {
    const BOUNDS: &'static [Limit<Self>] =
        &[("limit", Bound::Bytes(1 << 20, u64::MAX), |cache| cache.limit.number())];
}

impl TokenCacheConfig {
    fn limit() -> ByteCount {
        ByteCount::mib(50 << 10)
    }
}

/// How a table of text is written. Each setting is one ASCII character.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CsvConfig {
    /// What stands between fields: a comma for `csv` and a tab for `tsv` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// What encloses fields that have delimiters or line ends. Within them, two of it stand for one. If empty, no field
    /// is enclosed, and quotes are text.
    pub quote: String,
    /// What makes the next character within quotes text, such as `\\`. Two quotes still stand for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escape: Option<String>,
}

impl Default for CsvConfig {
    fn default() -> Self {
        Self { delimiter: None, quote: "\"".to_owned(), escape: None }
    }
}

impl CsvConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Weighted sampling: each epoch draws each document independently, with probability weight / `max`, at most
/// 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = super::bounds::describe::<SampleConfig>))]
#[serde(deny_unknown_fields)]
pub struct SampleConfig {
    /// The field of the weight, named as the text's field is: a number, 0 or more.
    pub field: String,
    /// The weight from which a document is in every epoch.
    pub max: f64,
}

impl Bounded for SampleConfig {
    const BOUNDS: &'static [Limit<Self>] = &[("max", POSITIVE, |sample| sample.max.number())];
}

/// What a document is in plain text. Empty ones are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Oversize {
    /// It is bad input, and `on_error` decides.
    #[default]
    Error,
    /// It is skipped, logged and counted, however many there are.
    Skip,
    /// It ends at the last character within the bound. A JSON line cannot be cut and is bad input.
    Truncate,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            name: None,
            weight: None,
            epochs: None,
            kind: SourceKind::default(),
            format: None,
            paths: Vec::new(),
            texts: None,
            documents: None,
            document_bytes: None,
            seed: None,
            repo: None,
            revision: None,
            subset: None,
            part: None,
            document: DocumentKind::default(),
            split: None,
            field: None,
            task: Task::default(),
            chat: ChatConfig::default(),
            fim: FimConfig::default(),
            filter: None,
            columns: Vec::new(),
            csv: CsvConfig::default(),
            sample: None,
            max_document_bytes: ByteCount::mib(16),
            oversize: Oversize::default(),
            on_error: OnError::default(),
            zstd_window: None,
            cache: None,
        }
    }
}

impl SourceConfig {
    /// The largest window of a zstd file that is read, in bytes.
    pub(crate) fn zstd_window(&self) -> u64 {
        self.zstd_window.map_or(ZSTD_WINDOW, |window| window.0)
    }

    /// Whether the source is standard input.
    pub fn is_stdin(&self) -> bool {
        self.paths == [STDIN]
    }
}

/// What happens to a document that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum OnError {
    /// The stream ends with an error that says where.
    #[default]
    Fail,
    /// It is skipped, logged and counted; more than this many in one epoch of a lane are an error.
    Skip(u64),
}

impl OnError {
    /// How many documents may be skipped.
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Fail => 0,
            Self::Skip(most) => most,
        }
    }

    /// The problem of a document that may not be skipped, and what to do.
    pub(crate) fn refusal(self, problem: &str, remedy: &str) -> (String, String) {
        match self {
            Self::Fail => (
                problem.to_owned(),
                format!("{remedy}, or let some be skipped with on_error = {{ skip = 100 }}"),
            ),
            Self::Skip(most) => (
                format!("{problem}, and the {most} documents that on_error lets this epoch skip are used up"),
                format!("{remedy}, or raise on_error"),
            ),
        }
    }
}

/// Written by hand for its message: a derived one would name variants.
impl<'de> Deserialize<'de> for OnError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            rename_all = "lowercase",
            deny_unknown_fields,
            expecting = "must be \"fail\", or how many to skip, such as { skip = 100 }"
        )]
        enum Written {
            Fail,
            #[serde(untagged)]
            Skip {
                skip: u64,
            },
            #[serde(untagged)]
            Negative {
                skip: i64,
            },
        }

        match Written::deserialize(deserializer)? {
            Written::Fail => Ok(Self::Fail),
            Written::Skip { skip } => Ok(Self::Skip(skip)),
            Written::Negative { skip } => {
                Err(D::Error::custom(format!("cannot skip {skip} documents; write 0 or more")))
            }
        }
    }
}

/// Reads a list of paths; a path alone is a list of one.
fn read_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "must be a path in quotes, such as \"corpus/*.txt\", or a list of paths")]
    enum Paths {
        One(String),
        Many(Vec<String>),
    }

    Ok(match Paths::deserialize(deserializer)? {
        Paths::One(path) => vec![path],
        Paths::Many(paths) => paths,
    })
}

/// The schema of one path or a list.
#[cfg(feature = "schema")]
fn schema_of_paths(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" } },
        ],
    })
}
