//! Shards as MosaicML's Streaming writes them: MDS, version 2.
//!
//! A shard begins with the number of its samples (u32; all numbers are little-endian), the offset of each sample and of
//! the end, and a JSON description of the columns. A sample is the lengths of its columns that have no fixed length,
//! and then the columns, one after the other. A place is the number of a sample, from 0. Held in memory: the heads of open
//! shards and of [some closed ones](super::footers), and one sample. A directory of shards has an index that lists them.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use serde::Deserialize;

use super::decode::{Bound, Text, utf8, value_in_json};
use super::footers::Footers;
use super::format::{Format, Opened, Unopened};
use super::records::{Records, Stop, take_each};
use super::wanted::{Object, TOO_LONG, Wanted, columns_of, no_column, write_text};
use crate::config::SourceConfig;
use crate::error::{Error, Result};
use crate::excerpt::{excerpt, listed};
use crate::files::ZSTD_WINDOW;
use crate::source::carried::{FieldValue, Metadata, is_partition};
use crate::source::content::{Content, ReadEnd, packed};
use crate::source::cuts::Cuts;
use crate::source::json_path::{FieldPath, Json};
use crate::source::layout::{Laid, Layout};
use crate::source::problem::{Problem, Unread};
use crate::source::split_size::SplitSize;
use crate::source::window::Window;
use crate::store::Stored;
use crate::threads::lock;

mod index;
mod tokens;
mod value;

pub(crate) use index::shards;
pub(crate) use tokens::TokenShard;

/// The longest description of columns that is accepted, in bytes.
const MOST_DESCRIPTION: u64 = 1 << 20;

/// The most samples that a shard may claim: its length is a number of 32 bits, and 64 bytes are a short sample.
const MOST_SAMPLES: u64 = 1 << 26;

/// Which columns of the samples are documents.
#[derive(Debug)]
pub(crate) struct Mds {
    wanted: Wanted,
    /// The columns that are read beside a document.
    values: Arc<[String]>,
    bound: Bound,
    zstd_window: u64,
    heads: Mutex<Footers<Head>>,
}

impl Mds {
    pub(crate) fn new(config: &SourceConfig, wanted: Wanted, values: Arc<[String]>) -> Self {
        let (bound, zstd_window) = (Bound::new(config), config.zstd_window());
        Self { wanted, values, bound, zstd_window, heads: Mutex::default() }
    }
}

/// A shard's description of its columns.
#[derive(Deserialize)]
struct Description {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<u64>>,
}

impl Format for Mds {
    fn layout(&self, file: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let stored = file.stored()?;
        let held = packed(&*stored)?;
        let Ok(shard) = Unread::split(self.open_shard(stored))? else { return Ok(Layout::Whole.into()) };
        // Each split of a compressed shard would have to decompress everything before it.
        if let (Some(held), true) = (held, split_size.is_auto) {
            return Ok(Laid { layout: Layout::Whole, held });
        }
        let split_size = split_size.bytes;
        let head = &shard.samples.head;
        let starts = head.offsets.windows(2).zip(1_u64..);
        // A sample begins a split if it is the first after a multiple of the split size.
        let cuts =
            starts.filter(|(pair, _)| u64::from(pair[0]) / split_size < u64::from(pair[1]) / split_size);
        let samples = shard.samples.count();
        let places: Vec<u64> = cuts.map(|(_, number)| number).filter(|number| *number < samples).collect();
        let cuts = Cuts::new(places);
        let is_kept = lock(&self.heads).keep(shard.samples.content.path(), head, head.bytes());
        let opening = if is_kept { 0..0 } else { 0..u64::from(head.offsets[0]) };
        // Offsets count in the text, which is stored elsewhere in a compressed shard.
        let layout = match shard.samples.content.len() {
            Some(_) => Layout::Cuts(cuts.stored(opening, |split| vec![shard.samples.between(split)])),
            None if cuts.places().is_empty() => Layout::Whole,
            None => Layout::Cuts(cuts),
        };
        Ok(Laid { layout, held: held.unwrap_or(0) })
    }

    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        Opened::found(self.open_shard(file.stored()?))
    }

    fn fields(&self, file: Unopened<'_>) -> Result<Vec<String>, Unread> {
        let samples = self.samples(file.stored()?)?;
        let of = |wanted: &str| -> Vec<String> {
            let columns = samples.head.names.iter().zip(&samples.head.encodings);
            columns.filter(|(_, encoding)| *encoding == wanted).map(|(name, _)| name.clone()).collect()
        };
        // Strings are likelier to be text than bytes are.
        let strings = of("str");
        Ok(if strings.is_empty() { of("bytes") } else { strings })
    }

    fn index_bytes(&self) -> u64 {
        lock(&self.heads).bytes()
    }
}

impl Mds {
    /// A shard whose head is read, unless it is known.
    fn samples(&self, stored: Arc<dyn Stored>) -> Result<Samples, Unread> {
        let known = lock(&self.heads).get(stored.path());
        if let Some(head) = known {
            // What is compressed is decompressed from its start.
            let content = match head.is_plain {
                true => Content::plain(stored),
                false => Content::open(stored, self.zstd_window)?,
            };
            return Ok(Samples { content, head });
        }
        let (content, head) = Head::read(stored, self.zstd_window)?;
        let head = lock(&self.heads).add(content.path(), head);
        Ok(Samples { content, head })
    }

    fn open_shard(&self, stored: Arc<dyn Stored>) -> Result<Shard, Unread> {
        let samples = self.samples(stored)?;
        let document = match &self.wanted {
            Wanted::Text(field) => text_column(field, &samples)?,
            Wanted::Record(wanted) => record_columns(wanted, &samples)?,
        };
        let values = self.values.iter().map(|name| value_column(name, &samples)).collect::<Result<_>>()?;
        Ok(Shard { bound: self.bound, samples, document, values })
    }
}

/// The column that a name leads to, and the rest of the name: a dotted one may lead into a column of JSON.
fn column_at<'a>(name: &'a str, samples: &Samples) -> Result<(usize, Option<&'a str>)> {
    let (name, path) = match name.split_once('.') {
        Some((column, path)) if !samples.head.names.iter().any(|column| column == name) => {
            (column, Some(path))
        }
        _ => (name, None),
    };
    Ok((samples.column(name)?, path))
}

/// The column of a value beside the documents; `None` if only the shard's path has it.
fn value_column(name: &str, samples: &Samples) -> Result<Option<ValueColumn>> {
    let (column, path) = match column_at(name, samples) {
        Err(_) if is_partition(samples.content.path(), name) => return Ok(None),
        found => found?,
    };
    let encoding = samples.head.encodings[column].as_str();
    let path = match (encoding, path) {
        ("json", path) => Some(path.map_or_else(FieldPath::whole, FieldPath::new)),
        (_, None) => None,
        (_, Some(_)) => {
            return Err(samples.refuse(&format!(
                "column {name:?} leads into {}, which has no columns; name a whole column, or a field of json",
                excerpt(encoding)
            )));
        }
    };
    Ok(Some(ValueColumn { column, path }))
}

/// The column of the text, and the path of the text within it.
fn text_column(field: &str, samples: &Samples) -> Result<Columns> {
    let (column, path) = column_at(field, samples)?;
    let (name, encoding) = (&samples.head.names[column], samples.head.encodings[column].as_str());
    let is_text = match path {
        None => matches!(encoding, "str" | "bytes"),
        Some(_) => encoding == "json",
    };
    if !is_text {
        return Err(samples.refuse(&format!(
            "column {name:?} is {} and not text; name a column of str, bytes or a field of json",
            excerpt(encoding)
        )));
    }
    Ok(Columns::Text(column, path.map(Json::text)))
}

fn record_columns(wanted: &[String], samples: &Samples) -> Result<Columns> {
    let names = &samples.head.names;
    let columns = columns_of(wanted, |wanted| names.iter().position(|name| name == wanted));
    if columns.is_empty() {
        return Err(samples.refuse(&no_column(wanted, &listed(names))));
    }
    let column = |column: usize| {
        let (name, encoding) = (&names[column], samples.head.encodings[column].as_str());
        match encoding {
            "str" | "bytes" => Ok((column, name.clone(), false)),
            "json" => Ok((column, name.clone(), true)),
            _ => Err(samples.refuse(&format!(
                "column {name:?} is {} and not text; write it as str, bytes or json",
                excerpt(encoding)
            ))),
        }
    };
    columns.into_iter().map(column).collect::<Result<_>>().map(Columns::Record)
}

/// Reads `n` bytes from `from` on. If the text ends before, that is the problem `what`.
fn exactly(content: &mut Content, from: u64, n: u64, what: &str) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    match content.read(from, n as usize, &mut bytes)? {
        _ if bytes.len() as u64 == n => Ok(bytes),
        ReadEnd::Broken(broken) => Err(broken.into()),
        ReadEnd::More | ReadEnd::End => Err(Problem::damage(what).into()),
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

/// An open shard.
#[derive(Debug)]
struct Samples {
    content: Content,
    head: Arc<Head>,
}

/// What a shard says before its samples.
#[derive(Debug)]
struct Head {
    /// Whether the shard is stored as it is.
    is_plain: bool,
    /// Where each sample begins in the shard's text, and where the last one ends.
    offsets: Vec<u32>,
    /// The names, encodings and sizes of the columns.
    names: Vec<String>,
    encodings: Vec<String>,
    sizes: Vec<Option<u64>>,
}

impl Head {
    /// Opens a shard, and reads its offsets and columns.
    fn read(stored: Arc<dyn Stored>, zstd_window: u64) -> Result<(Content, Self), Unread> {
        let unreadable = |what: &str| format!("it is not a readable MDS shard: {what}");
        let wrong = |what: &str| Unread::from(Problem::damage(unreadable(what)));
        let mut content = Content::open(stored, zstd_window)?;
        let samples = exactly(&mut content, 0, 4, &unreadable("it is too short"))?;
        let samples = u64::from(numbers(&samples)[0]);
        if samples > MOST_SAMPLES {
            return Err(wrong(&format!(
                "it claims to have {samples} samples, more than the limit of {MOST_SAMPLES}"
            )));
        }
        let cut = unreadable("it ends within the offsets of its samples");
        let offsets = numbers(&exactly(&mut content, 4, 4 * (samples + 1), &cut)?);
        let end = 4 * (samples + 2);
        let first = u64::from(offsets[0]);
        if !offsets.is_sorted() || first < end || first - end > MOST_DESCRIPTION {
            return Err(wrong("the offsets of its samples are wrong"));
        }
        let cut = unreadable("it ends within the description of its columns");
        let description = exactly(&mut content, end, first - end, &cut)?;
        let Description { column_names: names, column_encodings: encodings, column_sizes: sizes } =
            serde_json::from_slice(&description)
                .map_err(|e| wrong(&format!("the description of its columns: {e}")))?;
        if names.len() != encodings.len() || names.len() != sizes.len() {
            return Err(wrong("not all of its columns have a name, an encoding and a size"));
        }
        let is_plain = content.is_plain();
        Ok((content, Self { is_plain, offsets, names, encodings, sizes }))
    }

    /// About how much memory it takes, in bytes.
    fn bytes(&self) -> u64 {
        let columns = self.names.iter().chain(&self.encodings).map(|text| text.len() as u64 + 32);
        4 * self.offsets.len() as u64 + columns.sum::<u64>()
    }
}

impl Samples {
    fn open(stored: Arc<dyn Stored>) -> Result<Self, Unread> {
        let (content, head) = Head::read(stored, ZSTD_WINDOW)?;
        Ok(Self { content, head: Arc::new(head) })
    }

    fn refuse(&self, what: &str) -> Error {
        Error::Corpus { problem: format!("{}: {what}", self.content.path().display()) }
    }

    fn column(&self, name: &str) -> Result<usize> {
        self.head.names.iter().position(|column| column == name).ok_or_else(|| {
            let there = listed(&self.head.names);
            self.refuse(&format!("there is no column {name:?}; it has {there}; name one of them"))
        })
    }

    fn count(&self) -> u64 {
        self.head.offsets.len() as u64 - 1
    }

    /// Where these samples are in the shard's text.
    fn between(&self, samples: Range<u64>) -> Range<u64> {
        let [start, end] =
            [samples.start, samples.end].map(|number| self.head.offsets[number.min(self.count()) as usize]);
        u64::from(start)..u64::from(end)
    }

    /// Reads a column of sample `number`: as much of it as `held` allows for its length, and its length.
    fn bytes(&mut self, number: u64, column: usize, held: impl FnOnce(u64) -> u64) -> Result<Text, Unread> {
        let [start, end] =
            [number as usize, number as usize + 1].map(|index| u64::from(self.head.offsets[index]));
        let open = self.head.sizes.iter().filter(|size| size.is_none()).count() as u64;
        if 4 * open > end - start {
            return Err(Problem::damage("the sample is shorter than the lengths of its columns").into());
        }
        let mut lengths = numbers(&self.read(start, 4 * open)?).into_iter().map(u64::from);
        let lengths: Vec<u64> =
            self.head.sizes.iter().map(|size| size.or_else(|| lengths.next()).unwrap_or_default()).collect();
        let whole = lengths.iter().try_fold(4 * open, |sum, length| sum.checked_add(*length));
        if whole != Some(end - start) {
            return Err(Problem::damage("the sample's columns are not as long as it is").into());
        }
        let from = start + 4 * open + lengths[..column].iter().sum::<u64>();
        let len = lengths[column];
        Ok((self.read(from, held(len))?, len))
    }

    /// The value in a column of sample `number`; `None` if its JSON has no such field. Damage there is no damage of the
    /// text.
    fn value(&mut self, number: u64, of: &ValueColumn, bound: Bound) -> Result<Option<FieldValue>> {
        let bytes = Unread::split(self.bytes(number, of.column, |len| bound.held(len)))?;
        Ok(match (bytes, &of.path) {
            (Err(problem), _) => Some(FieldValue::Other(format!("damaged ({})", problem.what).into())),
            (Ok((_, len)), _) if bound.is_exceeded(len) => Some(FieldValue::TOO_LONG),
            (Ok((bytes, _)), None) => Some(value::value(&self.head.encodings[of.column], &bytes)),
            (Ok((bytes, _)), Some(path)) => value_in_json(&bytes, path),
        })
    }

    fn read(&mut self, from: u64, n: u64) -> Result<Vec<u8>, Unread> {
        exactly(&mut self.content, from, n, "the shard ends within the sample")
    }
}

/// One open shard whose samples have a text.
#[derive(Debug)]
struct Shard {
    bound: Bound,
    samples: Samples,
    document: Columns,
    /// The values beside a document; none for one that only the shard's path has.
    values: Vec<Option<ValueColumn>>,
}

/// A column of a value beside the documents.
#[derive(Debug)]
struct ValueColumn {
    column: usize,
    /// Where the value is in its JSON, if it is that.
    path: Option<FieldPath>,
}

#[derive(Debug)]
enum Columns {
    /// One, with the path of the text if it is JSON.
    Text(usize, Option<Json>),
    /// Those of a record, each with its name and whether it is JSON.
    Record(Vec<(usize, String, bool)>),
}

impl Shard {
    fn text(&mut self, number: u64) -> Result<Text, Unread> {
        let (bound, samples) = (self.bound, &mut self.samples);
        let columns = match &self.document {
            Columns::Text(column, json) => {
                let (bytes, len) = samples.bytes(number, *column, |len| bound.held(len))?;
                return Ok(bound.text(bytes, len, json.as_ref())?);
            }
            Columns::Record(columns) => columns,
        };
        let (mut object, mut whole, mut is_empty) = (Object::default(), 0, true);
        for (column, name, is_json) in columns {
            let (bytes, len) = samples.bytes(number, *column, |len| bound.held(len))?;
            (whole, is_empty) = (whole + len, is_empty && matches!(&bytes[..], b"" | b"null"));
            if bound.is_exceeded(whole) {
                return Ok((TOO_LONG.to_vec(), whole));
            }
            let added = utf8(&bytes).and_then(|text| {
                if *is_json {
                    return object.json(name, text);
                }
                write_text(text, object.field(name));
                Ok(())
            });
            // A place within the column is not a place in the file.
            added.map_err(|problem| Problem { offset: 0, ..problem })?;
        }
        let record = if is_empty { Vec::new() } else { object.finish() };
        let len = record.len() as u64;
        Ok((record, len))
    }
}

impl Shard {
    /// The text of a sample, and what the sample says beside it.
    fn document(&mut self, number: u64) -> Result<(Text, Metadata), Unread> {
        let text = self.text(number)?;
        let mut values = Vec::with_capacity(self.values.len());
        for of in &self.values {
            values.push(match of {
                Some(of) => self.samples.value(number, of, self.bound)?,
                None => None,
            });
        }
        Ok((text, Metadata { values, ..Metadata::default() }))
    }
}

impl Records for Shard {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let samples = self.samples.count();
        let stop = take_each(from, end.min(samples), room, window, |number, window| {
            match Unread::split(self.document(number))? {
                Ok(((text, len), metadata)) => window.record(number, number + 1, &text, len, metadata),
                Err(problem) => window.refuse_record(number, number + 1, problem),
            }
            Ok(Stop::At(number + 1))
        })?;
        Ok(if end >= samples && matches!(stop, Stop::At(at) if at >= samples) { Stop::End } else { stop })
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let samples = self.samples.count();
        Ok((at > samples).then(|| format!("the shard has {samples} samples")))
    }
}
