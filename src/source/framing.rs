//! Where documents begin and end: bytes of one file in, frames out.
//!
//! A [`Framer`] sees a file's bytes once, in order, in pieces of any size. It holds no bytes, only the start of its
//! document and its length so far. So its frames never depend on how a file was read, and a document of any length
//! costs the same few words of memory.

use memchr::memchr;

use crate::segment::Boundary;

/// The unit that makes a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Line,
    Paragraph,
    File,
}

/// One document as it stands in its file. A frame of no bytes is not a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) start: Boundary,
    pub(crate) len: u64,
    /// Where reading goes on after the document.
    pub(crate) next: Boundary,
}

/// The length of the byte order mark at the beginning of a file; 0 without one.
pub(crate) fn bom_len(file: &[u8]) -> usize {
    if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

/// The scan for one document's end, and then for the next one's.
#[derive(Debug)]
pub(crate) struct Framer {
    shape: Shape,
    start: Boundary,
    /// Bytes and line ends since `start`.
    seen: u64,
    lines: u64,
    /// The document's length up to the end of its last whole line.
    len: u64,
    /// Whether the current line is only white space so far, and whether it ends in a carriage return.
    blank: bool,
    carriage: bool,
}

impl Framer {
    /// A scan that begins at `start`, where a document may begin.
    pub(crate) fn new(shape: Shape, start: Boundary) -> Self {
        Self { shape, start, seen: 0, lines: 0, len: 0, blank: true, carriage: false }
    }

    /// A scan that begins at `start`, within a line that is `blank` so far or not. Its first frame is only the rest of
    /// a document.
    pub(crate) fn within_line(shape: Shape, start: Boundary, blank: bool) -> Self {
        Self { blank, ..Self::new(shape, start) }
    }

    /// Where the current document begins, or the next one.
    pub(crate) fn start(&self) -> Boundary {
        self.start
    }

    /// Scans the bytes that follow. Returns the first document that ends in them, and how many bytes that took.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<(usize, Frame)> {
        match self.shape {
            Shape::Line => self.push_line(bytes),
            Shape::Paragraph => self.push_paragraph(bytes),
            Shape::File => {
                self.seen += bytes.len() as u64;
                None
            }
        }
    }

    /// Ends the current document at the end of the file.
    pub(crate) fn finish(&mut self) -> Frame {
        if self.shape != Shape::Paragraph || !self.blank {
            self.len = self.seen;
        }
        self.cut()
    }

    fn push_line(&mut self, bytes: &[u8]) -> Option<(usize, Frame)> {
        let Some(end) = memchr(b'\n', bytes) else {
            self.go_on(bytes);
            return None;
        };
        self.end_line(&bytes[..end]);
        Some((end + 1, self.cut()))
    }

    fn push_paragraph(&mut self, bytes: &[u8]) -> Option<(usize, Frame)> {
        let mut done = 0;
        while let Some(end) = memchr(b'\n', &bytes[done..]) {
            let line = &bytes[done..done + end];
            done += end + 1;
            if self.blank && is_blank(line) {
                self.seen += line.len() as u64 + 1;
                self.lines += 1;
                return Some((done, self.cut()));
            }
            self.end_line(line);
        }
        let rest = &bytes[done..];
        self.blank &= is_blank(rest);
        self.go_on(rest);
        None
    }

    /// Scans bytes that contain no line end.
    fn go_on(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        self.carriage = bytes.last().map_or(self.carriage, |&last| last == b'\r');
    }

    /// Scans the rest of a line that belongs to the document, and its end.
    fn end_line(&mut self, rest: &[u8]) {
        let carriage = rest.last().map_or(self.carriage, |&last| last == b'\r');
        self.seen += rest.len() as u64;
        self.len = self.seen - u64::from(carriage);
        self.seen += 1;
        self.lines += 1;
        self.blank = true;
        self.carriage = false;
    }

    /// Returns the current document. The next one begins after what was scanned.
    fn cut(&mut self) -> Frame {
        let next = Boundary { byte: self.start.byte + self.seen, line: self.start.line + self.lines };
        let frame = Frame { start: self.start, len: self.len, next };
        *self = Self::new(self.shape, next);
        frame
    }
}

fn is_blank(line: &[u8]) -> bool {
    // From the end: lines begin with white space more often than they end with it.
    line.iter().rev().all(u8::is_ascii_whitespace)
}
