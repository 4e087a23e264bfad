//! The texts of one read: its bytes as they are, or the text extracted from each document or rendered from it.

use std::ops::Range;

use crate::document::{Marks, RenderedMarks};
use crate::render::Rendered;
use crate::source::carried::FieldValue;
use crate::source::formats::SourceFormat;
use crate::source::formats::decode;
use crate::source::problem::Problem;
use crate::source::window::WindowPiece;

/// The bytes of a read, while they are turned into text.
pub(crate) enum Texts {
    /// All of it is text, and stays where it is.
    Whole(String),
    /// Each document's text is appended to `text`: some documents are not UTF-8, they are JSON, or they are rendered.
    Each { read: Read, text: String, marks: Marks },
}

/// The bytes of one read.
pub(crate) enum Read {
    Text(String),
    /// Some of them are not UTF-8.
    Bytes(Vec<u8>),
}

impl Read {
    fn new(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|e| Self::Bytes(e.into_bytes()), Self::Text)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The text in `range`.
    fn document(&self, range: Range<usize>) -> Result<&str, Problem> {
        let text = match self {
            Self::Text(text) => text.get(range.clone()),
            Self::Bytes(_) => None,
        };
        text.map_or_else(|| decode::utf8(&self.bytes()[range]), Ok)
    }
}

impl Texts {
    pub(crate) fn new(bytes: Vec<u8>, pieces: &[WindowPiece], format: &SourceFormat) -> Self {
        match Read::new(bytes) {
            // The end of one split and the start of the next may form a character that is in neither.
            Read::Text(text)
                if format.json.is_none()
                    && format.rendering.is_none()
                    && pieces
                        .iter()
                        .all(|piece| piece.frames.is_empty() || text.is_char_boundary(piece.at)) =>
            {
                Self::Whole(text)
            }
            read => {
                let marks = match format.rendering {
                    Some(_) => Marks::Rendered(Box::<RenderedMarks>::default()),
                    None => Marks::None,
                };
                Self::Each { text: String::with_capacity(read.bytes().len()), read, marks }
            }
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(text) => text.as_bytes(),
            Self::Each { read, .. } => read.bytes(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Whole(text) | Self::Each { text, .. } => text,
        }
    }

    /// The values beside the text in `range` of the bytes, if they are JSON that has them.
    pub(crate) fn values(
        &self,
        range: Range<usize>,
        format: &SourceFormat,
    ) -> Result<Vec<Option<FieldValue>>, Problem> {
        match self {
            Self::Each { read, .. } if !format.values.is_empty() => {
                decode::values(read.document(range)?, &format.values)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The text of the document in `range` of the bytes, or its record, and the share of epochs that include it.
    #[inline]
    pub(crate) fn take(
        &mut self,
        range: Range<usize>,
        format: &SourceFormat,
    ) -> Result<(Range<usize>, f64), Problem> {
        let Self::Each { read, text, .. } = self else { return Ok((range, 1.0)) };
        let document = read.document(range)?;
        let start = text.len();
        let mut share = 1.0;
        match &format.json {
            None => text.push_str(document),
            Some(_) if document.trim_ascii().is_empty() => {}
            Some(json) => {
                share = decode::json(document, json, text).inspect_err(|_| text.truncate(start))?;
            }
        }
        Ok((start..text.len(), share))
    }

    /// Takes back the text that was appended last.
    pub(crate) fn give_back(&mut self, range: Range<usize>) {
        if let Self::Each { text, .. } = self {
            text.truncate(range.start);
        }
    }

    /// Appends a rendered text. Returns its place.
    pub(crate) fn append(&mut self, rendered: &Rendered) -> Range<usize> {
        let (Self::Whole(text) | Self::Each { text, .. }) = self;
        let start = text.len();
        text.push_str(&rendered.text);
        let place = start..text.len();
        if let Self::Each { marks: Marks::Rendered(marks), .. } = self {
            marks.append(&rendered.marks, rendered.text.len(), start);
        }
        place
    }

    pub(crate) fn finish(self) -> (String, Marks) {
        let (mut text, marks) = match self {
            Self::Whole(text) => (text, Marks::None),
            Self::Each { text, marks, .. } => (text, marks),
        };
        // The budget is charged for about the held bytes. A tighter bound would copy every other slab.
        if text.capacity() > text.len() + text.len() / 2 {
            text.shrink_to_fit();
        }
        (text, marks)
    }
}
