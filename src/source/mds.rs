//! Shards as MosaicML's Streaming writes them: MDS, version 2.
//!
//! A shard begins with the number of its samples (u32, little-endian, as all numbers), the offsets of all samples and of
//! their end, and a JSON description of the columns. A sample is the lengths of those of its columns that have no fixed
//! one, and then the columns, one after the other. A place is the number of a sample, from 0. Held in memory: the
//! offsets, and one sample.

use std::sync::Arc;

use serde::Deserialize;

use super::content::{After, Broken, Content};
use super::corpus::{Json, Layout, parts};
use super::decode::{self, Problem};
use super::records::{RecordFormat, Records, Stop};
use super::window::Window;
use crate::config::SourceConfig;
use crate::error::{Error, Result};
use crate::store::Stored;

/// The longest description of columns that is believed, in bytes.
const MOST_DESCRIPTION: u64 = 1 << 20;

/// Which column of the samples is their text.
#[derive(Clone, Debug)]
pub(super) struct Mds {
    field: String,
    /// The bound on a document, in bytes.
    max: usize,
}

impl Mds {
    pub(super) fn new(config: &SourceConfig) -> Self {
        Self { field: config.field.clone().unwrap_or_default(), max: config.max_document_bytes.as_usize() }
    }
}

/// What a shard says of its columns.
#[derive(Deserialize)]
struct Description {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<u64>>,
}

impl RecordFormat for Mds {
    fn layout(&self, stored: Arc<dyn Stored>, nominal: u64) -> Result<Layout> {
        let shard = self.open_shard(stored)?;
        let starts = shard.offsets.windows(2).zip(1_u64..);
        // A sample begins a split where it is the first behind a multiple of the nominal length.
        let cuts = starts.filter(|(pair, _)| u64::from(pair[0]) / nominal < u64::from(pair[1]) / nominal);
        let samples = shard.samples();
        Ok(Layout::Cuts(cuts.map(|(_, number)| number).filter(|number| *number < samples).collect()))
    }

    fn open(&self, stored: Arc<dyn Stored>) -> Result<Box<dyn Records>> {
        Ok(Box::new(self.open_shard(stored)?))
    }
}

impl Mds {
    fn open_shard(&self, stored: Arc<dyn Stored>) -> Result<Shard> {
        let path = stored.path().display().to_string();
        let len = stored.len();
        let mut content = Content::open(stored, None)?;
        let refuse = |what: &str| Error::Corpus {
            problem: format!("{path}: it is no MDS shard that can be read: {what}; get the file anew"),
        };
        let mut read = |from: u64, n: u64| -> Result<Vec<u8>> {
            let mut bytes = Vec::new();
            content.read(from, n as usize, &mut bytes)?;
            if bytes.len() as u64 == n { Ok(bytes) } else { Err(refuse("it ends within its head")) }
        };
        let samples = u64::from(numbers(&read(0, 4)?)[0]);
        // Compressed or not, there is more than a bit of it for each sample.
        if samples > len.saturating_mul(256) {
            return Err(refuse("it says that it has more samples than fit"));
        }
        let offsets = numbers(&read(4, 4 * (samples + 1))?);
        let head = 4 * (samples + 2);
        let first = u64::from(offsets[0]);
        if !offsets.is_sorted() || first < head || first - head > MOST_DESCRIPTION {
            return Err(refuse("the offsets of its samples are wrong"));
        }
        let description: Description =
            serde_json::from_slice(&read(head, first - head)?).map_err(|e| refuse(&e.to_string()))?;
        let Description { column_names: names, column_encodings: encodings, column_sizes: sizes } =
            description;
        if names.len() != encodings.len() || names.len() != sizes.len() {
            return Err(refuse("its columns have not all a name, an encoding and a size"));
        }
        // A JSON column may be gone into.
        let (name, path) = match names.contains(&self.field) {
            true => (self.field.as_str(), None),
            false => self
                .field
                .split_once('.')
                .map_or((self.field.as_str(), None), |(name, path)| (name, Some(path))),
        };
        let refuse = |what: String| Error::Corpus {
            problem: format!("{path_of}: {what}", path_of = content.path().display()),
        };
        let column = names
            .iter()
            .position(|column| column == name)
            .ok_or_else(|| refuse(format!("there is no column {name:?}; it has {}", names.join(", "))))?;
        let encoding = encodings[column].as_str();
        let is_text = match path {
            None => matches!(encoding, "str" | "bytes"),
            Some(_) => encoding == "json",
        };
        if !is_text {
            let problem = format!(
                "column {name:?} is {encoding} and not text; name a column of str, bytes or a field of json"
            );
            return Err(refuse(problem));
        }
        let json = path.map(|path| Json { text: parts(path), weight: None });
        Ok(Shard { mds: self.clone(), content, offsets, sizes, column, json })
    }
}

/// The numbers that bytes are.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

/// One open shard.
#[derive(Debug)]
struct Shard {
    mds: Mds,
    content: Content,
    /// Where each sample begins in the shard's text, and where the last one ends.
    offsets: Vec<u32>,
    sizes: Vec<Option<u64>>,
    column: usize,
    json: Option<Json>,
}

/// What a sample has of its text: as much as is held, and its length.
type Text = (Vec<u8>, u64);

impl Shard {
    fn samples(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// The text of sample `number`, or what is wrong with it.
    fn text(&mut self, number: u64) -> Result<Result<Text, Problem>> {
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
        let from = start + 4 * open + lengths[..self.column].iter().sum::<u64>();
        let len = lengths[self.column];
        let held = len.min(self.mds.max as u64 + 1);
        let bytes = match self.read(from, held)? {
            Ok(bytes) => bytes,
            Err(problem) => return Ok(Err(problem)),
        };
        let Some(json) = self.json.as_ref().filter(|_| held == len) else { return Ok(Ok((bytes, len))) };
        let mut text = String::new();
        let decoded = decode::utf8(&bytes).and_then(|value| decode::json(value, json, &mut text));
        Ok(decoded.map_err(|problem| Problem { offset: 0, ..problem }).map(|_| {
            let len = text.len() as u64;
            (text.into_bytes(), len)
        }))
    }

    /// `n` bytes from `from` on, or why there are not so many.
    fn read(&mut self, from: u64, n: u64) -> Result<Result<Vec<u8>, Problem>> {
        let mut bytes = Vec::new();
        let after = self.content.read(from, n as usize, &mut bytes)?;
        Ok(match after {
            _ if bytes.len() as u64 == n => Ok(bytes),
            After::Broken(broken) => Err(broken.into()),
            _ => Err(Problem::new(0, "the shard ends within the sample", Broken::ANEW)),
        })
    }
}

impl Records for Shard {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let full = window.bytes.len() + room;
        for number in from..end.min(self.samples()) {
            match self.text(number)? {
                Ok((text, len)) => window.long_record(number, number + 1, (&text, len), 1.0),
                Err(problem) => window.refuse_record(number, number + 1, problem),
            }
            if window.is_full() || window.bytes.len() >= full {
                return Ok(Stop::At(number + 1));
            }
        }
        Ok(Stop::End)
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let samples = self.samples();
        Ok((at > samples).then(|| format!("the shard has {samples} samples")))
    }
}
