//! The first records of a file, whatever its format: which fields they have, and how long the text in them is.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::GenericStringType;
use arrow_cast::cast;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType};
use csv_core::{ReadRecordResult, ReaderBuilder};
use millstream::config::SourceKind;
use millstream::{Error, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use super::field::Fields;
use super::head::{self, Head};

/// How many records are looked at.
const RECORDS: usize = 64;

/// The fields of a file's first records.
pub(super) fn fields(path: &Path, kind: SourceKind, head: &Head) -> Result<Fields> {
    match kind {
        SourceKind::Jsonl => json_lines(path, head),
        SourceKind::Csv => Ok(table(head, b',')),
        SourceKind::Tsv => Ok(table(head, b'\t')),
        SourceKind::Parquet => parquet(path).map_err(|what| unread(path, "Parquet", &what)),
        SourceKind::Arrow => arrow(path).map_err(|what| unread(path, "Arrow", &what.to_string())),
        SourceKind::Tar => archive(path),
        _ => Ok(Fields::default()),
    }
}

fn unread(path: &Path, format: &str, what: &str) -> Error {
    let path = path.display();
    Error::Corpus {
        problem: format!("{path}: this {format} file cannot be read: {what}; get it again, or leave it out"),
    }
}

fn json_lines(path: &Path, head: &Head) -> Result<Fields> {
    let mut fields = Fields::default();
    let lines = head.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (number, line) in lines.take(RECORDS) {
        let record: Value = serde_json::from_str(line).map_err(|e| {
            let at = format!("{}:{}", path.display(), number + 1);
            let problem =
                format!("{at}: this line is not JSON: {e}; each line of a .jsonl file is one JSON value");
            Error::Corpus { problem }
        })?;
        fields.add_json("", &record);
        fields.records += 1;
    }
    Ok(fields)
}

/// A table of separated values: its first line names the columns.
fn table(head: &Head, delimiter: u8) -> Fields {
    let mut rows = rows(&head.bytes, delimiter, head.is_whole).into_iter();
    let names = rows.next().unwrap_or_default();
    let mut fields = Fields::default();
    for row in rows {
        fields.records += 1;
        for (name, value) in names.iter().zip(&row) {
            // Numbers are no text, however many digits they have.
            if value.parse::<f64>().is_err() {
                fields.add(name, value.len());
            }
        }
    }
    fields
}

/// The first records of separated values, the header among them.
fn rows(mut bytes: &[u8], delimiter: u8, is_whole: bool) -> Vec<Vec<String>> {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut text, mut ends) = (vec![0; bytes.len().max(64)], vec![0; 4096]);
    let (mut written, mut ended, mut rows) = (0, 0, Vec::new());
    while rows.len() <= RECORDS {
        let (result, read, wrote, fields) =
            reader.read_record(bytes, &mut text[written..], &mut ends[ended..]);
        (bytes, written, ended) = (&bytes[read..], written + wrote, ended + fields);
        match result {
            ReadRecordResult::Record => {
                let mut from = 0;
                let field = |&end: &usize| {
                    let field = String::from_utf8_lossy(&text[from..end]).into_owned();
                    from = end;
                    field
                };
                rows.push(ends[..ended].iter().map(field).collect());
                (written, ended) = (0, 0);
            }
            // Asked again, it takes this for the end. A record that the head cuts off is none.
            ReadRecordResult::InputEmpty if is_whole => {}
            _ => break,
        }
    }
    rows
}

fn parquet(path: &Path) -> std::result::Result<Fields, String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| e.to_string())?;
    let mut reader =
        reader.with_batch_size(RECORDS).with_limit(RECORDS).build().map_err(|e| e.to_string())?;
    reader.try_fold(Fields::default(), |fields, batch| {
        columns(fields, &batch.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
    })
}

fn arrow(path: &Path) -> std::result::Result<Fields, ArrowError> {
    let file = || File::open(path).map(BufReader::new).map_err(ArrowError::from);
    // A file has an index at its end, and a stream has none.
    match FileReader::try_new(file()?, None) {
        Ok(reader) => some(reader),
        Err(_) => some(StreamReader::try_new(file()?, None)?),
    }
}

fn some(
    batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
) -> std::result::Result<Fields, ArrowError> {
    let mut fields = Fields::default();
    for batch in batches {
        let batch = batch?;
        fields = columns(fields, &batch.slice(0, batch.num_rows().min(RECORDS)))?;
        if fields.records >= RECORDS as u64 {
            break;
        }
    }
    Ok(fields)
}

/// Adds the columns of some rows that can hold text; those within structs by their dotted names.
fn columns(mut fields: Fields, batch: &RecordBatch) -> std::result::Result<Fields, ArrowError> {
    fields.records += batch.num_rows() as u64;
    let schema = batch.schema();
    let named = schema.fields().iter().zip(batch.columns());
    let mut left: Vec<_> = named.map(|(field, column)| (field.name().clone(), column.clone())).collect();
    while let Some((name, column)) = left.pop() {
        match column.data_type() {
            DataType::Struct(inner) => {
                let columns = inner.iter().zip(column.as_struct().columns());
                left.extend(
                    columns.map(|(field, column)| (format!("{name}.{}", field.name()), column.clone())),
                );
            }
            of if holds_text(of) => {
                let text = cast(&column, &DataType::LargeUtf8)?;
                let text = text.as_bytes::<GenericStringType<i64>>();
                fields.add(&name, text.iter().flatten().map(str::len).sum());
            }
            _ => {}
        }
    }
    Ok(fields)
}

fn holds_text(of: &DataType) -> bool {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => holds_text(values),
        _ => false,
    }
}

/// The members of an archive's first samples: by their extensions, and the strings in those that are JSON.
fn archive(path: &Path) -> Result<Fields> {
    let failed = |e| Error::io(path, "read the archive", e);
    let (text, _) = head::open(path)?;
    let mut archive = tar::Archive::new(text);
    let (mut fields, mut last) = (Fields::default(), String::new());
    for entry in archive.entries().map_err(failed)?.take(4 * RECORDS) {
        let entry = entry.map_err(failed)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let at = name.rfind('/').map_or(0, |slash| slash + 1);
        let (Some(dot), true) = (name[at..].find('.'), entry.header().entry_type().is_file()) else {
            continue;
        };
        let (sample, extension) = (name[..at + dot].to_owned(), name[at + dot + 1..].to_owned());
        if sample != last {
            last = sample;
            fields.records += 1;
        }
        let mut bytes = Vec::new();
        entry.take(1 << 20).read_to_end(&mut bytes).map_err(failed)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) if extension.rsplit('.').next() == Some("json") => {
                fields.add_json(&extension, &serde_json::from_str(text).unwrap_or_default());
            }
            Ok(text) => fields.add(&extension, text.len()),
            Err(_) => {}
        }
    }
    Ok(fields)
}
