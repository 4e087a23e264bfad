//! The texts of one read: its bytes as they are, or what was taken out of each document's.

use std::ops::Range;

use super::corpus::Format;
use super::decode::{self, Problem};
use super::window::Piece;

/// The bytes that were read, on their way to be text.
pub(super) enum Texts {
    /// All of them are text, and stay where they are.
    Whole(String),
    /// Each document's text is appended to the others': some are not UTF-8, or they lie in JSON.
    Each { bytes: Vec<u8>, text: String },
}

impl Texts {
    pub(super) fn new(bytes: Vec<u8>, pieces: &[Piece], format: &Format) -> Self {
        let each = |bytes: Vec<u8>| Self::Each { text: String::with_capacity(bytes.len()), bytes };
        if format.json.is_some() {
            return each(bytes);
        }
        match String::from_utf8(bytes) {
            // The end of one split and the start of another may make a character that is in neither.
            Ok(text)
                if pieces.iter().all(|piece| piece.frames.is_empty() || text.is_char_boundary(piece.at)) =>
            {
                Self::Whole(text)
            }
            Ok(text) => each(text.into_bytes()),
            Err(e) => each(e.into_bytes()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(text) => text.as_bytes(),
            Self::Each { bytes, .. } => bytes,
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Whole(text) | Self::Each { text, .. } => text,
        }
    }

    /// The text of the document that lies in `range` of the bytes, and the share of epochs that it is in.
    pub(super) fn take(
        &mut self,
        range: Range<usize>,
        format: &Format,
    ) -> Result<(Range<usize>, f64), Problem> {
        let Self::Each { bytes, text } = self else { return Ok((range, 1.0)) };
        let document = decode::utf8(&bytes[range])?;
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

    /// Takes back what was appended last.
    pub(super) fn give_back(&mut self, range: Range<usize>) {
        if let Self::Each { text, .. } = self {
            text.truncate(range.start);
        }
    }

    pub(super) fn finish(self) -> String {
        match self {
            Self::Whole(mut text) | Self::Each { mut text, .. } => {
                if text.capacity() / 2 > text.len() {
                    text.shrink_to_fit();
                }
                text
            }
        }
    }
}
