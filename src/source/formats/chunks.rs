//! The text of a file, a chunk at a time, for formats that read it from front to back.

use std::io::{self, BufRead, ErrorKind, Read, Seek, SeekFrom};

use crate::error::Result;
use crate::source::content::{Content, ReadEnd};
use crate::source::problem::{Problem, Unread};

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 64 << 10;

/// An open file, and the chunk of its text that is held.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) content: Content,
    held: Vec<u8>,
    held_from: u64,
    after: ReadEnd,
}

impl Chunks {
    pub(super) fn new(content: Content) -> Self {
        Self { content, held: Vec::new(), held_from: 0, after: ReadEnd::More }
    }

    /// The held bytes from `at` on: none where the text ends or breaks off.
    pub(super) fn from(&mut self, at: u64) -> Result<&[u8]> {
        let held_to = self.held_from + self.held.len() as u64;
        if !(self.held_from..held_to).contains(&at) && (at != held_to || self.after == ReadEnd::More) {
            self.held.clear();
            self.after = self.content.read(at, READ_BYTES, &mut self.held)?;
            self.held_from = at;
        }
        Ok(&self.held[(at - self.held_from) as usize..])
    }

    /// Why nothing follows the held bytes, if the text does not end there.
    pub(super) fn broken(&self) -> Option<Problem> {
        if let ReadEnd::Broken(broken) = &self.after { Some(broken.clone()) } else { None }
    }
}

/// The text from any place on, for code that reads it by itself.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) chunks: Chunks,
    pub(super) at: u64,
    /// Why the text could not be read: no error of the system can say it all.
    pub(super) stopped: Option<Unread>,
}

impl Input {
    pub(super) fn new(content: Content) -> Self {
        Self { chunks: Chunks::new(content), at: 0, stopped: None }
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let stopped = match self.chunks.from(self.at).map(<[u8]>::is_empty) {
            Ok(true) => self.chunks.broken().map(Unread::Damaged),
            Ok(false) => None,
            Err(error) => Some(Unread::Failed(error)),
        };
        if stopped.is_some() {
            self.stopped = stopped;
            return Err(io::Error::other("the file cannot be read"));
        }
        self.chunks.from(self.at).map_err(io::Error::other)
    }

    fn consume(&mut self, n: usize) {
        self.at += n as u64;
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut held = self.fill_buf()?;
        let n = held.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.chunks.content.len().and_then(|len| len.checked_add_signed(by)),
        };
        self.at = place.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "there is no such place"))?;
        Ok(self.at)
    }
}
