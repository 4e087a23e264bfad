//! What the benchmarks share: a corpus, and a tokenizer that is learned from it.

use millstream::config::{LearnConfig, SpecialTokens};
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::learn::{END_OF_TEXT, learn};

mod text;

pub(crate) use text::text;

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
