//! Custom formats: records that the program's own code finds in the text of a file.
//!
//! A place is the offset of a record in the file's text, in bytes. Only reading from the start tells where one begins:
//! a file is one split, unless the source is small. Held in memory: one chunk, and one record up to the bound on a
//! document.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::chunks::Input;
use super::format::{Format, Opened, Unopened};
use super::records::{Records, Stop, take_each};
use crate::config::SourceConfig;
use crate::custom_format::{CustomFormat, RecordFile, RecordFormat, RecordReader, RecordText};
use crate::error::{Error, Result};
use crate::source::carried::Metadata;
use crate::source::content::Content;
use crate::source::layout::Layout;
use crate::source::problem::{Problem, Unread};
use crate::source::window::Window;

/// A format of the program, and what the config says about its documents.
#[derive(Debug)]
pub(super) struct Custom {
    code: Arc<dyn RecordFormat>,
    /// The longest document, in bytes.
    max: usize,
    zstd_window: u64,
}

impl Custom {
    /// The format that `source.<index>` of the config names.
    pub(super) fn new(index: usize, config: &SourceConfig) -> Result<Self> {
        let format = config.format.as_ref();
        let code = format.and_then(CustomFormat::code).ok_or_else(|| {
            let name = format.map_or("", CustomFormat::name);
            let problem =
                format!("this program has no code for the custom format {name:?}; use the one that has it");
            Error::config(format!("source.{index}.format"), problem)
        })?;
        let (max, zstd_window) = (config.max_document_bytes.as_usize(), config.zstd_window());
        Ok(Self { code: code.clone(), max, zstd_window })
    }
}

impl Format for Custom {
    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        let mut input = Input::new(Content::open(file.stored()?, self.zstd_window)?);
        let opened = self.code.open(&mut input);
        let text = RecordText::new(self.max + 1);
        let found = input.checked(opened);
        Opened::found(found.map(|reader| CustomRecords { reader, first: input.at, input, text }))
    }
}

#[derive(Debug)]
struct CustomRecords {
    reader: Box<dyn RecordReader>,
    input: Input,
    text: RecordText,
    /// Where the first record begins.
    first: u64,
}

impl CustomRecords {
    /// Appends the document of the record at `at`.
    fn append(&mut self, at: u64, window: &mut Window) -> Result<Stop> {
        self.input.at = at;
        self.text.clear();
        let read = self.reader.read(&mut self.input, &mut self.text);
        match Unread::split(self.input.checked(read))? {
            Ok(true) => {}
            Ok(false) => return Ok(Stop::End),
            Err(problem) => {
                window.refuse_record(at, at, problem);
                return Ok(Stop::End);
            }
        }
        let next = self.input.at;
        if next <= at {
            let path = self.input.path().display();
            let problem = format!(
                "{path}: the code of its custom format stays at byte {at}; it has to leave the file behind the record"
            );
            return Err(Error::Corpus { problem });
        }
        match self.text.held() {
            Ok((text, len)) => window.record(at, next, text, len, Metadata::default()),
            Err(what) => window.refuse_record(at, next, Problem::new(0, what, "mend the record")),
        }
        Ok(Stop::At(next))
    }
}

impl Records for CustomRecords {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        take_each(from.max(self.first), end, room, window, |at, window| self.append(at, window))
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        if at <= self.first {
            return Ok((at > 0 && at < self.first).then(|| "the first record begins behind it".to_owned()));
        }
        let mut before = Vec::new();
        self.input.chunks.content.read(at - 1, 1, &mut before)?;
        Ok(before.is_empty().then(|| "the text ends before".to_owned()))
    }
}

impl Input {
    /// The result of the program's code.
    ///
    /// # Errors
    /// Those of reading the text, whatever the code made of them.
    fn checked<T>(&mut self, found: io::Result<T>) -> Result<T, Unread> {
        if let Some(stopped) = self.stopped.take() {
            return Err(stopped);
        }
        found.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Problem::damage("the file is cut off here").into(),
            _ => Problem::new(0, error.to_string(), "mend the file, or get it again").into(),
        })
    }
}

impl RecordFile for Input {
    fn path(&self) -> &Path {
        self.chunks.content.path()
    }
}
