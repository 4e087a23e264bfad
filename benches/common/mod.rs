//! A corpus that every machine can make: this crate's own sources, over and over, each time with other
//! numbers in them, so that no cache of words sees only the same text.

use std::path::{Path, PathBuf};

use millstream::config::{LearnConfig, SpecialTokens};
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::learn::{END_OF_TEXT, learn};

/// About `bytes` bytes of Rust.
pub(crate) fn text(bytes: usize) -> String {
    let mut files = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut files);
    files.sort();
    let sources: String = files.iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let mut text = String::with_capacity(bytes + sources.len());
    let mut round = 0;
    while text.len() < bytes {
        round += 1;
        text.push_str(&sources.replace("self", &format!("self_{}", round * 7919 % 9973)));
    }
    text
}

fn sources(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the crate's sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { sources(&path, files) } else { files.push(path) }
    }
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

/// A tokenizer of 4,096 tokens, learned from the text.
pub(crate) fn tokenizer(text: &str) -> HfTokenizer {
    let config = LearnConfig { vocab_size: 4096, ..LearnConfig::default() };
    let json = learn([text], &config, &[END_OF_TEXT]).expect("a tokenizer");
    let mut tokenizer = HfTokenizer::from_json("bench", json, SpecialTokens::Text).expect("it loads");
    tokenizer.trial([text]);
    tokenizer
}
