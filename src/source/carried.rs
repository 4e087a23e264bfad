//! What of a record comes along with its text, and where it is looked for beside the record: in the file's path.
//!
//! Hive and its successors write partitions there: in `lang=en/part-0.parquet`, every row has the column `lang`.

use std::path::Path;
use std::sync::Arc;

use crate::document::{ColumnValue, Columns};

/// What a record says beside its text.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// The share of epochs that include it.
    pub(crate) share: f64,
    /// The values of the columns that come along; `None` where the record has no such column. Empty if none come along.
    pub(crate) values: Vec<Option<ColumnValue>>,
}

impl Default for Metadata {
    fn default() -> Self {
        Self { share: 1.0, values: Vec::new() }
    }
}

/// The columns that come along with the documents of a source.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) names: Arc<[String]>,
}

impl Carried {
    /// Those that the config of a source names; `None` if there are none.
    pub(crate) fn new(names: &[String]) -> Option<Self> {
        (!names.is_empty()).then(|| Self { names: names.into() })
    }

    /// The columns of a record of the file at `path`. One that the record does not have is taken from the path, and is
    /// null without a partition there.
    pub(crate) fn columns(&self, values: Vec<Option<ColumnValue>>, path: &Path) -> Arc<Columns> {
        let in_path = |name: &String| {
            let value = partitions(path).find(|(other, _)| other == name).and_then(|(_, value)| value);
            value.map_or(ColumnValue::Null, |value| ColumnValue::Text(value.into()))
        };
        let values = values.into_iter().chain(std::iter::repeat_with(|| None));
        let filled =
            self.names.iter().zip(values).map(|(name, value)| value.unwrap_or_else(|| in_path(name)));
        Columns::new(&self.names, filled.collect())
    }
}

/// The name of a partition directory for null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partitions in a file's path: their names and values, `None` for null.
pub(crate) fn partitions(path: &Path) -> impl Iterator<Item = (&str, Option<&str>)> {
    let directories = path.parent().into_iter().flat_map(Path::components);
    directories.filter_map(|directory| {
        let (name, value) = directory.as_os_str().to_str()?.split_once('=')?;
        Some((name, Some(value).filter(|value| *value != NULL_PARTITION)))
    })
}
