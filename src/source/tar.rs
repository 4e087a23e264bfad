//! Tar archives of samples, as WebDataset has them: members of one name, up to its first dot, are one sample.
//!
//! A place is the offset of a sample's first header in the archive's text, in bytes. Nothing but reading from a
//! header tells where the next one is: a file is one split. Held in memory: the member that is wanted, as far as a
//! document may be long.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;

use tar::{Archive, Entry};

use super::content::{After, Broken, Content};
use super::corpus::{Json, Layout, parts};
use super::decode::{self, Problem};
use super::records::{RecordFormat, Records, Stop};
use super::window::Window;
use crate::config::SourceConfig;
use crate::error::{Error, Result};
use crate::store::Stored;

/// Headers and members begin at multiples of so many bytes.
const BLOCK: u64 = 512;

/// How much is read at once, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Which member of a sample is its text.
#[derive(Clone, Debug)]
pub(super) struct Tar {
    field: String,
    /// The bound on a member, in bytes.
    max: usize,
}

impl Tar {
    pub(super) fn new(config: &SourceConfig) -> Self {
        Self { field: config.field.clone().unwrap_or_default(), max: config.max_document_bytes.as_usize() }
    }

    /// What a member of this extension is to the source.
    fn wanted(&self, extension: &str) -> Wanted {
        if extension == self.field {
            return Wanted::Text;
        }
        match self.field.strip_prefix(extension).and_then(|rest| rest.strip_prefix('.')) {
            Some(path) if !extension.is_empty() && !path.is_empty() => Wanted::Json(path.to_owned()),
            _ => Wanted::Nothing,
        }
    }
}

enum Wanted {
    Nothing,
    Text,
    /// The text at a path in it.
    Json(String),
}

impl RecordFormat for Tar {
    fn layout(&self, _: Arc<dyn Stored>, _: u64) -> Result<Layout> {
        Ok(Layout::Whole)
    }

    fn open(&self, stored: Arc<dyn Stored>) -> Result<Box<dyn Records>> {
        Ok(Box::new(Samples { tar: self.clone(), content: Content::open(stored, None)? }))
    }
}

/// One open archive.
#[derive(Debug)]
struct Samples {
    tar: Tar,
    content: Content,
}

/// A sample under way.
struct Sample {
    key: Vec<u8>,
    start: u64,
    found: Option<Found>,
}

/// What a sample has of its text.
enum Found {
    /// As much of it as is held, its length.
    Text(Vec<u8>, u64),
    Problem(Problem),
}

impl Records for Samples {
    fn take(&mut self, from: u64, _: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let path = self.content.path().to_owned();
        let input = Input { content: &mut self.content, at: from, held: Vec::new(), read: 0, stop: None };
        let input = Rc::new(RefCell::new(input));
        let full = window.bytes.len() + room;
        let mut archive = Archive::new(Shared(input.clone()));
        let mut at = from;
        let mut sample: Option<Sample> = None;
        let entries = archive.entries().map_err(|e| Error::io(&path, "read", e))?;
        let mut broken = None;
        for entry in entries {
            let read = entry.and_then(|mut entry| {
                let name = entry.path_bytes().into_owned();
                let (key, extension) = split(&name);
                // What lies before the member are its headers, and they begin where the one before it ended.
                if sample.as_ref().is_none_or(|sample| sample.key != key) {
                    if let Some(done) = sample.take() {
                        done.append(at, window);
                        if window.is_full() || window.bytes.len() >= full {
                            return Ok(None);
                        }
                    }
                    sample = Some(Sample { key: key.to_vec(), start: at, found: None });
                }
                if entry.header().entry_type().is_file() {
                    let found = self.tar.read(extension, &mut entry)?;
                    if let (Some(found), Some(sample)) = (found, &mut sample) {
                        sample.found = Some(found);
                    }
                }
                Ok(Some(from + entry.raw_file_position() + entry.size().next_multiple_of(BLOCK)))
            });
            match read {
                Ok(Some(next)) => at = next,
                Ok(None) => return Ok(Stop::At(at)),
                Err(e) => {
                    broken = Some(e);
                    break;
                }
            }
        }
        drop(archive);
        let stop = input.borrow_mut().stop.take();
        match (stop, broken) {
            (Some(Ended::Failed(error)), _) => Err(error),
            (Some(Ended::Broken(broken)), _) => {
                let start = sample.map_or(at, |sample| sample.start);
                window.refuse_record(start, start, broken.into());
                Ok(Stop::End)
            }
            (None, Some(error)) => {
                let start = sample.map_or(at, |sample| sample.start);
                let what = format!("the archive is damaged: {error}");
                window.refuse_record(start, start, Problem::new((at - start) as usize, what, Broken::ANEW));
                Ok(Stop::End)
            }
            (None, None) => {
                if let Some(done) = sample {
                    done.append(at, window);
                }
                Ok(Stop::End)
            }
        }
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        if !at.is_multiple_of(BLOCK) {
            return Ok(Some(format!("samples begin at multiples of {BLOCK} bytes")));
        }
        let mut header = Vec::new();
        self.content.read(at, BLOCK as usize, &mut header)?;
        if header.is_empty() && at > 0 {
            let mut before = Vec::new();
            self.content.read(at - 1, 1, &mut before)?;
            return Ok(before.is_empty().then(|| "the archive ends before".to_owned()));
        }
        let is_end = header.iter().all(|&byte| byte == 0);
        Ok((!is_end && !is_header(&header)).then(|| "no header begins there".to_owned()))
    }
}

impl Sample {
    /// Appends the sample's document, if it has one; what follows it begins at `next`.
    fn append(self, next: u64, window: &mut Window) {
        match self.found {
            None => {}
            Some(Found::Text(text, len)) => window.long_record(self.start, next, (&text, len), 1.0),
            Some(Found::Problem(problem)) => window.refuse_record(self.start, next, problem),
        }
    }
}

impl Tar {
    /// The text in a member, if it is wanted.
    fn read(&self, extension: &[u8], entry: &mut Entry<'_, impl Read>) -> io::Result<Option<Found>> {
        let path = match self.wanted(&String::from_utf8_lossy(extension)) {
            Wanted::Nothing => return Ok(None),
            Wanted::Text => None,
            Wanted::Json(path) => Some(path),
        };
        let len = entry.size();
        let held = len.min(self.max as u64 + 1);
        let mut bytes = Vec::new();
        entry.by_ref().take(held).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < held {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a member"));
        }
        let Some(path) = path.filter(|_| len <= self.max as u64) else {
            return Ok(Some(Found::Text(bytes, len)));
        };
        let mut text = String::new();
        let json = Json { text: parts(&path), weight: None };
        Ok(Some(match decode::utf8(&bytes).and_then(|member| decode::json(member, &json, &mut text)) {
            Ok(_) => {
                let len = text.len() as u64;
                Found::Text(text.into_bytes(), len)
            }
            Err(problem) => Found::Problem(Problem { offset: 0, ..problem }),
        }))
    }
}

/// A member's key and its extension: the file's name up to its first dot, and behind it.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    let file = memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1);
    match memchr::memchr(b'.', &name[file..]) {
        Some(dot) => (&name[..file + dot], &name[file + dot + 1..]),
        None => (name, &[]),
    }
}

/// Whether a block is a header: its sum says so.
fn is_header(block: &[u8]) -> bool {
    let Some(header) =
        <&[u8; BLOCK as usize]>::try_from(block).ok().map(|block| tar::Header::from_byte_slice(block))
    else {
        return false;
    };
    let is_sum = |index: usize| (148..156).contains(&index);
    let sum: u32 =
        block.iter().enumerate().map(|(index, &byte)| if is_sum(index) { 32 } else { u32::from(byte) }).sum();
    header.cksum().is_ok_and(|said| said == sum)
}

/// The archive's bytes from a place on.
struct Input<'a> {
    content: &'a mut Content,
    at: u64,
    held: Vec<u8>,
    read: usize,
    stop: Option<Ended>,
}

/// What ended the bytes, other than the archive's end.
enum Ended {
    Broken(Broken),
    Failed(Error),
}

/// The archive reads it, and what became of it is asked afterwards.
struct Shared<'a>(Rc<RefCell<Input<'a>>>);

impl Read for Shared<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let input = &mut *self.0.borrow_mut();
        if input.read == input.held.len() {
            input.held.clear();
            input.read = 0;
            match input.content.read(input.at, READ_BYTES, &mut input.held) {
                Ok(After::Broken(broken)) if input.held.is_empty() => {
                    input.stop = Some(Ended::Broken(broken));
                    return Err(io::Error::other("the file is damaged"));
                }
                Ok(_) => input.at += input.held.len() as u64,
                Err(error) => {
                    input.stop = Some(Ended::Failed(error));
                    return Err(io::Error::other("the file cannot be read"));
                }
            }
        }
        let n = into.len().min(input.held.len() - input.read);
        into[..n].copy_from_slice(&input.held[input.read..input.read + n]);
        input.read += n;
        Ok(n)
    }
}
