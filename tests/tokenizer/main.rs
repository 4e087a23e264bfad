//! Tokenizers: the engines and the gate between them, files of other tools, learning, and what a tokenizer may do wrong.

#[path = "../support/mod.rs"]
mod support;

mod engines;
mod families;
mod files;
mod gate;
mod learning;
mod policy;
mod spans;
#[cfg(target_os = "linux")]
mod threads;

use std::ops::Deref;

use millstream::config::SpecialTokens;
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::HfTokenizer;
use tokenizers_reference::Tokenizer as Reference;

const MODES: [SpecialTokens; 2] = [SpecialTokens::Text, SpecialTokens::Parse];

/// A tokenizer, and the library that tells the right ids.
struct Pair {
    special: SpecialTokens,
    tokenizer: HfTokenizer,
    reference: Reference,
}

impl Pair {
    /// Of the text of a `tokenizer.json`.
    fn new(name: &str, json: &str, special: SpecialTokens) -> Self {
        let tokenizer = HfTokenizer::from_json(name, json, special).expect("it loads");
        Self { special, tokenizer, reference: reference(json, special) }
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        ids(self, text)
    }

    fn right(&self, text: &str) -> Vec<u32> {
        self.reference.encode_fast(text, false).expect("ids").get_ids().to_vec()
    }
}

impl Deref for Pair {
    type Target = HfTokenizer;

    fn deref(&self) -> &HfTokenizer {
        &self.tokenizer
    }
}

fn reference(json: &str, special: SpecialTokens) -> Reference {
    let mut reference = Reference::from_bytes(json).expect("it loads");
    reference.set_encode_special_tokens(special == SpecialTokens::Text);
    reference
}

fn ids(tokenizer: &HfTokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &mut ids).expect("ids");
    ids
}
