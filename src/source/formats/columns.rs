//! Tables in columns (Parquet and Arrow IPC): batches of rows in, documents out.
//!
//! A place is the number of a row in its file, from 0.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, FieldRef, Fields, Schema};

use super::decode::share;
use super::wanted::{Object, TOO_LONG, Wanted, columns_of, no_column, outermost};
use crate::config::{SampleConfig, SourceConfig};
use crate::error::{Error, Result, panic_message};
use crate::excerpt::{excerpt, listed};
use crate::source::carried::{FieldValue, Metadata, parse_filter};
use crate::source::filter::Scalar;
use crate::source::problem::Problem;
use crate::source::window::Window;

mod absent;
mod arrow;
mod cell;
mod filter;
mod json;
mod messages;
mod page;
mod parquet;
mod parts;
mod value;

use absent::Absent;
pub(crate) use arrow::ArrowFormat;
use cell::cell;
use filter::RowFilter;
pub(crate) use parquet::ParquetFormat;

/// The most batches decoded for one slab: reading pauses there even where few rows are documents.
const MOST_BATCHES: usize = 4;

/// Which columns the documents of a table come from.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    wanted: Wanted,
    /// The longest document, in bytes.
    max: usize,
    sample: Option<SampleConfig>,
    filter: Option<RowFilter>,
    /// The columns that come along.
    carried: Arc<[String]>,
    absent: Arc<Absent>,
}

impl Columns {
    /// The columns that a source wants, `source.<index>` of the config.
    pub(crate) fn new(
        index: usize,
        config: &SourceConfig,
        wanted: Wanted,
        carried: Arc<[String]>,
    ) -> Result<Self> {
        Ok(Self {
            wanted,
            max: config.max_document_bytes.as_usize(),
            sample: config.sample.clone(),
            filter: parse_filter(&format!("source.{index}"), config)?.map(RowFilter::new),
            carried,
            absent: Arc::default(),
        })
    }

    /// The columns of a file, including those in its path: `lang` in `lang=en/1.parquet`.
    fn of_file(&self, path: &Path) -> Self {
        Self { filter: self.filter.clone().map(|filter| filter.of_file(path)), ..self.clone() }
    }

    /// The dotted names of all columns that are read.
    fn names(&self) -> Vec<&str> {
        let sample = self.sample.iter().map(|sample| sample.field.as_str());
        let documents: Vec<&str> = match &self.wanted {
            Wanted::Text(name) => vec![name],
            Wanted::Record(names) => names.iter().flat_map(|name| [name.as_str(), outermost(name)]).collect(),
        };
        documents.into_iter().chain(sample).chain(self.looked_for().map(String::as_str)).collect()
    }

    /// The names of the columns that a file may lack: those of `where` and those that come along.
    fn looked_for(&self) -> impl Iterator<Item = &String> {
        self.filter.iter().flat_map(RowFilter::names).chain(&*self.carried)
    }

    /// Refuses a table without the text or weights, without any column of a record, or with another type in them or in
    /// the columns of `where`.
    fn check(&self, path: &Path, schema: &Schema) -> Result<()> {
        let refuse = |problem: String| Error::Corpus { problem: format!("{}: {problem}", path.display()) };
        let find = |name: &str| data_type(schema, name).map(drop).map_err(&refuse);
        self.absent.note(path, self.looked_for(), find);
        match &self.wanted {
            Wanted::Text(name) => {
                let text = data_type(schema, name).map_err(&refuse)?;
                if !is_text(text) {
                    let of = excerpt(&text.to_string());
                    let problem = format!("column {name:?} is {of} and not text; name a column of strings");
                    return Err(refuse(problem));
                }
            }
            Wanted::Record(names) => check_record(names, schema).map_err(&refuse)?,
        }
        if let Some(SampleConfig { field, .. }) = &self.sample {
            let weight = data_type(schema, field).map_err(&refuse)?;
            if !weight.is_numeric() {
                let of = excerpt(&weight.to_string());
                return Err(refuse(format!("column {field:?} is {of} and not a number")));
            }
        }
        let empty = RecordBatch::new_empty(schema.clone().into());
        match self.of_file(path).filter.map(|filter| filter.rows(&empty)) {
            Some(Err(problem)) => Err(refuse(format!("where: {problem}"))),
            _ => Ok(()),
        }
    }

    fn rows(&self, batch: &RecordBatch) -> Result<Rows, String> {
        let cells = match &self.wanted {
            Wanted::Text(name) => Cells::Text(column(batch, name)?),
            Wanted::Record(names) => Cells::Record(of_record(names, batch.schema_ref(), batch.columns())),
        };
        let weights = match &self.sample {
            None => None,
            Some(sample) => Some((column(batch, &sample.field)?, sample.clone())),
        };
        let wanted = self.filter.as_ref().map(|filter| filter.rows(batch)).transpose();
        let wanted = wanted.map_err(|problem| format!("where: {problem}"))?;
        let carried = self.carried.iter().map(|name| column(batch, name).ok()).collect();
        Ok(Rows { cells, len: batch.num_rows(), max: self.max, weights, wanted, carried })
    }
}

/// The columns of one batch that its documents come from.
#[derive(Debug)]
struct Rows {
    cells: Cells,
    len: usize,
    max: usize,
    weights: Option<(ArrayRef, SampleConfig)>,
    /// For each row, whether it passes the filter.
    wanted: Option<Vec<bool>>,
    /// The columns that come along; `None` for one that the table lacks.
    carried: Vec<Option<ArrayRef>>,
}

/// The columns of one batch that its documents are in.
#[derive(Debug)]
enum Cells {
    Text(ArrayRef),
    Record(Vec<(FieldRef, ArrayRef)>),
}

impl Cells {
    /// Gives `note` the bytes of the document in a row and its whole length, if it has one: at most one byte more than
    /// `max` of them count.
    fn document(&self, index: usize, max: usize, note: impl FnOnce(&[u8], usize)) -> Result<(), String> {
        match self {
            // Columns of other types than text were refused when the file was opened.
            Self::Text(text) => {
                if let Some(bytes) = cell(text, index).bytes() {
                    note(&bytes[..bytes.len().min(max + 1)], bytes.len());
                }
            }
            Self::Record(columns) => {
                let is_null = |(_, values): &(FieldRef, ArrayRef)| cell(values, index) == Scalar::Null;
                if columns.iter().all(is_null) {
                    return Ok(());
                }
                let mut record = Object::default();
                for (field, values) in columns {
                    let (name, is_json) = (field.name(), json::is_json(field));
                    let out = record.field(name);
                    let wrong = |what: String| format!("column {name:?} holds {what}");
                    json::write(values, is_json, index, out, max).map_err(wrong)?;
                    if out.len() > max {
                        note(TOO_LONG, out.len());
                        return Ok(());
                    }
                }
                let record = record.finish();
                note(&record, record.len());
            }
        }
        Ok(())
    }
}

/// The problem of rows that cannot be decoded.
fn unreadable(what: &str) -> Problem {
    let said = what.to_lowercase();
    match said.contains("non utf-8") || said.contains("invalid utf") {
        true => Problem::new(
            0,
            what,
            "mend the values that are not UTF-8, or store the column as binary: then each of them is skipped alone",
        ),
        false => Problem::damage(what),
    }
}

/// Refuses rows, as far as the window has room: each counts as a document. Returns the first that is left.
fn refuse(rows: Range<u64>, problem: &Problem, window: &mut Window) -> u64 {
    for row in rows.clone() {
        if window.is_full() {
            return row;
        }
        window.refuse_record(row, row + 1, problem.clone());
    }
    rows.end
}

impl Rows {
    fn len(&self) -> usize {
        self.len
    }

    /// Appends the document of row `index` of the batch, which is row `row` of the file. A row without text has no
    /// document.
    fn append(&self, index: usize, row: u64, window: &mut Window) {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted[index]) {
            return;
        }
        let mut found = Ok(());
        let read = self.cells.document(index, self.max, |bytes, len| {
            found =
                self.metadata(index).map(|metadata| window.record(row, row + 1, bytes, len as u64, metadata));
        });
        if let Err(what) = read.and(found) {
            let problem = Problem::new(0, what, "mend the table, or name another column");
            window.refuse_record(row, row + 1, problem);
        }
    }

    /// What a row says beside its text, or the problem of that.
    fn metadata(&self, index: usize) -> Result<Metadata, String> {
        let value = |column: &ArrayRef| match value::value(column, index) {
            Ok(value) => FieldValue::Value(value),
            Err(what) => FieldValue::Other(what.into()),
        };
        let values = self.carried.iter().map(|column| column.as_ref().map(value)).collect();
        Ok(Metadata { share: self.share(index)?, values })
    }

    fn share(&self, index: usize) -> Result<f64, String> {
        let Some((weights, sample)) = &self.weights else { return Ok(1.0) };
        let named = |what: &str| format!("column {:?} is {what}", sample.field);
        let weight = cell(weights, index).float().ok_or_else(|| named("null and not a number"))?;
        share(weight, sample.max).map_err(|what| named(&what))
    }
}

/// Whether a column of this type can hold documents. A writer that saw only nulls may have chosen the type null.
fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => is_text(values),
        DataType::Null => true,
        _ => false,
    }
}

fn of_record<T: Clone>(names: &[String], schema: &Schema, columns: &[T]) -> Vec<(FieldRef, T)> {
    let found = columns_of(names, |name| schema.index_of(name).ok());
    found.into_iter().map(|column| (schema.fields()[column].clone(), columns[column].clone())).collect()
}

/// The problem of a table that has no column of a record, or one of a type that JSON does not have.
fn check_record(names: &[String], schema: &Schema) -> Result<(), String> {
    let columns = of_record(names, schema, &vec![(); schema.fields().len()]);
    if columns.is_empty() {
        let there: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(no_column(names, &listed(&there)));
    }
    let wrong = |(field, ()): &(FieldRef, ())| {
        let what = json::unwritable(field.data_type())?;
        Some(format!("column {:?} holds {what}; write the table without it", field.name()))
    };
    columns.iter().find_map(wrong).map_or(Ok(()), Err)
}

/// The dotted names of the columns that may hold documents, in structs too.
fn names_of_text(fields: &Fields, around: &str) -> Vec<String> {
    let names = fields.iter().flat_map(|field| {
        let name = format!("{around}{}", field.name());
        match field.data_type() {
            DataType::Struct(inner) => names_of_text(inner, &format!("{name}.")),
            of if is_text(of) => vec![name],
            _ => Vec::new(),
        }
    });
    names.collect()
}

/// The type of the column at a dotted name: of the column with that whole name or, without one, of the column that its
/// parts lead to.
fn data_type<'a>(schema: &'a Schema, name: &str) -> Result<&'a DataType, String> {
    let mut fields = schema.fields();
    if let Some((_, field)) = fields.find(name) {
        return Ok(field.data_type());
    }
    let mut parts = name.split('.').peekable();
    while let Some(part) = parts.next() {
        let Some((_, field)) = fields.find(part) else {
            let there: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            return Err(format!("there is no column {name:?}; it has {}; name one of them", listed(&there)));
        };
        match (field.data_type(), parts.peek()) {
            (found, None) => return Ok(found),
            (DataType::Struct(inner), Some(_)) => fields = inner,
            // A writer that saw only nulls did not know that there is a struct.
            (DataType::Null, Some(_)) => return Ok(&DataType::Null),
            (other, Some(_)) => {
                let other = excerpt(&other.to_string());
                return Err(format!(
                    "column {name:?} leads through {part:?}, which is {other} and has no columns; name a column of strings"
                ));
            }
        }
    }
    Err(format!("{name:?} names no column"))
}

/// The column at a dotted name, as [`data_type`] finds it. Where a struct around it is null, its values are null too.
fn column(batch: &RecordBatch, name: &str) -> Result<ArrayRef, String> {
    if let Some(column) = batch.column_by_name(name) {
        return Ok(column.clone());
    }
    let missing = || format!("there is no column {name:?}");
    let mut parts = name.split('.');
    let first = parts.next().and_then(|part| batch.column_by_name(part)).ok_or_else(missing)?;
    parts.try_fold(first.clone(), |outer, part| {
        if outer.data_type() == &DataType::Null {
            return Ok(outer);
        }
        let outer = outer.as_struct_opt().ok_or_else(missing)?;
        let inner = outer.column_by_name(part).ok_or_else(missing)?;
        match outer.nulls() {
            None => Ok(inner.clone()),
            Some(nulls) => {
                let is_null = BooleanArray::new(!nulls.inner(), None);
                arrow_select::nullif::nullif(inner, &is_null).map_err(|e| e.to_string())
            }
        }
    })
}

/// Runs code that reads untrusted bytes. A panic in it becomes an error.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|payload| Err(panic_message(&*payload)))
}
