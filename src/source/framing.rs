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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The documents of a whole file, split by the standard library's `lines`: where each begins, and its text.
    fn reference(shape: Shape, file: &str) -> Vec<(Boundary, String)> {
        let mut documents = Vec::new();
        let mut paragraph: Option<(Boundary, usize)> = None;
        let mut boundary = Boundary::default();
        for line in file.split_inclusive('\n') {
            let text = line.strip_suffix("\r\n").or(line.strip_suffix('\n')).unwrap_or(line);
            let end = boundary.byte as usize + text.len();
            match shape {
                Shape::Line if !text.is_empty() => documents.push((boundary, text.to_owned())),
                Shape::Paragraph if text.trim_ascii().is_empty() => documents
                    .extend(paragraph.take().map(|(at, end)| (at, file[at.byte as usize..end].to_owned()))),
                Shape::Paragraph => paragraph = Some((paragraph.map_or(boundary, |(at, _)| at), end)),
                _ => {}
            }
            boundary = Boundary { byte: boundary.byte + line.len() as u64, line: boundary.line + 1 };
        }
        documents.extend(paragraph.map(|(at, end)| (at, file[at.byte as usize..end].to_owned())));
        if shape == Shape::File && !file.is_empty() {
            documents.push((Boundary::default(), file.to_owned()));
        }
        documents
    }

    fn framed(shape: Shape, file: &str, cuts: &[usize]) -> Vec<Frame> {
        let mut framer = Framer::new(shape, Boundary::default());
        let mut frames = Vec::new();
        let mut cuts = cuts.iter().cycle();
        let mut rest = file.as_bytes();
        while !rest.is_empty() {
            let (mut slab, after) = rest.split_at(rest.len().min(*cuts.next().expect("one cut or more")));
            while let Some((taken, frame)) = framer.push(slab) {
                frames.push(frame);
                slab = &slab[taken..];
            }
            rest = after;
        }
        frames.push(framer.finish());
        frames.retain(|frame| frame.len > 0);
        frames
    }

    fn text() -> impl Strategy<Value = String> {
        let part =
            prop::sample::select(vec!["\n", "\n\n", "\r\n", "\r", " ", "\t\n", "a", "bc", "é", "漢字"]);
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn cut_anywhere_it_finds_what_the_reference_finds(
            file in text(),
            cuts in prop::collection::vec(1_usize..12, 1..6),
            shape in prop::sample::select(vec![Shape::Line, Shape::Paragraph, Shape::File]),
        ) {
            let frames = framed(shape, &file, &cuts);
            let found: Vec<_> = frames
                .iter()
                .map(|frame| {
                    let start = frame.start.byte as usize;
                    (frame.start, file[start..start + frame.len as usize].to_owned())
                })
                .collect();
            prop_assert_eq!(found, reference(shape, &file));
            for frame in frames {
                let rest = &file[frame.next.byte as usize..];
                let lines = file[..frame.next.byte as usize].matches('\n').count() as u64;
                prop_assert!(shape == Shape::File || frame.next.line == lines);
                let again = framed(shape, rest, &cuts).len();
                let after = framed(shape, &file, &cuts).iter().filter(|f| f.start.byte >= frame.next.byte).count();
                prop_assert_eq!(again, after, "what follows {:?}", frame);
            }
        }
    }

    #[test]
    fn a_carriage_return_alone_is_text() {
        assert_eq!(framed(Shape::Line, "a\r", &[1])[0].len, 2);
        assert_eq!(framed(Shape::Line, "a\r\n", &[2])[0].len, 1);
        assert!(framed(Shape::Line, "\r\n\n", &[1]).is_empty());
    }
}
