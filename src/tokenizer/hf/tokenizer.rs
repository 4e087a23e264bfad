//! The tokenizer that users have.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use super::engine::Engine;
use super::file::File;
use super::loaded::Loaded;
use super::marked::MarkedEncoder;
use crate::atomic::write_atomically;
use crate::config::{SpecialTokens, TokenizerConfig};
use crate::error::{Error, Result};
use crate::tokenizer::{EncodeError, MarkedText, Run, Tokenizer, Wanted};

/// A tokenizer that a `tokenizer.json` describes.
///
/// [`encode`](Tokenizer::encode) adds nothing around the text (the file's post-processor does not run),
/// neither truncates nor pads, whatever the file says, and starts no threads. It fails on a text that the
/// engine refuses, every time.
///
/// With [`SpecialTokens::Text`], special tokens within a text are plain text. Added tokens that the file does
/// not mark as special are part of its vocabulary and are always recognised. A Unigram model has its special tokens among
/// its pieces, and finds them in plain text.
///
/// Conversations that a chat template rendered are stricter: of the added tokens only words and white space are
/// recognised in what somebody wrote. `<think>` or `[INST]` is text there, whether the file marks it as special or not,
/// because the template writes such tokens itself. That holds for Unigram models, too.
pub struct HfTokenizer {
    pub(super) loaded: Loaded,
    /// What rendered texts are encoded with, once there are any.
    marked: OnceLock<Result<MarkedEncoder, String>>,
}

impl HfTokenizer {
    /// How much of the sample [`trial`](Self::trial) reads, in bytes: about a third of a second of the
    /// reference's time.
    pub const TRIAL: usize = Loaded::TRIAL;

    /// Loads the file that a config names, a `tokenizer.json` or tiktoken's ranks, and compares the engines on the
    /// probes.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) if `path` is not set, or if what is set for ranks does not fit the file;
    /// [`Error::Io`](crate::Error::Io) if the file cannot be read; [`Error::Tokenizer`](crate::Error::Tokenizer) as
    /// [`from_json`](Self::from_json) and [`ranks::to_json`](crate::tokenizer::ranks::to_json).
    pub fn open(config: &TokenizerConfig) -> Result<Self> {
        Ok(Self::new(Loaded::gated(File::open(config)?)?))
    }

    /// Loads a `tokenizer.json` and compares the engines on the probes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the file cannot be read, [`Error::Tokenizer`](crate::Error::Tokenizer) as
    /// [`from_json`](Self::from_json).
    pub fn from_file(path: impl AsRef<Path>, special: SpecialTokens) -> Result<Self> {
        Ok(Self::new(Loaded::gated(File::at(path.as_ref(), special)?)?))
    }

    /// Loads the text of a `tokenizer.json`. Errors and warnings call it `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`](crate::Error::Tokenizer) if the reference cannot read it, or if its ids would be random
    /// (`dropout`).
    pub fn from_json(
        name: impl Into<String>,
        json: impl Into<String>,
        special: SpecialTokens,
    ) -> Result<Self> {
        Ok(Self::new(Loaded::gated(File::of_json(name, json, special))?))
    }

    /// [`open`](Self::open) and [`trial`](Self::trial) in one. The gate's verdict is cached on disk: the next time,
    /// only the engine that runs is loaded.
    pub(crate) fn open_tried<S: AsRef<str>>(config: &TokenizerConfig, sample: &[S]) -> Result<Self> {
        Ok(Self::new(Loaded::tried(File::open(config)?, sample)?))
    }

    /// [`from_json`](Self::from_json) and [`trial`](Self::trial) in one, as [`open_tried`](Self::open_tried).
    pub(crate) fn from_json_tried<S: AsRef<str>>(
        name: &str,
        json: String,
        special: SpecialTokens,
        sample: &[S],
    ) -> Result<Self> {
        Ok(Self::new(Loaded::tried(File::of_json(name, json, special), sample)?))
    }

    /// Loads the engine that runs now, and not with the first text.
    pub(crate) fn ready(self) -> Result<Self> {
        self.loaded.running().map_err(|problem| Error::tokenizer(self.name(), problem))?;
        Ok(self)
    }

    fn new(loaded: Loaded) -> Self {
        Self { loaded, marked: OnceLock::new() }
    }

    /// Compares the engines on the first [`TRIAL`](Self::TRIAL) bytes of `sample`, and returns the one that
    /// runs from now on.
    ///
    /// Call it before the first document is encoded. To get the same ids every time, pass the same documents
    /// every time: the corpus's first ones, not those that a cursor points at. It lets the reference go, so
    /// only the first call compares anything.
    pub fn trial<S: AsRef<str>>(&mut self, sample: impl IntoIterator<Item = S>) -> Engine {
        self.marked = OnceLock::new();
        self.loaded.trial(sample)
    }

    /// Which engine runs, and why.
    pub fn engine(&self) -> Engine {
        self.loaded.engine()
    }

    /// The file's text, as it was loaded.
    pub fn json(&self) -> &str {
        &self.loaded.file.json
    }

    /// Writes the file's text to `path`, as a whole or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write_atomically(path.as_ref(), self.json().as_bytes())
    }

    /// The file's path, or the name that [`from_json`](Self::from_json) was given.
    pub fn name(&self) -> &str {
        &self.loaded.file.name
    }
}

impl fmt::Debug for HfTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HfTokenizer")
            .field("name", &self.name())
            .field("vocab_size", &self.vocab_size())
            .field("special", &self.loaded.file.special)
            .field("engine", &self.engine())
            .finish_non_exhaustive()
    }
}

impl Tokenizer for HfTokenizer {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        self.loaded.encode(text, ids)
    }

    fn encode_spans(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        spans: &mut Vec<Range<usize>>,
    ) -> Result<(), EncodeError> {
        self.loaded.encode_spans(text, ids, Wanted { until: usize::MAX, spans })
    }

    fn encode_marked(
        &self,
        text: &MarkedText<'_>,
        ids: &mut Vec<u32>,
        runs: &mut Vec<Run>,
    ) -> Result<(), EncodeError> {
        let encoder = self.marked.get_or_init(|| MarkedEncoder::new(&self.loaded));
        encoder.as_ref().map_err(|problem| problem.as_str())?.encode(&self.loaded, text, ids, runs)
    }

    /// Special tokens are spelled out. Bytes that are not UTF-8 become U+FFFD, for example if a character's
    /// last token is missing.
    fn decode(&self, ids: &[u32]) -> String {
        self.loaded.decode(ids).unwrap_or_else(|e| {
            tracing::warn!(error = %e, "the tokenizer's decoder fails; its text is left out");
            String::new()
        })
    }

    fn vocab_size(&self) -> usize {
        self.loaded.vocabulary.size
    }

    fn id(&self, token: &str) -> Option<u32> {
        self.loaded.id(token)
    }

    /// The BLAKE3 digest of the file's text, and how special tokens are read.
    ///
    /// The engine is not part of it. The file stands for the reference's ids, and the fast engine runs only
    /// where it gives the same ids. So a cursor stays valid when a later version admits a file that this one
    /// does not. If the engines differ unnoticed, the same file and corpus still choose the same engine.
    fn fingerprint(&self) -> String {
        let mode = match self.loaded.file.special {
            SpecialTokens::Text => "text",
            SpecialTokens::Parse => "parse",
        };
        format!("{}/{mode}", self.loaded.digest())
    }

    /// Searches the added tokens, or the whole vocabulary if the file has added none.
    fn nearest(&self, token: &str) -> Option<String> {
        self.loaded.nearest(token)
    }

    fn tokenizer_json(&self) -> Option<&str> {
        Some(self.json())
    }
}
