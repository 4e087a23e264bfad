//! Tables of text: a header line, then one record a document, as RFC 4180 has it.
//!
//! A place is the offset of a record in the file's text, in bytes. A record may hold line ends within quotes, so that
//! nothing but reading from the start tells where one begins: a file is one split. Held in memory: one record, and the
//! places of its fields.

use std::sync::Arc;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::content::{After, Content};
use super::corpus::Layout;
use super::decode::{Problem, share};
use super::framing::bom_len;
use super::records::{RecordFormat, Records, Stop};
use super::window::Window;
use crate::config::{SampleConfig, SourceConfig};
use crate::error::{Error, Result};
use crate::store::Stored;

/// How much is read at once, in bytes.
const READ_BYTES: usize = 64 << 10;

/// How a table is read.
#[derive(Clone, Debug)]
pub(super) struct Csv {
    delimiter: u8,
    field: String,
    sample: Option<SampleConfig>,
    /// The bound on a record, in bytes.
    max: usize,
}

impl Csv {
    pub(super) fn new(delimiter: u8, config: &SourceConfig) -> Self {
        Self {
            delimiter,
            field: config.field.clone().unwrap_or_default(),
            sample: config.sample.clone(),
            max: config.max_document_bytes.as_usize(),
        }
    }

    fn reader(&self) -> Reader {
        ReaderBuilder::new().delimiter(self.delimiter).build()
    }
}

impl RecordFormat for Csv {
    fn layout(&self, _: Arc<dyn Stored>, _: u64) -> Result<Layout> {
        Ok(Layout::Whole)
    }

    fn open(&self, stored: Arc<dyn Stored>) -> Result<Box<dyn Records>> {
        let path = stored.path().to_owned();
        let mut table = Table {
            csv: self.clone(),
            content: Content::open(stored)?,
            held: Vec::new(),
            held_from: 0,
            after: After::More,
            record: Record::default(),
            columns: 0,
            text: 0,
            weight: None,
            first: 0,
        };
        let mut start = Vec::new();
        table.content.read(0, 3, &mut start)?;
        let bom = bom_len(&start) as u64;
        let Next::Record(first) = table.next(bom)? else {
            let problem = format!("{}: the table has no header line; give it one", path.display());
            return Err(Error::Corpus { problem });
        };
        let names: Vec<String> =
            table.record.fields().map(|f| String::from_utf8_lossy(f).into_owned()).collect();
        let column = |name: &String| {
            names.iter().position(|column| column == name).ok_or_else(|| {
                let problem = format!(
                    "{}: there is no column {name:?}; the header has {}",
                    path.display(),
                    names.join(", ")
                );
                Error::Corpus { problem }
            })
        };
        table.text = column(&self.field)?;
        table.weight = self.sample.as_ref().map(|sample| column(&sample.field)).transpose()?;
        (table.columns, table.first) = (names.len(), first);
        Ok(Box::new(table))
    }
}

/// One open table.
#[derive(Debug)]
struct Table {
    csv: Csv,
    content: Content,
    /// Bytes of the text from `held_from` on, and what comes after them.
    held: Vec<u8>,
    held_from: u64,
    after: After,
    record: Record,
    columns: usize,
    /// Which columns hold the text and the weight.
    text: usize,
    weight: Option<usize>,
    /// Where the record behind the header begins.
    first: u64,
}

/// What was found at a place.
enum Next {
    /// A record, which ends before this place.
    Record(u64),
    /// One longer than the bound, which ends before this place.
    Long(u64),
    /// The end.
    End,
    /// What cannot be read.
    Broken(Problem),
}

/// The fields of one record, unquoted.
#[derive(Debug, Default)]
struct Record {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    written: usize,
    fields: usize,
}

impl Record {
    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.fields).map(|index| self.field(index))
    }

    fn field(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }
}

impl Table {
    /// Reads the record at `from`.
    fn next(&mut self, from: u64) -> Result<Next> {
        let mut reader = self.csv.reader();
        let mut at = from;
        (self.record.written, self.record.fields) = (0, 0);
        let mut is_long = false;
        loop {
            let input = self.input(at)?;
            if let (true, After::Broken(broken)) = (input.is_empty(), &self.after) {
                return Ok(Next::Broken(broken.clone().into()));
            }
            let input = &self.held[input];
            let (result, read, written, ended) = reader.read_record(
                input,
                self.record.bytes.get_mut(self.record.written..).unwrap_or_default(),
                self.record.ends.get_mut(self.record.fields..).unwrap_or_default(),
            );
            at += read as u64;
            self.record.written += written;
            self.record.fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.record.written > self.csv.max => {
                    // What is beyond the bound is passed over.
                    is_long = true;
                    (self.record.written, self.record.fields) = (0, 0);
                }
                ReadRecordResult::OutputFull => {
                    self.record.bytes.resize(2 * self.record.bytes.len() + 1024, 0)
                }
                ReadRecordResult::OutputEndsFull => {
                    self.record.ends.resize(2 * self.record.ends.len() + 16, 0)
                }
                ReadRecordResult::Record if is_long => return Ok(Next::Long(at)),
                ReadRecordResult::Record => return Ok(Next::Record(at)),
                ReadRecordResult::End => return Ok(Next::End),
            }
        }
    }

    /// Where the bytes from `at` on lie in what is held; none are left if there are none.
    fn input(&mut self, at: u64) -> Result<std::ops::Range<usize>> {
        let held_to = self.held_from + self.held.len() as u64;
        if !(self.held_from..held_to).contains(&at) && (at != held_to || self.after == After::More) {
            self.held.clear();
            self.after = self.content.read(at, READ_BYTES, &mut self.held)?;
            self.held_from = at;
        }
        Ok((at - self.held_from) as usize..self.held.len())
    }

    /// Appends the record that was read, which begins at `from`.
    fn append(&self, from: u64, next: u64, window: &mut Window) {
        let record = &self.record;
        if record.fields != self.columns {
            let what = format!("the record has {} fields, and the header {}", record.fields, self.columns);
            return window.refuse_record(from, next, Problem::new(0, what, "mend the record"));
        }
        let share = match (self.weight, &self.csv.sample) {
            (Some(column), Some(sample)) => {
                let text = String::from_utf8_lossy(record.field(column));
                let weight = text.trim().parse::<f64>().map_err(|_| format!("{text:?} and not a number"));
                weight.and_then(|weight| share(weight, sample.max)).map_err(|what| {
                    let what = format!("column {:?} is {what}", sample.field);
                    Problem::new(0, what, "mend the record, or name another column")
                })
            }
            _ => Ok(1.0),
        };
        match share {
            Ok(share) => window.record(from, next, record.field(self.text), share),
            Err(problem) => window.refuse_record(from, next, problem),
        }
    }
}

impl Records for Table {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let mut at = from.max(self.first);
        let full = window.bytes.len() + room;
        while at < end {
            let next = match self.next(at)? {
                Next::End => return Ok(Stop::End),
                Next::Broken(problem) => {
                    window.refuse_record(at, at, problem);
                    return Ok(Stop::End);
                }
                Next::Long(next) => {
                    let what = format!("the record is longer than max_document_bytes = {}", self.csv.max);
                    window.refuse_record(at, next, Problem::new(0, what, "raise it, or take the record out"));
                    next
                }
                Next::Record(next) => {
                    self.append(at, next, window);
                    next
                }
            };
            at = next;
            if window.is_full() || window.bytes.len() >= full {
                return Ok(Stop::At(at));
            }
        }
        Ok(Stop::End)
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        if at <= self.first {
            return Ok((at > 0 && at < self.first).then(|| "it is within the header".to_owned()));
        }
        let mut before = Vec::new();
        self.content.read(at - 1, 1, &mut before)?;
        Ok(match before[..] {
            [b'\n' | b'\r'] => None,
            [] => Some("the text ends before".to_owned()),
            _ => Some("it is within a record".to_owned()),
        })
    }
}
