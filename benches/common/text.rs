//! Text that every machine can make, and tokenizers that are learned from it.

use std::path::{Path, PathBuf};

use millstream::config::{LearnConfig, SpecialTokens};
use millstream::tokenizer::END_OF_TEXT;
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::learn::learn;

/// The library's own sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src");

/// About `bytes` bytes of Rust: the library's own sources, over and over, each time with other numbers in them, so that
/// no cache of words sees only the same text.
pub(crate) fn text(bytes: usize) -> String {
    let files = rust_files(Path::new(SOURCES));
    let sources: String = files.iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let mut text = String::with_capacity(bytes + sources.len());
    let mut round = 0;
    while text.len() < bytes {
        round += 1;
        text.push_str(&sources.replace("self", &format!("self_{}", round * 7919 % 9973)));
    }
    text
}

/// Every Rust file that cargo has unpacked on this machine, or the library's own if there is none.
pub(crate) fn unpacked() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let files = home.map(|home| rust_files(&home.join("registry/src"))).unwrap_or_default();
    if files.is_empty() { rust_files(Path::new(SOURCES)) } else { files }
}

/// The Rust files below a directory, in order.
pub(crate) fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let pattern = format!("{}/**/*.rs", glob::Pattern::escape(&directory.to_string_lossy()));
    let found = glob::glob(&pattern).expect("a pattern").filter_map(Result::ok);
    let mut files: Vec<PathBuf> = found.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Documents of about `size` bytes, cut at line ends, without the last one.
pub(crate) fn documents(text: &str, size: usize) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let last = documents.last_mut().expect("one at least");
        last.push_str(line);
        if last.len() >= size { documents.push(String::new()) } else { last.push('\n') }
    }
    documents.retain(|document| !document.trim().is_empty());
    documents
}

/// A tokenizer of so many tokens, learned from the text.
pub(crate) fn learned(text: &str, vocab_size: usize) -> HfTokenizer {
    let config = LearnConfig { vocab_size, ..LearnConfig::default() };
    loaded(&learn([text], &config, &[END_OF_TEXT]).expect("a tokenizer"), text)
}

/// A tokenizer, on the engine that gives the reference's ids for the sample.
pub(crate) fn loaded(json: &str, sample: &str) -> HfTokenizer {
    let mut tokenizer = HfTokenizer::from_json("bench", json, SpecialTokens::Text).expect("it loads");
    tokenizer.trial([sample]);
    tokenizer
}
