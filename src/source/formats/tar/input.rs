//! The bytes of an archive, as the tar library reads them.

use std::cell::RefCell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use super::{BLOCK, is_header, is_zero};
use crate::source::formats::chunks::Input;

/// The most bytes that may describe one member: its headers, and its long name.
const MOST_HEADERS: u64 = 1 << 20;

/// The archive's bytes from a place on.
pub(super) struct ArchiveInput<'a> {
    pub(super) file: &'a mut Input,
    /// The place where the archive, as the library sees it, begins.
    from: u64,
    /// The place of the first byte that was read since the headers began, and how many more bytes they may have.
    first: Option<u64>,
    left: u64,
    /// Whether the last read found nothing more.
    pub(super) is_at_end: bool,
}

impl<'a> ArchiveInput<'a> {
    pub(super) fn new(file: &'a mut Input, from: u64) -> Self {
        file.at = from;
        Self { file, from, first: None, left: 0, is_at_end: false }
    }

    pub(super) fn begin_headers(&mut self) {
        (self.first, self.left) = (None, MOST_HEADERS);
    }

    pub(super) fn end_headers(&mut self) -> u64 {
        self.left = u64::MAX;
        self.first.unwrap_or(self.file.at)
    }

    /// Passes over the zeros that end an archive, and returns where another one begins behind them.
    pub(super) fn next_archive(&mut self) -> Option<u64> {
        let mut block = [0; BLOCK as usize];
        loop {
            let at = self.file.at;
            let mut read = 0;
            while read < block.len() {
                match self.read(&mut block[read..]) {
                    Ok(n) if n > 0 => read += n,
                    // The data after the end mark may have any length.
                    _ => {
                        self.is_at_end = false;
                        return None;
                    }
                }
            }
            if !is_zero(&block) {
                return is_header(&block).then_some(at);
            }
        }
    }

    /// Whether some byte of the block before `at` is there.
    pub(super) fn reaches(&mut self, at: u64) -> bool {
        self.file.at = at.saturating_sub(BLOCK);
        self.read(&mut [0]).is_ok_and(|n| n > 0)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.first.get_or_insert(self.file.at);
        if self.left == 0 {
            return Err(io::Error::other(format!(
                "what describes a member is longer than {MOST_HEADERS} bytes"
            )));
        }
        let most = usize::try_from(self.left).map_or(into.len(), |left| left.min(into.len()));
        let n = self.file.read(&mut into[..most])?;
        self.left -= n as u64;
        self.is_at_end = n == 0;
        Ok(n)
    }
}

/// Shared with the archive, which reads it: its state is examined afterwards.
pub(super) struct SharedInput<'a>(pub(super) Rc<RefCell<ArchiveInput<'a>>>);

impl Read for SharedInput<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(into)
    }
}

impl Seek for SharedInput<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut input = self.0.borrow_mut();
        let place = match to {
            SeekFrom::Start(offset) => input.from.checked_add(offset),
            SeekFrom::Current(offset) => input.file.at.checked_add_signed(offset),
            SeekFrom::End(_) => None,
        };
        let place = place.ok_or_else(|| io::Error::other("there is no such place"))?;
        input.file.at = place;
        Ok(place - input.from)
    }
}
