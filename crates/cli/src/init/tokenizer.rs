//! The tokenizer of a starter config.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::InitArgs;
use super::part::Part;
use millstream::config::{ByteCount, LearnConfig, SourceKind, TokenizerConfig};
use millstream::render::ChatTemplate;
use millstream::tokenizer::END_OF_TEXT;
use millstream::{Error, Result, bounded};

const NAME: &str = "tokenizer.json";

/// The longest tokenizer that is read, in bytes.
const MOST: u64 = 1 << 30;

/// The usual tokens for the end of a document.
const ENDS: [&str; 8] =
    [END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<EOS>", "[EOS]", "[SEP]"];

/// The tokenizer that the command names, or one that lies beside the corpus, or one to be learned from so many bytes of
/// text, or bytes.
pub(super) fn choose(args: &InitArgs, parts: &[Part], text: u64) -> Result<TokenizerConfig> {
    // The ids of shards belong to the tokenizer that made them, which lies beside them if it has a file.
    let shards = || parts.iter().filter(|part| part.config.kind == SourceKind::Shards);
    let has_shards = shards().next().is_some();
    let beside = |path: &PathBuf| match path.is_dir() {
        true => path.join(NAME),
        false => path.with_file_name(NAME),
    };
    let here = (!has_shards).then(|| NAME.into());
    let places = args.paths.iter().chain(shards().map(|part| &part.path)).map(beside).chain(here);
    if let Some(path) = args.tokenizer.clone().or_else(|| { places }.find(|path| path.is_file())) {
        return Ok(TokenizerConfig { eos: usual_end(&path)?, ..TokenizerConfig::file(path) });
    }
    let learned = learned(text).filter(|_| !has_shards);
    let own = learned.map(|train| TokenizerConfig { train: Some(train), ..TokenizerConfig::default() });
    Ok(own.unwrap_or_else(TokenizerConfig::bytes).with_eos(END_OF_TEXT))
}

/// The token of a tokenizer's file for the end of a document: the one that its model names, or a usual one.
fn usual_end(path: &Path) -> Result<Option<String>> {
    let text = bounded::read_any(&millstream::local(path)?, MOST);
    let text = text.map_err(|e| Error::io(path, "read the tokenizer", e))?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    // A file of ranks is not JSON, and does not name its special tokens. Its lines are a token in base64 and its rank.
    let tokenizer: Value = serde_json::from_slice(text).unwrap_or_default();
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default().trim().split_once(' ');
    let has_ranks = line.is_some_and(|(token, rank)| token.len() % 4 == 0 && rank.parse::<u32>().is_ok());
    if !tokenizer["model"].is_object() && !has_ranks {
        let problem =
            format!("{} is neither a tokenizer.json nor a file of ranks; name one that is", path.display());
        return Err(Error::config("--tokenizer", problem));
    }
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let names: Vec<&str> = added.filter_map(|token| token["content"].as_str()).collect();
    let own = of_model(path)?.filter(|end| names.contains(&&**end));
    Ok(own.or_else(|| ENDS.into_iter().find(|end| names.contains(end)).map(str::to_owned)))
}

/// The end of text of the model whose chat template lies beside a tokenizer, if it names one.
fn of_model(tokenizer: &Path) -> Result<Option<String>> {
    let template = ChatTemplate::beside(&TokenizerConfig::file(tokenizer), None)?;
    let tokens = template.as_ref().map(ChatTemplate::tokens).unwrap_or_default();
    Ok(tokens.iter().find(|(name, _)| name == "eos_token").map(|(_, token)| token.clone()))
}

/// How to learn a tokenizer from a corpus of so many bytes; `None` if bytes are better.
fn learned(text: u64) -> Option<LearnConfig> {
    let (vocab_size, mib) = match text {
        text if text < 64 << 10 => return None,
        text if text < 1 << 20 => (512, 1),
        text if text < 16 << 20 => (2048, 16),
        text if text < 128 << 20 => (4096, 16),
        text if text < 1 << 30 => (16000, 64),
        _ => (32000, 256),
    };
    Some(LearnConfig { vocab_size, sample: ByteCount::mib(mib) })
}
