//! `where`: which rows of a table are documents.
//!
//! The expression is SQL, as far as `grammar` reads it. `check` compares it with the types of the columns, and
//! `expression` finds its value in a row. Neither knows tables: `cell` gives them the values. The logic has SQL's three
//! values, so a row is a document only where the expression is true, not where it is false or null. A column that a
//! file lacks is taken from its path, where Hive and its successors write partitions, or is null.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{Array, RecordBatch};

use super::column;
use crate::error::{Error, Result};

mod cell;
mod check;
mod expression;
mod grammar;
mod scalar;
#[cfg(test)]
mod tests;
mod time;

pub(super) use cell::cell;
use cell::kind;
use check::Kind;
use expression::Expression;
pub(super) use scalar::Scalar;

/// An expression over the columns of a table.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    expression: Arc<Expression>,
    names: Arc<[String]>,
    /// The columns that are in a file's path, and their values.
    partitions: Arc<[(String, Option<String>)]>,
}

/// The name of a partition directory for null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

fn partitions(path: &Path) -> impl Iterator<Item = (String, Option<String>)> {
    let directories = path.parent().into_iter().flat_map(Path::components);
    directories.filter_map(|directory| {
        let (name, value) = directory.as_os_str().to_str()?.split_once('=')?;
        Some((name.to_owned(), Some(value.to_owned()).filter(|value| value != NULL_PARTITION)))
    })
}

impl Filter {
    /// Parses an expression.
    ///
    /// # Errors
    /// The problem of the expression, or the unsupported part of SQL.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let expression = grammar::parse(text)?;
        let mut names = BTreeSet::new();
        expression.names(&mut names);
        let names = names.into_iter().map(str::to_owned).collect();
        Ok(Self { expression: Arc::new(expression), names, partitions: Arc::default() })
    }

    pub(super) fn of_file(self, path: &Path) -> Self {
        Self { partitions: partitions(path).collect(), ..self }
    }

    /// The columns that neither a file nor its path has, each with its message from `find`.
    pub(super) fn absent(
        &self,
        path: &Path,
        find: impl Fn(&str) -> Result<(), Error>,
    ) -> BTreeMap<String, String> {
        let partitions: Vec<String> = partitions(path).map(|(name, _)| name).collect();
        let names = self.names.iter().filter(|name| !partitions.contains(name));
        names.filter_map(|name| Some((name.clone(), find(name).err()?.to_string()))).collect()
    }

    /// The dotted names of the columns that it uses.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// For each row, whether the expression is true. Columns of other types than it needs are a problem even without
    /// rows.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Vec<bool>, String> {
        let columns = self.names().filter_map(|name| Some((name, column(batch, name).ok()?)));
        // Unions and runs have no nulls of their own, only those of their values.
        let columns: Vec<_> = columns.map(|(name, column)| (name, column.logical_nulls(), column)).collect();
        let table = |name: &str| columns.iter().find(|(other, ..)| *other == name);
        let path = |name: &str| {
            let partition = self.partitions.iter().find(|(other, _)| other == name);
            partition.and_then(|(_, value)| value.as_deref())
        };
        let mut expression = Expression::clone(&self.expression);
        let of_column = |name: &str| match table(name) {
            Some((.., column)) => kind(column.data_type()),
            None => path(name).map_or(Kind::Null, |value| Kind::Constant(value.to_owned())),
        };
        expression.check(&of_column)?.truth()?;
        let is_true = |row: usize| {
            let value = expression.evaluate(&|name: &str| match table(name) {
                Some((_, Some(nulls), _)) if nulls.is_null(row) => Scalar::Null,
                Some((.., column)) => cell(column, row),
                None => path(name).map_or(Scalar::Null, Scalar::Text),
            });
            value == Scalar::Truth(true)
        };
        Ok((0..batch.num_rows()).map(is_true).collect())
    }
}

/// The columns of `where` that no file so far has, and the problem of the first file that lacks them.
#[derive(Debug, Default)]
pub(super) struct Absent(Mutex<Option<BTreeMap<String, String>>>);

impl Absent {
    /// Notes the columns that one file lacks.
    pub(super) fn note(&self, absent: BTreeMap<String, String>) {
        let mut all = self.lock();
        match &mut *all {
            None => *all = Some(absent),
            Some(all) => all.retain(|name, _| absent.contains_key(name)),
        }
    }

    /// Refuses a column that no file has.
    pub(super) fn check(&self) -> Result<()> {
        match self.lock().iter().flatten().next() {
            None => Ok(()),
            Some((_, problem)) => Err(Error::Corpus { problem: problem.clone() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<String, String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
