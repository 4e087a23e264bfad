//! `where` over the rows of a table. A column that a file lacks is taken from its path, or is null.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};

use super::cell::{cell, kind};
use super::column;
use crate::source::carried::partitions;
use crate::source::filter::{Filter, Kind, Scalar};

/// An expression over the columns of the files of a source, or of one of them.
#[derive(Clone, Debug)]
pub(super) struct RowFilter {
    filter: Filter,
    /// The columns that are in the file's path, and their values.
    partitions: Arc<[(String, Option<String>)]>,
}

impl RowFilter {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, partitions: Arc::default() }
    }

    pub(super) fn of_file(self, path: &Path) -> Self {
        let partitions =
            partitions(path).map(|(name, value)| (name.into_owned(), value.map(Cow::into_owned))).collect();
        Self { partitions, ..self }
    }

    /// The dotted names of the columns that it uses.
    pub(super) fn names(&self) -> &[String] {
        self.filter.names()
    }

    /// For each row, whether the expression is true. Columns of other types than it needs are a problem even without
    /// rows.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Vec<bool>, String> {
        let columns = self.names().iter().filter_map(|name| Some((name, column(batch, name).ok()?)));
        // Unions and runs have no nulls of their own, only those of their values.
        let columns: Vec<_> = columns.map(|(name, column)| (name, column.logical_nulls(), column)).collect();
        let table = |name: &str| columns.iter().find(|(other, ..)| *other == name);
        let path = |name: &str| {
            let partition = self.partitions.iter().find(|(other, _)| other == name);
            partition.and_then(|(_, value)| value.as_deref())
        };
        let checked = self.filter.check(|name: &str| match table(name) {
            Some((.., column)) => kind(column.data_type()),
            None => path(name).map_or(Kind::Null, |value| Kind::Constant(value.to_owned())),
        })?;
        let is_true = |row: usize| {
            checked.is_true(&|name: &str| match table(name) {
                Some((_, Some(nulls), _)) if nulls.is_null(row) => Scalar::Null,
                Some((.., column)) => cell(column, row),
                None => path(name).map_or(Scalar::Null, Scalar::Text),
            })
        };
        Ok((0..batch.num_rows()).map(is_true).collect())
    }
}
