//! Tar archives of samples, as in WebDataset: members with the same name up to its first dot are one sample. Values beside
//! the text are named as the text is: a member by its extension, and a field of its JSON with dots after that.
//!
//! A place is the offset of a sample's first header in the archive's text, in bytes. Only reading from a header tells
//! where the next one is: a file is one split, unless the source is small. Other members are skipped. Archives that
//! follow one another in a file are read as one. Held in memory: the wanted members, up to the bound on a document.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;
use tar::{Archive, Entry, EntryType};

use super::chunks::Input;
use super::decode::{Bound, Text, value_in_json};
use super::format::{Format, Opened, Unopened};
use super::records::{Records, Stop};
use super::wanted::Wanted;
use crate::config::SourceConfig;
use crate::error::{Error, Result};
use crate::excerpt::excerpt;
use crate::source::carried::{FieldValue, Metadata};
use crate::source::content::Content;
use crate::source::json_path::{FieldPath, Json, strings};
use crate::source::layout::Layout;
use crate::source::problem::{Problem, Unread};
use crate::source::window::{WINDOW_DOCUMENTS, Window};
use crate::store::Stored;

mod input;
mod record;

use input::{ArchiveInput, SharedInput};
use record::Members;

/// Headers and members begin at multiples of this many bytes.
const BLOCK: u64 = 512;

/// How many members are looked at to learn their extensions, and the most bytes of each.
const LOOKED_AT: usize = 256;
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// The message for an archive that stops before its end mark.
const CUT: &str = "the archive is cut off: it ends without the blocks of zeros that mark its end";

/// Which member of a sample is its text, or that all JSON members are its record.
#[derive(Clone, Debug)]
pub(crate) struct Tar {
    wanted: Wanted,
    /// The values that are read beside a text.
    values: Arc<[String]>,
    bound: Bound,
    zstd_window: u64,
}

impl Tar {
    pub(crate) fn new(config: &SourceConfig, wanted: Wanted, values: Arc<[String]>) -> Self {
        Self { wanted, values, bound: Bound::new(config), zstd_window: config.zstd_window() }
    }

    /// What a member with this extension, in any case, is of the document, if it is part of it.
    fn wants(&self, extension: &str) -> Option<Member> {
        let field = match &self.wanted {
            Wanted::Text(field) => field,
            Wanted::Record(_) => return record::field(extension).map(Member::Field),
        };
        Some(Member::Text(within(field, extension)?.map(Json::text)))
    }

    /// The values in a member with this extension: the number of each, and its path within the member's JSON.
    fn values_in(&self, extension: &str) -> Vec<(usize, Option<FieldPath>)> {
        let is_json = record::field(extension).is_some();
        let values = self.values.iter().enumerate().filter_map(|(nth, name)| {
            let path = within(name, extension)?.map(FieldPath::new);
            Some((nth, path.or_else(|| is_json.then(FieldPath::whole))))
        });
        values.collect()
    }

    /// Reads a member that is wanted, as far as the bound allows, and its length.
    fn read(&self, entry: &mut Entry<'_, impl Read>) -> io::Result<Text> {
        let (len, mut bytes) = (entry.size(), Vec::new());
        let held = self.bound.held(len);
        entry.by_ref().take(held).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < held {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a member"));
        }
        Ok((bytes, len))
    }
}

/// Where a name leads if it begins with a member's extension, in any case: to all of the member, or on from there.
fn within<'a>(name: &'a str, extension: &str) -> Option<Option<&'a str>> {
    let (start, rest) = name.split_at_checked(extension.len())?;
    let path = rest.strip_prefix('.');
    (start.eq_ignore_ascii_case(extension) && (path.is_some() || rest.is_empty())).then_some(path)
}

impl Format for Tar {
    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        self.samples(file.stored()?).map(Opened::records)
    }

    /// The extensions of members that are text, and the paths of the strings in those that are JSON.
    fn fields(&self, file: Unopened<'_>) -> Result<Vec<String>, Unread> {
        let (mut input, mut names) = (self.samples(file.stored()?)?.input, BTreeSet::new());
        let path = input.chunks.content.path().to_owned();
        let input = Rc::new(RefCell::new(ArchiveInput::new(&mut input, 0)));
        let mut archive = Archive::new(SharedInput(input.clone()));
        let mut entries = archive.entries_with_seek().map_err(|e| Error::io(&path, "read", e))?;
        for _ in 0..LOOKED_AT {
            input.borrow_mut().begin_headers();
            let entry = entries.next();
            input.borrow_mut().end_headers();
            let Some(Ok(mut entry)) = entry else { break };
            let (name, _) = named(&mut entry);
            let extension =
                split(&name).map(|(_, extension)| String::from_utf8_lossy(extension).into_owned());
            let is_file = entry.header().entry_type().is_file();
            let Some(extension) = extension.filter(|name| is_file && !name.is_empty()) else { continue };
            let mut text = String::new();
            if entry.take(LOOKED_AT_BYTES).read_to_string(&mut text).is_err() {
                continue;
            }
            if extension.rsplit('.').next().is_some_and(|end| end.eq_ignore_ascii_case("json")) {
                let value: Value = serde_json::from_str(&text).unwrap_or_default();
                strings(&value, &extension, &mut names);
            } else {
                names.insert(extension);
            }
        }
        Ok(names.into_iter().collect())
    }
}

impl Tar {
    fn samples(&self, stored: Arc<dyn Stored>) -> Result<Samples> {
        Ok(Samples { tar: self.clone(), input: Input::new(Content::open(stored, self.zstd_window)?) })
    }
}

#[derive(Debug)]
struct Samples {
    tar: Tar,
    input: Input,
}

struct Sample {
    key: Vec<u8>,
    start: u64,
    /// Its text, and whether that is all of a member and not a field of its JSON.
    found: Option<(bool, MemberText)>,
    record: Members,
    /// The values beside it.
    values: Vec<Option<FieldValue>>,
}

enum Member {
    /// As the text itself, or for the text at a path in its JSON.
    Text(Option<Json>),
    /// As this field of the record.
    Field(String),
}

type MemberText = Result<Text, Problem>;

impl Records for Samples {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let path = self.input.chunks.content.path().to_owned();
        let input = Rc::new(RefCell::new(ArchiveInput::new(&mut self.input, from)));
        let mut archive = Archive::new(SharedInput(input.clone()));
        let mut entries = archive.entries_with_seek().map_err(|e| Error::io(&path, "read", e))?;
        let full = window.bytes.len() + room;
        let mut sample: Option<Sample> = None;
        let (mut members, mut last) = (0, from);
        let (at, broken) = loop {
            // The bytes read from here on are the next member's headers.
            input.borrow_mut().begin_headers();
            let entry = entries.next().transpose();
            let at = input.borrow_mut().end_headers();
            let mut entry = match entry {
                Ok(Some(entry)) => entry,
                Ok(None) => break (at, None),
                Err(e) => break (at, Some(e)),
            };
            last = at;
            let (name, unread) = named(&mut entry);
            let kind = entry.header().entry_type();
            let Some((key, extension)) = split(&name) else { continue };
            let extension = String::from_utf8_lossy(extension);
            let (wanted, values) = (self.tar.wants(&extension), self.tar.values_in(&extension));
            let is_wanted = wanted.is_some() || !values.is_empty();
            let is_link = kind.is_hard_link() || kind.is_symlink();
            // Links begin samples too, so that it does not matter which members are wanted.
            if !(kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() || is_link) {
                continue;
            }
            members += 1;
            if sample.as_ref().is_none_or(|sample| sample.key != key) {
                if let Some(done) = sample.take() {
                    done.append(at, self.tar.bound, window);
                    if window.is_full() || window.bytes.len() >= full || members > WINDOW_DOCUMENTS {
                        return Ok(Stop::At(at));
                    }
                }
                if at >= end {
                    return Ok(Stop::At(at));
                }
                let (found, record) = (None, Members::default());
                let values = vec![None; self.tar.values.len()];
                sample = Some(Sample { key: key.to_vec(), start: at, found, record, values });
            }
            let Some(sample) = sample.as_mut().filter(|_| is_wanted) else { continue };
            let member = unread.map_or_else(|| self.tar.read(&mut entry).map(Ok), |problem| Ok(Err(problem)));
            let member = match member {
                Ok(member) => member,
                Err(e) => break (at, Some(e)),
            };
            for (nth, path) in values {
                sample.values[nth] = value(path, &member, self.tar.bound);
            }
            match wanted {
                Some(Member::Text(json)) => {
                    let text = member.and_then(|(bytes, len)| self.tar.bound.text(bytes, len, json.as_ref()));
                    sample.add(json.is_none(), text);
                }
                Some(Member::Field(field)) => sample.record.add(field, member, self.tar.bound),
                None => {}
            }
        };
        let mut input = input.borrow_mut();
        let next = if broken.is_none() && !input.is_at_end { input.next_archive() } else { None };
        // No header can follow a member that is cut off, so the member itself is at fault.
        let (is_at_end, is_broken) =
            (input.is_at_end, matches!(input.file.stopped, Some(Unread::Damaged(_))));
        let is_cut = is_at_end || is_broken;
        let at = if is_cut && !input.reaches(at) { last } else { at };
        // The text of a sample that is cut off may be there.
        let found = sample.take_if(|sample| is_cut && sample.found.is_some());
        let start = sample.as_ref().map_or(if is_cut { at } else { from }, |sample| sample.start);
        let damage = |at: u64, what: String| Problem::new((at - start) as usize, what, Problem::ANEW);
        let problem = match (input.file.stopped.take(), broken) {
            (Some(Unread::Failed(error)), _) => return Err(error),
            (Some(Unread::Damaged(problem)), _) => Some(problem),
            (None, _) if is_at_end => Some(damage(at, CUT.to_owned())),
            (None, Some(error)) => {
                // The lines after the first are bytes of the archive.
                let told = error.to_string();
                let told = told.lines().next().unwrap_or_default().escape_debug();
                Some(damage(at, format!("the archive is damaged: {told}")))
            }
            (None, None) => None,
        };
        if let Some(found) = found {
            found.append(at, self.tar.bound, window);
        }
        match (problem, sample) {
            (Some(_), None) if start >= end => return Ok(Stop::At(start)),
            (Some(problem), _) => window.refuse_record(start, start, problem),
            (None, Some(done)) => done.append(at, self.tar.bound, window),
            (None, None) => {}
        }
        Ok(next.map_or(Stop::End, Stop::At))
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        if at == 0 {
            return Ok(None);
        }
        if !at.is_multiple_of(BLOCK) {
            return Ok(Some(format!("samples begin at multiples of {BLOCK} bytes")));
        }
        let mut around = Vec::new();
        self.input.chunks.content.read(at - BLOCK, 2 * BLOCK as usize, &mut around)?;
        if around.is_empty() {
            return Ok(Some("the archive ends before".to_owned()));
        }
        // An archive that is cut off has less than a header there.
        let header = around.get(BLOCK as usize..).filter(|header| header.len() == BLOCK as usize);
        let is_none = header.is_some_and(|header| !is_zero(header) && !is_header(header));
        Ok(is_none.then(|| "no header begins there".to_owned()))
    }
}

impl Sample {
    /// Adds the sample's text: a whole member, or a field of one. A whole member comes first; a second one is a
    /// problem.
    fn add(&mut self, is_whole: bool, found: MemberText) {
        let found = match self.found.take() {
            Some((was_whole, first)) if was_whole != is_whole => {
                (true, if was_whole { first } else { found })
            }
            Some(_) => {
                let what = "the sample has its text twice";
                (is_whole, Err(Problem::new(0, what, "keep only one of them")))
            }
            None => (is_whole, found),
        };
        self.found = Some(found);
    }

    /// Appends the sample's document, if it has one: a sample without the members has none. The next one begins at
    /// `next`.
    fn append(self, next: u64, bound: Bound, window: &mut Window) {
        let text = self.found.map_or_else(|| self.record.record(bound), |(_, found)| found);
        match text {
            Ok((text, len)) => {
                let metadata = Metadata { values: self.values, ..Metadata::default() };
                window.record(self.start, next, &text, len, metadata);
            }
            Err(problem) => window.refuse_record(self.start, next, problem),
        }
    }
}

/// A value of a member: the one at a path in its JSON, or all of it as text. `None` if its JSON has no such field.
fn value(path: Option<FieldPath>, member: &MemberText, bound: Bound) -> Option<FieldValue> {
    match (member, path) {
        (Err(_), _) => Some(FieldValue::Other("a link or a sparse member".into())),
        (Ok((_, len)), _) if bound.is_exceeded(*len) => Some(FieldValue::TOO_LONG),
        (Ok((bytes, _)), Some(path)) => value_in_json(bytes, &path),
        (Ok((bytes, _)), None) => {
            Some(str::from_utf8(bytes).map_or(FieldValue::NOT_UTF8, FieldValue::untyped))
        }
    }
}

/// A member's key and extension: the parts of the file's name before and after its first dot. A file that lacks one of
/// them belongs to no sample.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let file = memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1);
    let dot = memchr::memchr(b'.', &name[file..]).filter(|dot| *dot > 0)?;
    Some((&name[..file + dot], &name[file + dot + 1..]))
}

/// A member's name, and the reason if the archive does not hold its text.
fn named(entry: &mut Entry<'_, impl Read>) -> (Vec<u8>, Option<Problem>) {
    let (mut name, mut is_sparse) = (entry.path_bytes().into_owned(), false);
    for record in entry.pax_extensions().ok().flatten().into_iter().flatten().flatten() {
        is_sparse |= record.key_bytes().starts_with(b"GNU.sparse.");
        if record.key_bytes() == b"GNU.sparse.name" {
            name = record.value_bytes().to_vec();
        }
    }
    let (what, remedy) = match entry.header().entry_type() {
        EntryType::Link => ("is a link to another", "make the archive anew with --hard-dereference"),
        EntryType::Symlink => ("is a link to another", "make the archive anew with --dereference"),
        _ if is_sparse => {
            ("is sparse in the pax format, which is not read", "make the archive anew without --sparse")
        }
        _ => return (name, None),
    };
    let problem = format!("the member {:?} {what}", excerpt(&String::from_utf8_lossy(&name)));
    (name, Some(Problem::new(0, problem, remedy)))
}

/// Whether a block is one of those that mark an archive's end.
fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

/// Whether a block is a header, by its checksum.
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
