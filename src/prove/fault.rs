//! The faults that a proof finds, each with its name.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

use crate::error::{Error, Unit};

/// What is wrong with what is learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// Nothing is learned from, although turns are there to learn from.
    NothingLearned,
    /// The part of the document that was kept has nothing to learn from.
    NothingLeft,
    /// No message has a role that is learned from.
    UnknownRoles,
    /// Everything is learned from, as if there was no mask.
    EverythingLearned,
    /// The mask belongs to ids beside those that it stands at.
    Shifted,
    /// Only the last turn is learned from.
    OnlyLastTurn,
    /// A turn is not learned from.
    TurnMasked,
    /// A part of a turn is not learned from.
    PartMasked,
    /// The token that ends a turn is not learned from.
    EndMasked,
    /// The token that ends another message is learned from.
    OtherEndLearned,
    /// The template's prompt for a turn is learned from.
    PromptLearned,
    /// A part of that prompt, such as the name of the role, is learned from.
    HeaderLearned,
    /// Other text of the template is learned from.
    TemplateLearned,
    /// The content of a message is learned from that is not to be.
    MessageLearned,
    /// The result of a tool is learned from.
    ToolResultLearned,
    /// Padding is learned from.
    PaddingLearned,
    /// The loss counts an id that the mask leaves out, or leaves out one that it has.
    IgnoredByLoss,
    /// A turn ends without a token that stops generation.
    NoEnd,
    /// The end of a turn is no token of the tokenizer.
    EndIsNoToken,
    /// A special token stands for text of somebody's content.
    SpecialInContent,
    /// The token that begins a text stands there twice.
    DoubleBos,
    /// Arguments that a table has as null are rendered.
    NullArguments,
    /// The messages were rendered one by one, each as a conversation of its own.
    RenderedApart,
    /// The ids stand for another text than the template renders.
    OtherText,
    /// A row begins inside the document, without what is before.
    BeginsInside,
}

/// A fault, as the pure check finds it: places are bytes of the rendered text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) kind: FaultKind,
    pub(super) bytes: Range<usize>,
    /// The number of the message, from 0, if it is one's.
    pub(super) message: Option<usize>,
    pub(super) problem: String,
}

/// The first fault of a proof, with the document that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fault {
    /// What is wrong, by name.
    pub kind: FaultKind,
    /// The document's file.
    pub path: PathBuf,
    /// The line that the document begins on, from 1; 0 if it is unknown or the file has no lines.
    pub line: u64,
    /// Where the document begins in its file: a byte, or a row of a table.
    pub byte: u64,
    /// The unit of `byte`.
    #[serde(skip)]
    pub unit: Unit,
    /// The number of the message at fault, from 1, if it is one's.
    pub message: Option<usize>,
    /// The bytes of the rendered text at fault.
    pub bytes: Range<usize>,
    /// What is wrong, in words, and with the text.
    pub problem: String,
}

impl FaultKind {
    /// What to do about it.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::UnknownRoles => "say what they are with chat.roles, or set chat.learn to those that count",
            Self::NothingLeft => "set chat.truncate to \"turns\" or \"drop\", or raise pipeline.seq_len",
            Self::NoEnd => "name what ends a turn with chat.turn, or use a template that writes it",
            Self::EndIsNoToken => "use the tokenizer of the model that the template is for",
            Self::BeginsInside => "this is a defect of packing: please report it with the config",
            Self::SpecialInContent => "leave tokenizer.special_tokens at \"text\"",
            Self::PromptLearned | Self::HeaderLearned | Self::TemplateLearned | Self::PartMasked => {
                "look at chat.turn, or at the generation blocks of the template"
            }
            _ => "look at it with --mask, and at chat.turn, chat.learn and the template",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        match self.message {
            Some(message) => {
                write!(f, "message {message}, bytes {start}..{end} of the text: {}", self.problem)
            }
            None => write!(f, "bytes {start}..{end} of the text: {}", self.problem),
        }
    }
}

impl From<Fault> for Error {
    /// An [`Error::Document`].
    fn from(fault: Fault) -> Self {
        let (problem, remedy) = (fault.to_string(), fault.kind.remedy().to_owned());
        let Fault { path, line, unit, byte, .. } = fault;
        Self::Document { path, line, unit, byte, problem, remedy }
    }
}
