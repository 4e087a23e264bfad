//! From records to texts: conversations through the model's chat template, prompts with their completions, text with a
//! hole.
//!
//! A record comes in, as JSON or as plain text. Out come a text and its marks: which bytes are learned from, and which
//! are special tokens. Nothing is held but the template.

use crate::config::{SourceConfig, TokenizerConfig};
use crate::document::RenderedMarks;
use crate::error::Result;
use crate::tokenizer::Encoder;

mod again;

pub(crate) use again::Again;

/// Renders the records of one source.
#[derive(Debug)]
pub(crate) struct Renderer {}

/// A record's text and its marks, whose places are bytes of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) marks: RenderedMarks,
}

/// What became of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Text(Rendered),
    /// It gives no document, and this is why, in words: nothing of it is learned from, or it is too long.
    LeftOut(String),
}

/// Why a record cannot be rendered, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenderError {
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Renderer {
    /// The renderer of `source.<index>`; `None` for a source of plain text. Reads the template.
    pub(crate) fn new(
        _index: usize,
        _source: &SourceConfig,
        _tokenizer: &TokenizerConfig,
    ) -> Result<Option<Self>> {
        todo!("renderer")
    }

    /// Sets what conversations are measured with, and how many ids a row has for them. To be called once.
    pub(crate) fn fit(&self, _encoder: &Encoder, _width: usize) {
        todo!("renderer")
    }

    /// The names of the columns that a record of a table has to have as JSON, as far as the table has them.
    pub(crate) fn columns(&self) -> Vec<String> {
        todo!("renderer")
    }

    /// Everything that texts and marks depend on beside the records, such as the template: part of the order.
    pub(crate) fn fingerprint(&self) -> String {
        todo!("renderer")
    }

    /// Renders a record: a JSON object, or for FIM plain text. `key` is the seed, the file and the place, from which FIM
    /// draws.
    pub(crate) fn render(&self, _record: &str, _key: [u64; 3]) -> Result<Outcome, RenderError> {
        todo!("renderer")
    }
}
