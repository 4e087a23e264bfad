//! A tokenizer's file: a `tokenizer.json`, or ranks that become one.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::caught::caught;
use super::reference::Reference;
use crate::bounded;
use crate::config::{SpecialTokens, TokenizerConfig};
use crate::error::{Error, Result};
use crate::store::local;
use crate::tokenizer::ranks;

/// The largest file, in bytes. The largest that are published have some 40 MB.
const MOST: u64 = 256 << 20;

#[derive(Clone)]
pub(super) struct File {
    /// The name in errors and warnings.
    pub(super) name: String,
    /// The text of the `tokenizer.json`.
    pub(super) json: Arc<str>,
    pub(super) special: SpecialTokens,
    /// Whether it was a file of ranks.
    pub(super) is_ranks: bool,
}

impl File {
    /// Reads the file that a config names.
    pub(super) fn open(config: &TokenizerConfig) -> Result<Self> {
        let Some(path) = &config.path else {
            return Err(Error::config("tokenizer.path", "it must name a tokenizer.json, or a file of ranks"));
        };
        let (name, text) = (path.display().to_string(), read(path)?);
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
            if let Some(key) = config.of_ranks() {
                let problem =
                    format!("it is for ranks, and {name} is a tokenizer.json, which has its own; remove it");
                return Err(Error::config(key, problem));
            }
            return Ok(Self::of_json(name, text, config.special_tokens));
        }
        let Some(pattern) = &config.pattern else {
            let problem = format!(
                "{name} is not a tokenizer.json; if it holds ranks, set how text is cut into words: \"cl100k_base\" or \
                 another published name, or a regex"
            );
            return Err(Error::config("tokenizer.pattern", problem));
        };
        let json = ranks::to_json(&name, &text, pattern, &config.special)?;
        Ok(Self { is_ranks: true, ..Self::of_json(name, json, config.special_tokens) })
    }

    /// Reads a `tokenizer.json`.
    pub(super) fn at(path: &Path, special: SpecialTokens) -> Result<Self> {
        Ok(Self::of_json(path.display().to_string(), read(path)?, special))
    }

    pub(super) fn of_json(name: impl Into<String>, json: impl Into<String>, special: SpecialTokens) -> Self {
        Self { name: name.into(), json: Arc::from(json.into()), special, is_ranks: false }
    }

    /// Loads the reference.
    pub(super) fn reference(&self) -> std::result::Result<Reference, String> {
        caught(|| Reference::load(&self.json, self.special))
    }
}

/// Reads the text of a file. Devices and pipes are refused: some never end, and others wait for ever.
fn read(path: &Path) -> Result<String> {
    let path = &*local(path)?;
    let failed = |e| Error::io(path, "read", e);
    let refused = |problem: String| Error::tokenizer(path.display().to_string(), problem);
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        let problem =
            "it is not a regular file; name a tokenizer.json or a file of ranks with tokenizer.path";
        return Err(refused(problem.to_owned()));
    }
    let mut bytes = Vec::new();
    let file = bounded::open(path).map_err(failed)?;
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST {
        return Err(refused(format!("it has more than {MOST} bytes, too many for a tokenizer")));
    }
    String::from_utf8(bytes).map_err(|e| {
        let byte = e.utf8_error().valid_up_to();
        refused(format!(
            "it is not UTF-8 at byte {byte}, and so neither a tokenizer.json nor ranks; a SentencePiece model has to be \
             converted first"
        ))
    })
}
