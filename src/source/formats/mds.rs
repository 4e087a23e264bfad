//! Shards as MosaicML's Streaming writes them: MDS, version 2.
//!
//! A shard begins with the number of its samples (u32; all numbers are little-endian), the offset of each sample and of
//! the end, and a JSON description of the columns. A sample is the lengths of its columns that have no fixed length,
//! and then the columns, one after the other. A place is the number of a sample, from 0. Held in memory: the offsets,
//! and one sample. A directory of shards has an index that lists them.

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use super::decode::{Bound, Text, utf8};
use super::format::{Format, Opened, Unopened};
use super::records::{Records, Stop};
use super::wanted::{Object, TOO_LONG, Wanted, columns_of, no_column, write_text};
use crate::config::SourceConfig;
use crate::error::{Error, Result};
use crate::source::content::{Content, ReadEnd, packed};
use crate::source::cuts::Cuts;
use crate::source::excerpt::{excerpt, listed};
use crate::source::json_path::Json;
use crate::source::layout::{Laid, Layout};
use crate::source::problem::{Broken, Problem};
use crate::source::split_size::SplitSize;
use crate::source::window::{WINDOW_DOCUMENTS, Window};
use crate::store::Stored;

mod index;
mod tokens;

pub(crate) use index::shards;
pub(crate) use tokens::TokenShard;

/// The longest description of columns that is accepted, in bytes.
const MOST_DESCRIPTION: u64 = 1 << 20;

/// The most samples that a shard may claim: its length is a number of 32 bits, and 64 bytes are a short sample.
const MOST_SAMPLES: u64 = 1 << 26;

/// Which columns of the samples are documents.
#[derive(Clone, Debug)]
pub(crate) struct Mds {
    wanted: Wanted,
    bound: Bound,
}

impl Mds {
    pub(crate) fn new(config: &SourceConfig, wanted: Wanted) -> Self {
        Self { wanted, bound: Bound::new(config) }
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
        let Ok(shard) = self.open_shard(stored)? else { return Ok(Layout::Whole.into()) };
        // Each split of a compressed shard would have to decompress everything before it.
        if let (Some(held), true) = (held, split_size.is_auto) {
            return Ok(Laid { layout: Layout::Whole, held });
        }
        let split_size = split_size.bytes;
        let starts = shard.samples.offsets.windows(2).zip(1_u64..);
        // A sample begins a split if it is the first after a multiple of the split size.
        let cuts =
            starts.filter(|(pair, _)| u64::from(pair[0]) / split_size < u64::from(pair[1]) / split_size);
        let samples = shard.samples.count();
        let places: Vec<u64> = cuts.map(|(_, number)| number).filter(|number| *number < samples).collect();
        let cuts = Cuts::new(places);
        let head = 0..u64::from(shard.samples.offsets[0]);
        // Offsets count in the text, which is stored elsewhere in a compressed shard.
        let layout = match shard.samples.content.len() {
            Some(_) => Layout::Cuts(cuts.stored(head, |split| vec![shard.samples.between(split)])),
            None if cuts.places().is_empty() => Layout::Whole,
            None => Layout::Cuts(cuts),
        };
        Ok(Laid { layout, held: held.unwrap_or(0) })
    }

    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        self.open_shard(file.stored()?).map(Opened::found)
    }

    fn fields(&self, file: Unopened<'_>) -> Result<Result<Vec<String>, Problem>> {
        let opened = Samples::open(file.stored()?)?;
        Ok(opened.map(|(_, names, encodings)| {
            let of = |wanted: &str| -> Vec<String> {
                let columns = names.iter().zip(&encodings).filter(|(_, encoding)| *encoding == wanted);
                columns.map(|(name, _)| name.clone()).collect()
            };
            // Strings are likelier to be text than bytes are.
            let strings = of("str");
            if strings.is_empty() { of("bytes") } else { strings }
        }))
    }
}

impl Mds {
    /// Opens a shard, or returns the problem of its head.
    fn open_shard(&self, stored: Arc<dyn Stored>) -> Result<Result<Shard, Problem>> {
        let (samples, names, encodings) = match Samples::open(stored)? {
            Ok(opened) => opened,
            Err(problem) => return Ok(Err(problem)),
        };
        let document = match &self.wanted {
            Wanted::Text(field) => text_column(field, &samples, &names, &encodings)?,
            Wanted::Record(wanted) => record_columns(wanted, &samples, &names, &encodings)?,
        };
        Ok(Ok(Shard { bound: self.bound, samples, document }))
    }
}

/// The column of the text, and the path of the text within it.
fn text_column(field: &str, samples: &Samples, names: &[String], encodings: &[String]) -> Result<Columns> {
    // A dotted name may lead into a JSON column.
    let (name, path) = match field.split_once('.') {
        Some((name, path)) if !names.iter().any(|name| name == field) => (name, Some(path)),
        _ => (field, None),
    };
    let column = samples.column(name, names)?;
    let encoding = encodings[column].as_str();
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

/// The columns of a record.
fn record_columns(
    wanted: &[String],
    samples: &Samples,
    names: &[String],
    encodings: &[String],
) -> Result<Columns> {
    let columns = columns_of(wanted, |wanted| names.iter().position(|name| name == wanted));
    if columns.is_empty() {
        return Err(samples.refuse(&no_column(wanted, &listed(names))));
    }
    let column = |column: usize| {
        let (name, encoding) = (&names[column], encodings[column].as_str());
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

/// Reads a shard's offsets and columns, or returns their problem.
fn head(content: &mut Content) -> Result<Result<(Vec<u32>, Description), String>> {
    let wrong = |what: &str| Ok(Err(what.to_owned()));
    let Some(samples) = exactly(content, 0, 4)?.map(|bytes| u64::from(numbers(&bytes)[0])) else {
        return wrong("it is too short");
    };
    if samples > MOST_SAMPLES {
        return Ok(Err(format!(
            "it claims to have {samples} samples, more than the limit of {MOST_SAMPLES}"
        )));
    }
    let Some(offsets) = exactly(content, 4, 4 * (samples + 1))?.map(|bytes| numbers(&bytes)) else {
        return wrong("it ends within the offsets of its samples");
    };
    let end = 4 * (samples + 2);
    let first = u64::from(offsets[0]);
    if !offsets.is_sorted() || first < end || first - end > MOST_DESCRIPTION {
        return wrong("the offsets of its samples are wrong");
    }
    let Some(description) = exactly(content, end, first - end)? else {
        return wrong("it ends within the description of its columns");
    };
    let description: Description = match serde_json::from_slice(&description) {
        Ok(description) => description,
        Err(e) => return Ok(Err(format!("the description of its columns: {e}"))),
    };
    let names = description.column_names.len();
    if names != description.column_encodings.len() || names != description.column_sizes.len() {
        return wrong("not all of its columns have a name, an encoding and a size");
    }
    Ok(Ok((offsets, description)))
}

/// Reads `n` bytes from `from` on; `None` if there are fewer.
fn exactly(content: &mut Content, from: u64, n: u64) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    content.read(from, n as usize, &mut bytes)?;
    Ok((bytes.len() as u64 == n).then_some(bytes))
}

/// Returns the numbers in `bytes`.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

/// The samples of an open shard.
#[derive(Debug)]
struct Samples {
    content: Content,
    /// Where each sample begins in the shard's text, and where the last one ends.
    offsets: Vec<u32>,
    sizes: Vec<Option<u64>>,
}

impl Samples {
    /// Opens a shard and returns its samples, and the names and encodings of its columns; or the problem of its head.
    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn open(stored: Arc<dyn Stored>) -> Result<Result<(Self, Vec<String>, Vec<String>), Problem>> {
        let mut content = Content::open(stored)?;
        Ok(match head(&mut content)? {
            Ok((offsets, description)) => {
                let Description { column_names, column_encodings, column_sizes: sizes } = description;
                Ok((Self { content, offsets, sizes }, column_names, column_encodings))
            }
            Err(what) => {
                let what = format!("it is not a readable MDS shard: {what}");
                Err(Problem::new(0, what, Broken::ANEW))
            }
        })
    }

    fn refuse(&self, what: &str) -> Error {
        Error::Corpus { problem: format!("{}: {what}", self.content.path().display()) }
    }

    /// The number of the column `name`.
    fn column(&self, name: &str, names: &[String]) -> Result<usize> {
        names.iter().position(|column| column == name).ok_or_else(|| {
            let there = listed(names);
            self.refuse(&format!("there is no column {name:?}; it has {there}; name one of them"))
        })
    }

    fn count(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// Where these samples are in the shard's text.
    fn between(&self, samples: Range<u64>) -> Range<u64> {
        let [start, end] =
            [samples.start, samples.end].map(|number| self.offsets[number.min(self.count()) as usize]);
        u64::from(start)..u64::from(end)
    }

    /// Reads a column of sample `number`: as much of it as `held` allows for its length, and its length; or returns the
    /// sample's problem.
    fn bytes(
        &mut self,
        number: u64,
        column: usize,
        held: impl FnOnce(u64) -> u64,
    ) -> Result<Result<(Vec<u8>, u64), Problem>> {
        let wrong = |what: &str| Ok(Err(Problem::new(0, what, Broken::ANEW)));
        let [start, end] = [number as usize, number as usize + 1].map(|index| u64::from(self.offsets[index]));
        let open = self.sizes.iter().filter(|size| size.is_none()).count() as u64;
        if 4 * open > end - start {
            return wrong("the sample is shorter than the lengths of its columns");
        }
        let head = match self.read(start, 4 * open)? {
            Ok(head) => numbers(&head),
            Err(problem) => return Ok(Err(problem)),
        };
        let mut lengths = head.into_iter().map(u64::from);
        let lengths: Vec<u64> =
            self.sizes.iter().map(|size| size.or_else(|| lengths.next()).unwrap_or_default()).collect();
        let whole = lengths.iter().try_fold(4 * open, |sum, length| sum.checked_add(*length));
        if whole != Some(end - start) {
            return wrong("the sample's columns are not as long as it is");
        }
        let from = start + 4 * open + lengths[..column].iter().sum::<u64>();
        let len = lengths[column];
        Ok(self.read(from, held(len))?.map(|bytes| (bytes, len)))
    }

    /// Reads `n` bytes from `from` on, or says why there are fewer.
    fn read(&mut self, from: u64, n: u64) -> Result<Result<Vec<u8>, Problem>> {
        let mut bytes = Vec::new();
        let after = self.content.read(from, n as usize, &mut bytes)?;
        Ok(match after {
            _ if bytes.len() as u64 == n => Ok(bytes),
            ReadEnd::Broken(broken) => Err(broken.into()),
            _ => Err(Problem::new(0, "the shard ends within the sample", Broken::ANEW)),
        })
    }
}

/// One open shard whose samples have a text.
#[derive(Debug)]
struct Shard {
    bound: Bound,
    samples: Samples,
    document: Columns,
}

/// The columns that documents are in.
#[derive(Debug)]
enum Columns {
    /// One, with the path of the text if it is JSON.
    Text(usize, Option<Json>),
    /// Those of a record, each with its name and whether it is JSON.
    Record(Vec<(usize, String, bool)>),
}

impl Shard {
    /// The document of sample `number`, or the sample's problem.
    fn text(&mut self, number: u64) -> Result<Result<Text, Problem>> {
        let (bound, samples) = (self.bound, &mut self.samples);
        let columns = match &self.document {
            Columns::Text(column, json) => {
                let bytes = samples.bytes(number, *column, |len| bound.held(len))?;
                return Ok(bytes.and_then(|(bytes, len)| bound.text(bytes, len, json.as_ref())));
            }
            Columns::Record(columns) => columns,
        };
        let (mut object, mut whole, mut is_empty) = (Object::default(), 0, true);
        for (column, name, is_json) in columns {
            let (bytes, len) = match samples.bytes(number, *column, |len| bound.held(len))? {
                Ok(found) => found,
                Err(problem) => return Ok(Err(problem)),
            };
            (whole, is_empty) = (whole + len, is_empty && matches!(&bytes[..], b"" | b"null"));
            if bound.is_exceeded(whole) {
                return Ok(Ok((TOO_LONG.to_vec(), whole)));
            }
            let added = utf8(&bytes).and_then(|text| {
                if *is_json {
                    return object.json(name, text);
                }
                write_text(text, object.field(name));
                Ok(())
            });
            if let Err(problem) = added {
                // A place within the column is not a place in the file.
                return Ok(Err(Problem { offset: 0, ..problem }));
            }
        }
        let record = if is_empty { Vec::new() } else { object.finish() };
        let len = record.len() as u64;
        Ok(Ok((record, len)))
    }
}

impl Records for Shard {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let full = window.bytes.len() + room;
        let samples = self.samples.count();
        for number in from..end.min(samples) {
            if number - from == WINDOW_DOCUMENTS as u64 {
                return Ok(Stop::At(number));
            }
            match self.text(number)? {
                Ok((text, len)) => window.record(number, number + 1, &text, len, 1.0),
                Err(problem) => window.refuse_record(number, number + 1, problem),
            }
            if window.is_full() || window.bytes.len() >= full {
                return Ok(Stop::At(number + 1));
            }
        }
        Ok(if end < samples { Stop::At(end.max(from)) } else { Stop::End })
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let samples = self.samples.count();
        Ok((at > samples).then(|| format!("the shard has {samples} samples")))
    }
}
