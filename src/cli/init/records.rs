//! The first records of a file, whatever its format: which fields they have, and how long the text in them is.

use std::io::{BufReader, Read};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::GenericStringType;
use arrow_cast::cast;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType};
use csv_core::{ReadRecordResult, ReaderBuilder};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use super::field::Fields;
use super::head::{self, Head};
use crate::config::SourceKind;
use crate::{Error, Result, bounded};

/// How many records are looked at.
const RECORDS: usize = 64;

impl Fields {
    /// Counts a record that takes so many bytes of the file's text.
    fn count_one(&mut self, bytes: u64) {
        self.counted += 1;
        self.bytes += bytes;
    }

    /// All records of the head of a file were counted; `is_whole` if it is the whole file.
    fn end(&mut self, is_whole: bool) {
        self.in_file = is_whole.then_some(self.counted);
    }
}

/// The fields of a file's first records.
pub(super) fn fields(path: &Path, kind: SourceKind, head: &Head) -> Result<Fields> {
    match kind {
        SourceKind::Jsonl => json_lines(path, head),
        SourceKind::Csv => table(path, head, b','),
        SourceKind::Tsv => table(path, head, b'\t'),
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
    for (number, line) in lines {
        fields.count_one(line.len() as u64 + 1);
        if fields.records == RECORDS as u64 {
            continue;
        }
        let record: Value = serde_json::from_str(line).map_err(|e| {
            let at = format!("{}:{}", path.display(), number + 1);
            let problem =
                format!("{at}: this line is not JSON: {e}; each line of a .jsonl file is one JSON value");
            Error::Corpus { problem }
        })?;
        fields.add_json("", &record);
        fields.records += 1;
    }
    fields.end(head.is_whole);
    Ok(fields)
}

/// A table of separated values: its first line names the columns.
fn table(path: &Path, head: &Head, delimiter: u8) -> Result<Fields> {
    let mut rows = rows(&head.bytes, delimiter, head.is_whole).into_iter();
    let names = rows.next().unwrap_or_default();
    if let [name] = &names[..]
        && let Some(other) = name.chars().find(|c| [',', ';', '\t', '|'].contains(c))
    {
        let problem = format!(
            "{}: its columns are separated by {other:?}; write a .csv file with commas, or a .tsv file with tabs",
            path.display()
        );
        return Err(Error::Corpus { problem });
    }
    let mut fields = Fields::default();
    for row in rows {
        fields.records += 1;
        fields.count_one(row.iter().map(|value| value.len() as u64 + 1).sum());
        for (name, value) in names.iter().zip(&row) {
            // Numbers are no text, however many digits they have.
            if value.parse::<f64>().is_err() {
                fields.add(name, value.len());
            }
        }
    }
    fields.end(head.is_whole);
    Ok(fields)
}

/// The records of separated values, the header among them.
fn rows(mut bytes: &[u8], delimiter: u8, is_whole: bool) -> Vec<Vec<String>> {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut text, mut ends) = (vec![0; bytes.len().max(64)], vec![0; 4096]);
    let (mut written, mut ended, mut rows) = (0, 0, Vec::new());
    loop {
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
    let file = bounded::open(path).map_err(|e| e.to_string())?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| e.to_string())?;
    let in_file = u64::try_from(reader.metadata().file_metadata().num_rows()).ok();
    let mut reader =
        reader.with_batch_size(RECORDS).with_limit(RECORDS).build().map_err(|e| e.to_string())?;
    let mut fields = Fields::default();
    fields.in_file = in_file;
    reader.try_fold(fields, |fields, batch| {
        columns(fields, &batch.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
    })
}

fn arrow(path: &Path) -> std::result::Result<Fields, ArrowError> {
    let file = || bounded::open(path).map(BufReader::new).map_err(ArrowError::from);
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
    fields.counted += batch.num_rows() as u64;
    fields.bytes += 8 * batch.num_rows() as u64;
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
                let bytes = text.iter().flatten().map(str::len).sum();
                fields.add(&name, bytes);
                fields.bytes += bytes as u64;
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
            fields.counted += 1;
        }
        // A header, and a member that ends at the end of a block.
        fields.bytes += 512 + entry.size().next_multiple_of(512);
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
