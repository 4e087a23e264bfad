//! Tables of text, as in RFC 4180 unless the config says otherwise: a header line, then one document for each record.
//!
//! A place is the offset of a record in the file's text, in bytes. A record may hold line ends within quotes, so only
//! reading from the start tells where one begins: a file is one split, unless the source is small. Held in memory: the
//! wanted fields of one record, up to the bound on a document.

use std::sync::Arc;

use csv_core::{ReadFieldResult, Reader, ReaderBuilder};

use super::chunks::Chunks;
use super::decode::{share, utf8};
use super::format::{Format, Opened, Unopened};
use super::records::{Records, Stop, small_layout, take_each};
use super::wanted::{Object, TOO_LONG, Wanted, columns_of, no_column, write_text};
use crate::config::{CsvConfig, SampleConfig, SourceConfig};
use crate::error::{Error, Result};
use crate::excerpt::{excerpt, listed};
use crate::source::carried::{FieldValue, Metadata, is_partition};
use crate::source::content::{Content, packed};
use crate::source::framing::bom_len;
use crate::source::layout::{Laid, Layout};
use crate::source::problem::{Problem, Unread};
use crate::source::split_size::SplitSize;
use crate::source::window::Window;
use crate::store::Stored;

/// How much of a field is unquoted at a time, in bytes.
const SCRATCH_BYTES: usize = 16 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Csv {
    delimiter: u8,
    /// None if no field is enclosed in quotes.
    quote: Option<u8>,
    escape: Option<u8>,
    wanted: Wanted,
    sample: Option<SampleConfig>,
    /// The columns that are read beside a document.
    values: Arc<[String]>,
    /// The longest document, in bytes.
    max: usize,
    zstd_window: u64,
}

impl Csv {
    /// `delimiter` is for tables whose config names none.
    pub(crate) fn new(delimiter: u8, config: &SourceConfig, wanted: Wanted, values: Arc<[String]>) -> Self {
        let CsvConfig { delimiter: other, quote, escape } = &config.csv;
        let first = |text: &String| text.bytes().next();
        Self {
            delimiter: other.as_ref().and_then(first).unwrap_or(delimiter),
            quote: first(quote),
            escape: escape.as_ref().and_then(first),
            wanted,
            sample: config.sample.clone(),
            values,
            max: config.max_document_bytes.as_usize(),
            zstd_window: config.zstd_window(),
        }
    }
}

impl Format for Csv {
    fn layout(&self, file: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let stored = file.stored()?;
        let (held, len) = (packed(&*stored)?, stored.len());
        // The header must have the columns.
        let records = Opened::found(self.records(stored))?;
        match (held, records) {
            (None, Opened::Records(records)) => small_layout(records, len, split_size),
            (held, _) => Ok(Laid { layout: Layout::Whole, held: held.unwrap_or(0) }),
        }
    }

    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        Opened::found(self.records(file.stored()?))
    }

    fn fields(&self, file: Unopened<'_>) -> Result<Vec<String>, Unread> {
        self.table(file.stored()?).map(|(_, names)| names)
    }
}

impl Csv {
    /// A table of which only the header was read, and the names there.
    fn table(&self, stored: Arc<dyn Stored>) -> Result<(CsvTable, Vec<String>), Unread> {
        let mut table = CsvTable {
            reader: ReaderBuilder::new()
                .delimiter(self.delimiter)
                .quoting(self.quote.is_some())
                .quote(self.quote.unwrap_or(b'"'))
                .escape(self.escape)
                .build(),
            csv: self.clone(),
            chunks: Chunks::new(Content::open_text(stored, self.zstd_window)?),
            scratch: vec![0; SCRATCH_BYTES],
            columns: 0,
            record: 0,
            held: Vec::new(),
            document: 0,
            weight: None,
            values: Vec::new(),
            first: 0,
        };
        let bom = bom_len(table.chunks.from(0)?);
        let names = table.header(bom as u64)?;
        Ok((table, names))
    }

    /// The records of a table whose header has the columns.
    fn records(&self, stored: Arc<dyn Stored>) -> Result<CsvTable, Unread> {
        let path = stored.path().to_owned();
        let (mut table, names) = self.table(stored)?;
        let of = |name: &str| names.iter().position(|column| column == name);
        let column = |name: &String| {
            of(name).ok_or_else(|| {
                let else_split = if names.len() == 1 { ", or set csv.delimiter" } else { "" };
                let problem = format!(
                    "{}: there is no column {name:?}; the header has {}; name one of them{else_split}",
                    path.display(),
                    listed(&names)
                );
                Error::Corpus { problem }
            })
        };
        let columns = match &self.wanted {
            Wanted::Text(name) => vec![column(name)?],
            Wanted::Record(wanted) => columns_of(wanted, of),
        };
        if let (Wanted::Record(wanted), []) = (&self.wanted, &columns[..]) {
            let problem = format!("{}: {}", path.display(), no_column(wanted, &listed(&names)));
            return Err(Error::Corpus { problem }.into());
        }
        let weight = self.sample.as_ref().map(|sample| column(&sample.field)).transpose()?;
        let value =
            |name: &String| if is_partition(&path, name) { Ok(of(name)) } else { column(name).map(Some) };
        let values = self.values.iter().map(value).collect::<Result<Vec<_>>>()?;
        let mut held = |nth: usize| {
            let known = table.held.iter().position(|field: &NamedField| field.column == nth);
            known.unwrap_or_else(|| {
                table.held.push(NamedField {
                    column: nth,
                    name: names[nth].clone(),
                    field: Field::default(),
                });
                table.held.len() - 1
            })
        };
        let document = columns.len();
        for column in columns {
            held(column);
        }
        let weight = weight.map(&mut held);
        let values = values.into_iter().map(|nth| nth.map(&mut held)).collect();
        (table.document, table.weight, table.values, table.columns) = (document, weight, values, names.len());
        Ok(table)
    }
}

#[derive(Debug)]
struct CsvTable {
    csv: Csv,
    reader: Reader,
    chunks: Chunks,
    scratch: Vec<u8>,
    columns: usize,
    /// The place of the current record.
    record: u64,
    /// The columns that are read, those of the document first, and their fields in the current record.
    held: Vec<NamedField>,
    /// How many of them are the document's.
    document: usize,
    /// The numbers among them of the column of weights, and of the values beside the document: none for one that only the
    /// file's path has.
    weight: Option<usize>,
    values: Vec<Option<usize>>,
    /// Where the first record after the header begins.
    first: u64,
}

/// A column, and its field in the current record.
#[derive(Debug)]
struct NamedField {
    column: usize,
    name: String,
    field: Field,
}

/// One field, unquoted: the part that is held, and the length of all of it.
#[derive(Debug, Default)]
struct Field {
    bytes: Vec<u8>,
    len: u64,
}

impl Field {
    fn clear(&mut self) {
        self.bytes.clear();
        self.len = 0;
    }

    /// Appends a part of the field, and holds at most one byte more than `max`.
    fn push(&mut self, part: &[u8], max: usize) {
        let room = (max + 1).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&part[..part.len().min(room)]);
        self.len += part.len() as u64;
    }
}

/// The thing at a place.
enum Next {
    /// A record: the number of its fields, and the place where the next one begins.
    Record(usize, u64),
    End,
    /// The record cannot be read.
    Broken(Problem),
}

impl CsvTable {
    /// Reads the header that begins at `from`, and returns its names.
    fn header(&mut self, from: u64) -> Result<Vec<String>, Unread> {
        let mut names: Vec<Field> = Vec::new();
        let found = self.walk(from, |column, part, max| {
            if names.len() <= column {
                names.push(Field::default());
            }
            names[column].push(part, max);
        })?;
        match found {
            Next::Record(_, next) => {
                self.first = next;
                let name = |field: &Field| String::from_utf8_lossy(&field.bytes).into_owned();
                Ok(names.iter().map(name).collect())
            }
            Next::End => {
                let path = self.chunks.content.path().display();
                let problem = format!("{path}: the table has no header line; give it one");
                Err(Error::Corpus { problem }.into())
            }
            Next::Broken(problem) => {
                Err(Problem { offset: problem.offset + self.record as usize, ..problem }.into())
            }
        }
    }

    /// Reads the wanted fields of the record at `from`.
    fn next(&mut self, from: u64) -> Result<Next> {
        let mut held = std::mem::take(&mut self.held);
        held.iter_mut().for_each(|named| named.field.clear());
        let found = self.walk(from, |column, part, max| {
            if let Some(named) = held.iter_mut().find(|named| named.column == column) {
                named.field.push(part, max);
            }
        });
        self.held = held;
        found
    }

    /// Reads the record at `from`, or the one after the blank lines there. Gives each part of a field to `see`, with the
    /// number of its column and the bound on what may be held.
    fn walk(&mut self, from: u64, mut see: impl FnMut(usize, &[u8], usize)) -> Result<Next> {
        self.reader.reset();
        let begin = self.after_line_ends(from)?;
        self.record = begin;
        let (mut at, mut column, mut field) = (begin, 0, begin);
        loop {
            let input = self.chunks.from(at)?;
            // Given three bytes at once, the parser would drop a byte order mark, which is part of the record here.
            let input = if at == begin { &input[..input.len().min(1)] } else { input };
            if input.is_empty() {
                if let Some(broken) = self.chunks.broken() {
                    return Ok(Next::Broken(broken));
                }
                if at == begin {
                    return Ok(Next::End);
                }
                // A delimiter tells what ends here: within quotes it does not end the field. (A copy of the parser
                // cannot be asked: csv-core 0.1 copies only half of it.)
                return Ok(match self.reader.read_field(&[self.csv.delimiter], &mut self.scratch).0 {
                    ReadFieldResult::InputEmpty => {
                        Next::Broken(unclosed((field - begin) as usize, at - field))
                    }
                    _ => Next::Record(column + 1, at),
                });
            }
            let (found, read, written) = self.reader.read_field(input, &mut self.scratch);
            at += read as u64;
            see(column, &self.scratch[..written], self.csv.max);
            match found {
                ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
                ReadFieldResult::Field { record_end: false } => (column, field) = (column + 1, at),
                ReadFieldResult::Field { record_end: true } => {
                    return Ok(Next::Record(column + 1, self.after_line_ends(at)?));
                }
                ReadFieldResult::End => return Ok(Next::End),
            }
        }
    }

    /// The end of the line ends from `from` on: the rest of one, and blank lines.
    fn after_line_ends(&mut self, mut from: u64) -> Result<u64> {
        while let Some(b'\n' | b'\r') = self.chunks.from(from)?.first() {
            from += 1;
        }
        Ok(from)
    }

    /// Appends the record that was read, which has `fields` fields. The next one begins at `next`.
    fn append(&self, fields: usize, next: u64, window: &mut Window) {
        let from = self.record;
        if fields != self.columns {
            let s = if fields == 1 { "" } else { "s" };
            let what = format!("the record has {fields} field{s}, and the header {}", self.columns);
            let remedy = "mend the record, or say how the table is written, such as csv = { escape = \"\\\\\" } if \\\" is a \
                          quote within a field";
            return window.refuse_record(from, next, Problem::new(0, what, remedy));
        }
        match self.share() {
            Ok(share) => match (&self.csv.wanted, &self.held[..self.document]) {
                (Wanted::Text(_), [NamedField { field: Field { bytes, len }, .. }]) => {
                    window.record(from, next, bytes, *len, self.metadata(share));
                }
                _ => match self.object() {
                    Ok((bytes, len)) => window.record(from, next, &bytes, len, self.metadata(share)),
                    Err(problem) => window.refuse_record(from, next, problem),
                },
            },
            Err(what) => {
                let problem = Problem::new(0, what, "mend the record, or name another column");
                window.refuse_record(from, next, problem);
            }
        }
    }

    /// The record as an object of JSON, and its length; nothing if all of its fields are empty.
    fn object(&self) -> Result<(Vec<u8>, u64), Problem> {
        let document = &self.held[..self.document];
        let len = document.iter().map(|named| named.field.len).sum();
        if len > self.csv.max as u64 {
            return Ok((TOO_LONG.to_vec(), len));
        }
        let mut object = Object::default();
        for NamedField { name, field, .. } in document.iter().filter(|_| len > 0) {
            // A place within the field is not a place in the file.
            let text = utf8(&field.bytes).map_err(|problem| Problem { offset: 0, ..problem })?;
            write_text(text, object.field(name));
        }
        let bytes = object.finish();
        let len = bytes.len() as u64;
        Ok((bytes, len))
    }

    /// What the record says beside its text.
    fn metadata(&self, share: f64) -> Metadata {
        let values = self.values.iter().map(|nth| nth.map(|nth| self.value(&self.held[nth].field)));
        Metadata { share, values: values.collect() }
    }

    fn value(&self, field: &Field) -> FieldValue {
        match str::from_utf8(&field.bytes) {
            _ if field.len > self.csv.max as u64 => FieldValue::TOO_LONG,
            Ok(text) => FieldValue::untyped(text),
            Err(_) => FieldValue::NOT_UTF8,
        }
    }

    /// The share of epochs that include the record's document, or the problem of its weight.
    fn share(&self) -> Result<f64, String> {
        let (Some(nth), Some(sample)) = (self.weight, &self.csv.sample) else { return Ok(1.0) };
        let text = String::from_utf8_lossy(&self.held[nth].field.bytes);
        let weight = text.trim().parse::<f64>().map_err(|_| format!("{:?} and not a number", excerpt(&text)));
        weight
            .and_then(|weight| share(weight, sample.max))
            .map_err(|what| format!("column {:?} is {what}", sample.field))
    }
}

/// The problem of a record whose quote, `offset` bytes after its start, is not closed before the text ends, `len` bytes
/// later.
fn unclosed(offset: usize, len: u64) -> Problem {
    let what = format!(
        "the quote that opens here is never closed, so the rest of the file, {len} bytes, cannot be told into records"
    );
    Problem::new(
        offset,
        what,
        "close it, or double it if it is text (csv = { quote = \"\" } if all quotes are, csv = { escape = \"\\\\\" } if \\\" is \
         a quote within a field)",
    )
}

impl Records for CsvTable {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        take_each(from.max(self.first), end, room, window, |at, window| match self.next(at)? {
            Next::End => Ok(Stop::End),
            Next::Broken(problem) => {
                window.refuse_record(self.record, at, problem);
                Ok(Stop::End)
            }
            Next::Record(fields, next) => {
                self.append(fields, next, window);
                Ok(Stop::At(next))
            }
        })
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        if at <= self.first {
            return Ok((at > 0 && at < self.first).then(|| "it is within the header".to_owned()));
        }
        let mut around = Vec::new();
        self.chunks.content.read(at - 1, 2, &mut around)?;
        Ok(match around[..] {
            [] => Some("the text ends before".to_owned()),
            [_] | [b'\n' | b'\r', _] => None,
            _ => Some("it is within a record".to_owned()),
        })
    }
}
