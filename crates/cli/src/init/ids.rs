//! The tokenizer of a starter config.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::part::Part;
use super::text::Ids;
use millstream::config::SourceKind;
use millstream::{Error, Result, bounded};

/// The usual tokens for the end of a document.
const ENDS: [&str; 8] =
    ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<EOS>", "[EOS]", "[SEP]"];

/// The tokenizer that was given, or one that lies beside the corpus, or one to be learned.
pub(super) fn ids(given: Option<&Path>, paths: &[PathBuf], parts: &[Part]) -> Result<Ids> {
    if let Some(path) = given {
        return file(path);
    }
    let beside = |path: &PathBuf| match path.is_dir() {
        true => path.join("tokenizer.json"),
        false => path.with_file_name("tokenizer.json"),
    };
    let mut candidates: Vec<PathBuf> = paths.iter().map(beside).collect();
    // The ids of shards belong to the tokenizer that made them, which lies beside them if it has a file.
    let shards: Vec<&Part> = parts.iter().filter(|part| part.config.kind == SourceKind::Shards).collect();
    match shards.is_empty() {
        true => candidates.push("tokenizer.json".into()),
        false => candidates.extend(shards.iter().map(|part| part.path.join("tokenizer.json"))),
    }
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => file(path),
        None if shards.is_empty() => Ok(Ids::OwnText),
        None => Ok(Ids::Bytes),
    }
}

fn file(path: &Path) -> Result<Ids> {
    let mut text = Vec::new();
    let here = millstream::local(path)?;
    let read = bounded::open(&here).and_then(|mut file| file.read_to_end(&mut text));
    read.map_err(|e| Error::io(path, "read the tokenizer", e))?;
    // A file of ranks is not JSON, and does not name its special tokens.
    let tokenizer: Value = serde_json::from_slice(&text).unwrap_or_default();
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let names: Vec<&str> = added.filter_map(|token| token["content"].as_str()).collect();
    let eos = ENDS.iter().find(|end| names.contains(end));
    Ok(Ids::File { path: path.to_owned(), eos: eos.map(|&eos| eos.to_owned()) })
}
