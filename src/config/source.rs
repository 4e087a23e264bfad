//! `[[source]]`: where documents come from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ByteCount, require};
use crate::error::{Error, Result, Unit};

/// The path that stands for standard input.
pub(crate) const STDIN: &str = "-";

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
    /// Globs; `~` and `${NAME:-default}` are expanded first. Files come in the byte order of their paths. `"-"` alone
    /// is standard input: text or JSON lines that come once, in one lane. Resuming passes over what was read, so it is
    /// exact if the same text is given again from its start; nothing can check that it is the same.
    ///
    /// Text in any format may be compressed, with gzip, zstd, bzip2 or xz: a file's first bytes tell, whatever its
    /// name. Positions then are in the text that it unpacks to, and where it breaks off is told in the file's own
    /// bytes.
    pub paths: Vec<String>,
    /// Which subset of a directory of kind `huggingface`; its default, or its only one, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// Which of its splits, as those libraries call them; `train` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// What a document is, in files of kind `text`.
    pub document: DocumentKind,
    /// The length of the splits that a longer file is dealt in, cut between documents. It is part of the order. Left to
    /// the loader, as it is unless it is set, they are a thousandth of the source, at least 4 KiB and at most 256 KiB,
    /// or more where that made too many; a source of up to 16 MiB is cut so that each split has a document. Lanes then
    /// read many of them side by side.
    ///
    /// A compressed file is one split, unless it is zstd of many frames that can be found: by the seek table of the
    /// seekable format, or because each frame says how long its text is. Such a file is cut between frames, after so
    /// many bytes as they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<ByteCount>,
    /// Where the text is: a dotted path such as `doc.text` in files of kind `jsonl`, `parquet` and `arrow`, a column's
    /// name in those of kind `csv`, `tsv` and `mds`, and a member's extension in those of kind `tar`. Where a column of
    /// `mds` or a member of `tar` is JSON, the path goes on in it: `json.text` is the field `text` of the member
    /// `json`. Columns hold strings, or bytes that are UTF-8. A row whose text is null, and a sample without the
    /// member, is no document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Which rows are documents, in files of kind `parquet` and `arrow`: an SQL expression over their columns, such
    /// as `lang = 'en' and score > 3`. A row is one where it is true, and not where it is false or null. There are
    /// comparisons, `and`, `or`, `not`, `in`, `between`, `like`, `ilike`, `is null`, arithmetic, and names with dots
    /// for what lies within a column; names are written as they are in the file.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Which documents an epoch draws, in files that have fields; all if absent. Not those of kind `tar` and `mds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleConfig>,
    /// The bound on a document's length as it stands in the file.
    pub max_document_bytes: ByteCount,
    /// What happens to a document beyond that bound.
    pub oversize: Oversize,
    /// What happens to a document that cannot be read.
    pub on_error: OnError,
    /// Where tokens are kept for later epochs and runs; nowhere if absent. It never changes a byte of what is
    /// delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<TokenCacheConfig>,
}

/// A directory that keeps the tokens of the splits that a loader reads, so that later epochs, later runs and other
/// processes need not tokenize them again.
///
/// Corpora, tokenizers and hold-outs may share one directory. A local file that was changed is tokenized anew. Tokens
/// are written a split at a time, as documents come by, so a split is kept once it was read from its begin to its
/// end. A kill loses what was not written yet, and damaged tokens are noticed by their checksums; what is not kept is
/// read as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { path = \"tokens\", limit = \"50GiB\" }")]
pub struct TokenCacheConfig {
    /// The directory. It is made if it is not there.
    pub path: PathBuf,
    /// The bound on all that is kept there, in bytes. Tokens of other corpora, tokenizers and hold-outs go first that
    /// no process has open, beginning with those that were open the longest ago; then no more are kept. Each of
    /// several processes that write there may pass it by a 64th, or by 64 MiB if that is less.
    #[serde(default = "TokenCacheConfig::limit")]
    pub limit: ByteCount,
}

impl TokenCacheConfig {
    fn limit() -> ByteCount {
        ByteCount::mib(50 << 10)
    }
}

/// Weighted sampling: in each epoch a document is drawn with probability weight / `max`, at most 1, anew and for
/// itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleConfig {
    /// Where the weight is, named as the text's field is: a number, 0 or more.
    pub field: String,
    /// The weight from which on a document is in every epoch.
    pub max: f64,
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
    /// A table with a header line, its columns separated by commas (RFC 4180).
    Csv,
    /// The same with tabs.
    Tsv,
    /// A table in columns. Its row groups are its splits, or parts of them where they are few, and only the wanted
    /// columns are read.
    Parquet,
    /// A table in columns: the Arrow IPC stream or file format, as the Hugging Face libraries save it.
    Arrow,
    /// A tar archive whose members of one name, up to its first dot, are one sample, as WebDataset has it; compressed
    /// or not. One that ends without the mark of its end is bad input.
    Tar,
    /// Shards as MosaicML's Streaming writes them; paths may name the directory of their index.
    Mds,
    /// A directory of token shards, as `millstream prepare` leaves it.
    Shards,
    /// A directory as the Hugging Face libraries leave it: a snapshot of the hub, or what `save_to_disk` wrote.
    Huggingface,
}

impl SourceKind {
    /// What positions in such files are counted in.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Text
            | Self::Jsonl
            | Self::Csv
            | Self::Tsv
            | Self::Tar
            | Self::Huggingface
            | Self::Shards => Unit::Byte,
            Self::Parquet | Self::Arrow | Self::Mds => Unit::Row,
        }
    }

    /// What the config calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Tar => "tar",
            Self::Mds => "mds",
            Self::Huggingface => "huggingface",
            Self::Shards => "shards",
        }
    }
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
            subset: None,
            part: None,
            document: DocumentKind::default(),
            split: None,
            field: None,
            filter: None,
            sample: None,
            max_document_bytes: ByteCount::mib(16),
            oversize: Oversize::default(),
            on_error: OnError::default(),
            cache: None,
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
        self.validate_stdin(key)?;
        self.validate_dataset(key)?;
        self.validate_shards(key)?;
        self.validate_columns(key)?;
        self.validate_cache(&format!("{key}.cache"))?;
        if self.epochs == Some(0) {
            return Err(Error::config(
                format!("{key}.epochs"),
                "0 must be at least 1; leave it out for pipeline.epochs",
            ));
        }
        match (self.kind, &self.field) {
            (SourceKind::Text, None) | (SourceKind::Shards, _) => {}
            (SourceKind::Text, Some(_)) => {
                return Err(Error::config(
                    format!("{key}.field"),
                    "a text source has no fields; remove it, or set kind = \"jsonl\"",
                ));
            }
            (kind, None) => {
                return Err(Error::config(
                    format!("{key}.field"),
                    format!("a {} source needs the field that holds the text, such as \"text\"", kind.name()),
                ));
            }
            (SourceKind::Jsonl | SourceKind::Parquet | SourceKind::Arrow | SourceKind::Tar, Some(field)) => {
                require_path(field, &format!("{key}.field"))?;
            }
            (_, Some(_)) => {}
        }
        if let Some(sample) = &self.sample {
            self.validate_sample(sample, &format!("{key}.sample"))?;
        }
        if self.kind != SourceKind::Text && self.document != DocumentKind::Line {
            let what = if self.kind == SourceKind::Jsonl { "line" } else { "record" };
            let problem = format!(
                "each {what} of a {} source is a document; remove it, or set kind = \"text\"",
                self.kind.name()
            );
            return Err(Error::config(format!("{key}.document"), problem));
        }
        if let Some(split) = self.split {
            require(split.0 >= 1, &format!("{key}.split"), split, "at least 1 byte")?;
        }
        require(
            (1..=1 << 30).contains(&self.max_document_bytes.0),
            &format!("{key}.max_document_bytes"),
            self.max_document_bytes,
            "from 1 byte to 1GiB",
        )
    }

    /// Whether it is standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.paths == [STDIN]
    }

    /// Standard input comes once, and only its text says where documents are.
    fn validate_stdin(&self, key: &str) -> Result<()> {
        if !self.is_stdin() {
            return match self.paths.iter().any(|path| path == STDIN) {
                true => {
                    let problem =
                        "\"-\" is standard input and stands alone; give the files a [[source]] of their own";
                    Err(Error::config(format!("{key}.paths"), problem))
                }
                false => Ok(()),
            };
        }
        if !matches!(self.kind, SourceKind::Text | SourceKind::Jsonl) {
            let problem =
                format!("{} cannot be read from standard input; text and jsonl can", self.kind.name());
            return Err(Error::config(format!("{key}.kind"), problem));
        }
        if self.epochs.is_some_and(|epochs| epochs > 1) {
            let problem = "standard input comes only once; leave it out";
            return Err(Error::config(format!("{key}.epochs"), problem));
        }
        Ok(())
    }

    /// What only tables in columns have.
    fn validate_columns(&self, key: &str) -> Result<()> {
        let is_columnar = matches!(self.kind, SourceKind::Parquet | SourceKind::Arrow);
        if is_columnar && cfg!(not(feature = "columnar")) {
            let problem =
                format!("this build cannot read {}; build with the feature `columnar`", self.kind.name());
            return Err(Error::config(format!("{key}.kind"), problem));
        }
        if self.filter.is_some() && !is_columnar && self.kind != SourceKind::Huggingface {
            let problem = format!("a {} source has no columns to look at; remove it", self.kind.name());
            return Err(Error::config(format!("{key}.where"), problem));
        }
        Ok(())
    }

    fn validate_dataset(&self, key: &str) -> Result<()> {
        let is_dataset = self.kind == SourceKind::Huggingface;
        if is_dataset && self.paths.len() != 1 {
            let problem =
                format!("a source of kind huggingface is one directory, and here are {}", self.paths.len());
            return Err(Error::config(format!("{key}.paths"), problem));
        }
        for (setting, value) in [("subset", &self.subset), ("part", &self.part)] {
            if !is_dataset && value.is_some() {
                let problem = "only a directory of kind huggingface has them; remove it";
                return Err(Error::config(format!("{key}.{setting}"), problem));
            }
        }
        Ok(())
    }

    fn validate_cache(&self, key: &str) -> Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let problem = match self.kind {
            SourceKind::Shards => "token shards are tokens already; remove it",
            _ if self.is_stdin() => "standard input comes only once; remove it",
            _ if self.sample.is_some() => {
                "each epoch draws other documents, so that none sees whole splits; use `millstream prepare` instead"
            }
            _ => {
                let is_limit = cache.limit.0 >= 1 << 20;
                return require(is_limit, &format!("{key}.limit"), cache.limit, "at least 1MiB");
            }
        };
        Err(Error::config(key, problem))
    }

    /// What token shards were made with cannot be chosen anew.
    fn validate_shards(&self, key: &str) -> Result<()> {
        if self.kind != SourceKind::Shards {
            return Ok(());
        }
        if self.paths.len() != 1 {
            let problem = "a source of kind shards is one directory; give each a [[source]] of its own";
            return Err(Error::config(format!("{key}.paths"), problem));
        }
        let default = Self::default();
        let fixed = [
            ("split", self.split != default.split),
            ("field", self.field != default.field),
            ("max_document_bytes", self.max_document_bytes != default.max_document_bytes),
            ("oversize", self.oversize != default.oversize),
        ];
        match fixed.iter().find(|(_, is_chosen)| *is_chosen) {
            None => Ok(()),
            Some((setting, _)) => {
                let problem = "token shards know what they were made of; remove it";
                Err(Error::config(format!("{key}.{setting}"), problem))
            }
        }
    }

    fn validate_sample(&self, SampleConfig { field, max }: &SampleConfig, key: &str) -> Result<()> {
        if matches!(self.kind, SourceKind::Text | SourceKind::Tar | SourceKind::Mds | SourceKind::Shards) {
            let kind = self.kind.name();
            let problem = format!("a {kind} source has no weights; remove it, or set kind = \"jsonl\"");
            return Err(Error::config(key, problem));
        }
        if self.kind == SourceKind::Jsonl {
            require_path(field, &format!("{key}.field"))?;
        }
        if self.field.as_ref() == Some(field) {
            return Err(Error::config(
                format!("{key}.field"),
                format!("{field:?} is the text's field; name that of a number"),
            ));
        }
        require(max.is_finite() && *max > 0.0, &format!("{key}.max"), max, "a number above 0")
    }
}

fn require_path(path: &str, key: &str) -> Result<()> {
    if path.split('.').any(str::is_empty) {
        return Err(Error::config(key, format!("{path:?} has an empty part; write it as \"doc.text\"")));
    }
    Ok(())
}
