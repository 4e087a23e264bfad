//! A file that is one JSON array: each of its elements is a document, as a line of JSON lines is.
//!
//! A place is an offset in the file's text, in bytes. Only reading from the start tells where an element begins: a file
//! is one split, unless the source is small. Only brackets and strings are examined here; an element is then decoded
//! like a line of JSON. Held in memory: one chunk, and one element up to the bound on a document.

use memchr::{memchr_iter, memchr2};

use super::chunks::Chunks;
use super::records::{Records, Stop, take_each};
use crate::error::Result;
use crate::segment::Boundary;
use crate::source::carried::Metadata;
use crate::source::content::Content;
use crate::source::framing::bom_len;
use crate::source::problem::Problem;
use crate::source::window::Window;

/// How far into a file its first character is looked for, in bytes.
const HEAD_BYTES: usize = 512;

/// Whether a text is an array, by its first character.
pub(super) fn is_array(content: &mut Content) -> Result<bool> {
    let mut head = Vec::new();
    content.read(0, HEAD_BYTES, &mut head)?;
    Ok(head[bom_len(&head)..].trim_ascii_start().first() == Some(&b'['))
}

#[derive(Debug)]
pub(super) struct JsonArray {
    chunks: Chunks,
    /// The longest document, in bytes.
    max: usize,
    /// Whether lines are counted from the file's start.
    counts_lines: bool,
    /// The place that reading has reached.
    at: Boundary,
    /// The current element: its held bytes, and its whole length.
    element: Vec<u8>,
    len: u64,
}

enum Next {
    Element(Boundary),
    End,
    /// The text from here on cannot be read.
    Broken(Boundary, Problem),
}

impl JsonArray {
    pub(super) fn new(content: Content, max: usize, counts_lines: bool) -> Self {
        let (element, at) = (Vec::new(), Boundary::default());
        Self { chunks: Chunks::new(content), max, counts_lines, at, element, len: 0 }
    }

    /// Moves to a place, and counts the lines on the way if they are to be known.
    fn go_to(&mut self, byte: u64) -> Result<()> {
        if self.counts_lines && byte < self.at.byte {
            self.at = Boundary::default();
        }
        while self.counts_lines && self.at.byte < byte {
            let left = (byte - self.at.byte) as usize;
            let n = self.chunks.from(self.at.byte)?.len().min(left);
            if n == 0 {
                break;
            }
            self.pass(n)?;
        }
        self.at.byte = byte;
        Ok(())
    }

    /// Passes `n` bytes of the current chunk.
    fn pass(&mut self, n: usize) -> Result<()> {
        if self.counts_lines {
            let passed = &self.chunks.from(self.at.byte)?[..n];
            self.at.line += memchr_iter(b'\n', passed).count() as u64;
        }
        self.at.byte += n as u64;
        Ok(())
    }

    /// Passes white space and returns the character behind it; `None` at the end.
    fn after_blank(&mut self) -> Result<Option<u8>> {
        loop {
            let chunk = self.chunks.from(self.at.byte)?;
            let (len, blank) = (chunk.len(), chunk.len() - chunk.trim_ascii_start().len());
            let next = chunk.get(blank).copied();
            self.pass(blank)?;
            if next.is_some() || len == 0 {
                return Ok(next);
            }
        }
    }

    /// Reads the element at the current place, or after the bracket or the comma there.
    fn next(&mut self) -> Result<Next> {
        let mut separator = b',';
        if self.at.byte == 0 {
            let bom = bom_len(self.chunks.from(0)?);
            self.pass(bom)?;
            separator = b'[';
        }
        let mut next = self.after_blank()?;
        if next == Some(separator) {
            self.pass(1)?;
            next = self.after_blank()?;
        }
        let start = self.at;
        match next {
            None => Ok(Next::Broken(start, self.cut("the array"))),
            Some(b']') => {
                self.pass(1)?;
                // Reported at the bracket: a read that begins there finds it again.
                Ok(match self.after_blank()? {
                    None if self.chunks.broken().is_none() => Next::End,
                    None => Next::Broken(start, self.cut("the text")),
                    Some(_) => {
                        let what = "the array ends here, and text follows".to_owned();
                        let remedy = "keep one array in a file, or write each object on a line of its own";
                        Next::Broken(start, Problem::new(0, what, remedy))
                    }
                })
            }
            Some(_) => Ok(match self.element()? {
                true => Next::Element(start),
                false => Next::Broken(start, self.cut("the element that begins here")),
            }),
        }
    }

    /// The problem of a text that ends before `what` does.
    fn cut(&self, what: &str) -> Problem {
        let damage = || Problem::damage(format!("{what} does not end before the file does"));
        self.chunks.broken().unwrap_or_else(damage)
    }

    /// Reads the element at the current place; false if the text ends before it.
    fn element(&mut self) -> Result<bool> {
        self.element.clear();
        self.len = 0;
        let mut scan = Scan::default();
        loop {
            let chunk = self.chunks.from(self.at.byte)?;
            if chunk.is_empty() {
                return Ok(false);
            }
            let end = scan.end(chunk);
            let n = end.unwrap_or(chunk.len());
            let room = (self.max + 1).saturating_sub(self.element.len());
            self.element.extend_from_slice(&chunk[..n.min(room)]);
            self.len += n as u64;
            self.pass(n)?;
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

/// How far into an element its scan is.
#[derive(Debug, Default)]
struct Scan {
    depth: u64,
    is_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Where the element ends in the bytes that follow, if it does.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.is_string {
                if !self.is_escaped {
                    let Some(n) = memchr2(b'"', b'\\', &bytes[at..]) else { break };
                    at += n;
                    self.is_string = bytes[at] != b'"';
                    self.is_escaped = self.is_string;
                } else {
                    self.is_escaped = false;
                }
                at += 1;
                if !self.is_string && self.depth == 0 {
                    return Some(at);
                }
                continue;
            }
            match byte {
                b',' | b']' | b' ' | b'\n' | b'\r' | b'\t' if self.depth == 0 => return Some(at),
                b'"' => self.is_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

impl Records for JsonArray {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        self.go_to(from)?;
        take_each(from, end, room, window, |_, window| {
            match self.next()? {
                Next::Element(start) if start.byte >= end => return Ok(Stop::At(start.byte)),
                Next::Element(start) => {
                    window.record(start, self.at.byte, &self.element, self.len, Metadata::default())
                }
                Next::End => return Ok(Stop::End),
                Next::Broken(start, problem) => {
                    if start.byte < end {
                        window.refuse_record(start, start.byte, problem);
                    }
                    return Ok(Stop::End);
                }
            }
            Ok(Stop::At(self.at.byte))
        })
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let mut around = Vec::new();
        self.chunks.content.read(at.saturating_sub(1), 2, &mut around)?;
        let (Some(before), Some(after)) = (around.first(), around.get(1)) else {
            return Ok((at > 0).then(|| "the text ends before".to_owned()));
        };
        let is_between = b"[, \n\r\t".contains(before) || b",] \n\r\t".contains(after);
        Ok((at > 0 && !is_between).then(|| "it is within an element".to_owned()))
    }
}
