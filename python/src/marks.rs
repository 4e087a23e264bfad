//! Texts of Python functions, with what of them is learned from. Python counts characters, and the library bytes.

use std::ops::Range;

use millstream::Document;
use millstream::document::Mask;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// Ranges of characters.
pub(crate) type Ranges = Vec<(usize, usize)>;

/// A text: a string, `(text, learned)` or `(text, learned, special)`.
#[derive(Debug)]
pub(crate) struct Text {
    text: String,
    /// Which bytes are learned from, and which are special tokens; `None` of a string.
    marks: Option<[Vec<Range<usize>>; 2]>,
}

impl Text {
    /// The text that a function returned.
    pub(crate) fn extract(returned: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(tuple) = returned.cast::<PyTuple>() else {
            if !returned.is_instance_of::<PyString>() {
                let problem = format!("a text is a str or a tuple, not {}", kind(returned));
                return Err(PyTypeError::new_err(problem));
            }
            return Ok(Self { text: returned.extract()?, marks: None });
        };
        let (text, learned, special): (String, Ranges, Ranges) = match tuple.len() {
            2 => tuple.extract().map(|(text, learned)| (text, learned, Ranges::new())),
            _ => tuple.extract(),
        }?;
        let marks = [in_bytes(&text, &learned, "learned")?, in_bytes(&text, &special, "special")?];
        Ok(Self { text, marks: Some(marks) })
    }

    /// A document with this text.
    pub(crate) fn document(self) -> Document {
        let document = Document::new(self.text);
        match self.marks {
            None => document,
            Some(marks) => marked(&document, marks),
        }
    }

    /// The document with this text instead of its own, or what is wrong with that.
    pub(crate) fn replace(self, document: Document) -> Result<Document, &'static str> {
        let is_same = self.text == document.text();
        match self.marks {
            None if is_same => Ok(document),
            None if document.mask().is_empty() && document.special_tokens().is_empty() => {
                Ok(document.with_text(self.text))
            }
            None => Err("changed the text of a document of which only a part is learned from; use \
                         map(..., marks=True), and return the text with what is learned from"),
            Some(marks) => Ok(marked(&document.with_text(self.text), marks)),
        }
    }
}

/// The name of a value's type.
fn kind(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string())
}

fn marked(document: &Document, [learned, special]: [Vec<Range<usize>>; 2]) -> Document {
    document.with_mask(Mask::learning(learned, document.text().len())).with_special_tokens(special)
}

/// What of a document's text is learned from, and its special tokens.
pub(crate) fn ranges_of(document: &Document) -> [Ranges; 2] {
    let text = document.text();
    let learned: Vec<_> = document.mask().learned_in(0..text.len()).collect();
    [in_characters(text, &learned), in_characters(text, &document.special_tokens())]
}

/// Where each character begins, and the end.
fn places(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

fn in_bytes(text: &str, ranges: &[(usize, usize)], name: &str) -> PyResult<Vec<Range<usize>>> {
    let places = places(text);
    let mut last = 0;
    for &(from, to) in ranges {
        if from < last || to < from || to >= places.len() {
            return Err(PyValueError::new_err(format!(
                "{name}: ({from}, {to}) is not a range of characters behind {last} and up to {}: ranges are sorted and \
                 do not overlap",
                places.len() - 1
            )));
        }
        last = to;
    }
    Ok(ranges.iter().map(|&(from, to)| places[from]..places[to]).collect())
}

/// Sorted ranges of bytes. A character counts if any of its bytes does.
fn in_characters(text: &str, ranges: &[Range<usize>]) -> Ranges {
    let places = places(text);
    let mut last = 0;
    let character = |range: &Range<usize>| {
        let from = places.partition_point(|place| *place <= range.start).saturating_sub(1).max(last);
        last = places.partition_point(|place| *place < range.end).max(from);
        (from, last)
    };
    ranges.iter().map(character).collect()
}
