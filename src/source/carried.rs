//! Values of a record that are read beside its text, and where they are looked for beside the record: in the file's path.
//! Some come along with its document; `where` looks at others.
//!
//! Hive and its successors write partitions there: in `lang=en/part-0.parquet`, every row has the column `lang`.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use percent_encoding::percent_decode_str;

use super::filter::{Filter, Kind, Scalar};
use super::problem::Problem;
use crate::config::{SourceConfig, SourceKind};
use crate::document::{CarriedColumns, ColumnValue, Columns};
use crate::error::{Error, Result};

/// What a record says beside its text.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// The share of epochs that include it.
    pub(crate) share: f64,
    /// The values of the [names](Carried::names); `None` where the record has no such column. Empty if it has none of them.
    pub(crate) values: Vec<Option<FieldValue>>,
}

impl Default for Metadata {
    fn default() -> Self {
        Self { share: 1.0, values: Vec::new() }
    }
}

/// A named value of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldValue {
    Value(ColumnValue),
    /// Text that has no type, as in CSV: `where` reads it as a number beside a number.
    Untyped(Box<str>),
    /// What has no type here, such as a list, by what it is: it comes along as null, and `where` can ask only whether it
    /// is null.
    Other(Cow<'static, str>),
}

impl FieldValue {
    pub(crate) const NULL: Self = Self::Value(ColumnValue::Null);
    pub(crate) const TOO_LONG: Self = Self::Other(Cow::Borrowed("text longer than max_document_bytes"));
    pub(crate) const NOT_UTF8: Self = Self::Other(Cow::Borrowed("bytes that are not UTF-8"));

    /// Text without a type. An empty one is null.
    pub(crate) fn untyped(text: &str) -> Self {
        if text.is_empty() { Self::NULL } else { Self::Untyped(text.into()) }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Value(ColumnValue::Null) => Kind::Null,
            Self::Value(ColumnValue::Bool(_)) => Kind::Truth,
            Self::Value(ColumnValue::Integer(_) | ColumnValue::Float(_)) => Kind::Number,
            Self::Value(ColumnValue::Text(_)) => Kind::Text,
            Self::Untyped(text) => Kind::Constant(text.to_string()),
            Self::Other(what) => Kind::Other(what.to_string()),
        }
    }

    fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Value(ColumnValue::Null) => Scalar::Null,
            Self::Value(ColumnValue::Bool(value)) => Scalar::Truth(*value),
            Self::Value(ColumnValue::Integer(value)) => Scalar::whole(*value),
            Self::Value(ColumnValue::Float(value)) => Scalar::Float(*value),
            Self::Value(ColumnValue::Text(text)) | Self::Untyped(text) => Scalar::Text(text),
            Self::Other(_) => Scalar::Other,
        }
    }
}

/// A column that none of so many records has is likely to be misspelt.
pub(crate) const FIRST_RECORDS: u64 = 100;

/// The values that are read beside the texts of a source.
#[derive(Debug)]
pub(crate) struct Carried {
    /// Their names: first the columns that come along, then what else the filter looks at.
    names: Arc<[String]>,
    columns: Arc<[String]>,
    /// Whether some record had each of them.
    seen: Box<[AtomicBool]>,
    /// How many of the first records were looked at.
    records: AtomicU64,
    /// How many values of each column came along as null for want of a type.
    nulls: Box<[AtomicU64]>,
    /// `where`, but that of a table: it filters its rows itself.
    filter: Option<Filter>,
}

impl Carried {
    /// Those that `source.<index>` of the config names.
    pub(crate) fn new(index: usize, config: &SourceConfig) -> Result<Self> {
        let is_table = matches!(config.kind, SourceKind::Parquet | SourceKind::Arrow);
        let filter = if is_table { None } else { parse_filter(&format!("source.{index}"), config)? };
        let used = filter.iter().flat_map(Filter::names).filter(|name| !config.columns.contains(name));
        let names: Arc<[String]> = config.columns.iter().chain(used).cloned().collect();
        let seen = names.iter().map(|_| AtomicBool::new(false)).collect();
        let nulls = config.columns.iter().map(|_| AtomicU64::new(0)).collect();
        let columns = config.columns.as_slice().into();
        // Of a table it is known from the beginning which columns it has.
        let records = AtomicU64::new(if is_table { FIRST_RECORDS } else { 0 });
        Ok(Self { names, columns, seen, records, nulls, filter })
    }

    pub(crate) fn names(&self) -> &Arc<[String]> {
        &self.names
    }

    /// The names of the columns that come along, if any do.
    pub(crate) fn come_along(&self) -> Option<&Arc<[String]>> {
        Some(&self.columns).filter(|columns| !columns.is_empty())
    }

    /// The names that the filter looks at and no record had so far.
    pub(crate) fn unseen(&self) -> Vec<&str> {
        let used: Vec<&String> = self.filter.iter().flat_map(Filter::names).collect();
        self.lacking(|name| used.contains(&name))
    }

    /// Counts a record. With the last of the first ones, returns the columns that come along and none of them had.
    pub(crate) fn missed(&self) -> Vec<&str> {
        let counts = self.records.load(Relaxed) < FIRST_RECORDS;
        match counts && self.records.fetch_add(1, Relaxed) + 1 == FIRST_RECORDS {
            true => self.lacking(|name| self.columns.contains(name)),
            false => Vec::new(),
        }
    }

    fn lacking(&self, is_wanted: impl Fn(&String) -> bool) -> Vec<&str> {
        let unseen = self.names.iter().zip(&self.seen).filter(|(_, seen)| !seen.load(Relaxed));
        unseen.map(|(name, _)| name).filter(|name| is_wanted(name)).map(String::as_str).collect()
    }

    /// The columns of a record of the file at `path`, or `None` if the filter leaves it out. A value that the record does
    /// not have is taken from the path, and is null without a partition there. One without a type comes along as null:
    /// `note` gets the number of its column, and what it is.
    pub(crate) fn columns(
        &self,
        values: Vec<Option<FieldValue>>,
        path: &Path,
        note: impl Fn(usize, &str),
    ) -> Result<Option<CarriedColumns>, Problem> {
        let in_path = |name: &String| {
            let value = partitions(path).find(|(other, _)| other == name).map(|(_, value)| value)?;
            Some(value.map_or(FieldValue::NULL, |value| FieldValue::Untyped(value.into_owned().into())))
        };
        let values = values.into_iter().chain(std::iter::repeat_with(|| None));
        let filled = self.names.iter().zip(values).zip(&self.seen).map(|((name, value), seen)| {
            let value = value.or_else(|| in_path(name));
            if value.is_some() && !seen.load(Relaxed) {
                seen.store(true, Relaxed);
            }
            value.unwrap_or(FieldValue::NULL)
        });
        let values: Vec<FieldValue> = filled.collect();
        if let Some(filter) = &self.filter {
            let named =
                |name: &str| self.names.iter().position(|other| other == name).map(|nth| &values[nth]);
            let kind = |name: &str| named(name).map_or(Kind::Null, FieldValue::kind);
            let value = |name: &str| named(name).map_or(Scalar::Null, FieldValue::scalar);
            let remedy = "mend the record, or compare it as what it is";
            let is_true = filter
                .is_true(kind, value)
                .map_err(|what| Problem::new(0, format!("where: {what}"), remedy))?;
            if !is_true {
                return Ok(None);
            }
        }
        let Some(names) = self.come_along() else { return Ok(Some(None)) };
        let column = |(nth, value)| match value {
            FieldValue::Value(value) => value,
            FieldValue::Untyped(text) => ColumnValue::Text(text),
            FieldValue::Other(what) => {
                note(nth, &what);
                ColumnValue::Null
            }
        };
        let columns = values.into_iter().take(names.len()).enumerate().map(column);
        Ok(Some(Some(Columns::new(names, columns.collect()))))
    }

    /// Counts a value of column `nth` that came along as null. Returns how many did so far.
    pub(crate) fn count_null(&self, nth: usize) -> u64 {
        self.nulls[nth].fetch_add(1, Relaxed) + 1
    }

    /// The names of the columns that are read from token shards, if any are.
    pub(crate) fn of_shards(&self) -> Option<&Arc<[String]>> {
        Some(&self.names).filter(|names| !names.is_empty())
    }

    /// Whether no columns come along, and nothing is filtered.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.filter.is_none()
    }

    /// Whether the filter may leave out documents whose tokens are stored.
    pub(crate) fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// The columns of a document of token shards that come along, of those that are read there; `None` if the
    /// filter leaves it out. Whether text had a type in its file is not known there.
    pub(crate) fn of_stored(&self, stored: CarriedColumns) -> Result<Option<CarriedColumns>, Problem> {
        let field = |(_, value): (&str, &ColumnValue)| match value {
            ColumnValue::Text(text) => Some(FieldValue::Untyped(text.clone())),
            other => Some(FieldValue::Value(other.clone())),
        };
        let values = stored.iter().flat_map(|columns| columns.iter()).map(field);
        // All that is stored has a type.
        self.columns(values.collect(), Path::new(""), |_, _| ())
    }

    /// Refuses a column of `source.<index>` that none of the paths has as a partition, for files without fields.
    pub(crate) fn check_partitions<'a>(
        &self,
        index: usize,
        kind: SourceKind,
        paths: impl Iterator<Item = &'a Path> + Clone,
    ) -> Result<()> {
        let is_there = |name: &&String| paths.clone().any(|path| is_partition(path, name));
        let Some(name) = self.names.iter().find(|name| !is_there(name)) else { return Ok(()) };
        let problem = format!(
            "no file has the column {name:?}: those of a {kind} source are in the names of its directories, such as \
             {name}=x; remove it, or write such directories"
        );
        let key = if self.columns.contains(name) { "columns" } else { "where" };
        Err(Error::config(format!("source.{index}.{key}"), problem))
    }
}

/// The `where` of a source, which has this key in the config.
pub(crate) fn parse_filter(key: &str, config: &SourceConfig) -> Result<Option<Filter>> {
    let filter = config.filter.as_deref().map(Filter::parse).transpose();
    filter.map_err(|problem| Error::config(format!("{key}.where"), problem))
}

/// The name of a partition directory for null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partitions in a file's path: their names and values, `None` for null. Signs that a directory's name cannot have are
/// written there as in URLs, such as `%2F`.
pub(crate) fn partitions(path: &Path) -> impl Iterator<Item = (Cow<'_, str>, Option<Cow<'_, str>>)> {
    let directories = path.parent().into_iter().flat_map(Path::components);
    directories.filter_map(|directory| {
        let (name, value) = directory.as_os_str().to_str()?.split_once('=')?;
        Some((decoded(name), Some(value).filter(|value| *value != NULL_PARTITION).map(decoded)))
    })
}

/// A name whose escapes, such as `%20`, are what they stand for. If they are not text, they stay.
fn decoded(name: &str) -> Cow<'_, str> {
    percent_decode_str(name).decode_utf8().unwrap_or(Cow::Borrowed(name))
}

/// Whether a partition of the path has this name.
pub(crate) fn is_partition(path: &Path, name: &str) -> bool {
    partitions(path).any(|(other, _)| other == name)
}
