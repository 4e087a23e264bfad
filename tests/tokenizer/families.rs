//! The families that most open models' tokenizers are of: which engine runs each, and that its ids are the reference's.

use std::sync::LazyLock;

use millstream::config::SpecialTokens;
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::{Engine, HfTokenizer};
use proptest::prelude::*;

use super::engines::CORPUS;
use super::gate::hostile;
use crate::support::families::{Added, families};

pub(super) struct Pair {
    pub(super) name: &'static str,
    pub(super) added: Added,
    pub(super) tokenizer: HfTokenizer,
    pub(super) reference: tokenizers_reference::Tokenizer,
}

pub(super) static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    // With a token of a space and the first byte of a symbol, as all large vocabularies have.
    let symbols = " ⺴ ⺴ ⻤ ⻤ – –".repeat(50);
    let sample: Vec<&str> = CORPUS.iter().copied().chain([symbols.as_str()]).collect();
    let modes = [SpecialTokens::Text, SpecialTokens::Parse];
    let all = families().into_iter().map(|family| (family.name, family.added, family.json(&sample, 700)));
    all.flat_map(|(name, added, json)| {
        modes.map(|special| {
            let tokenizer = HfTokenizer::from_json(name, json.as_str(), special).expect("it loads");
            let mut reference = tokenizers_reference::Tokenizer::from_bytes(&json).expect("it loads");
            reference.set_encode_special_tokens(special == SpecialTokens::Text);
            Pair { name, added, tokenizer, reference }
        })
    })
    .collect()
});

#[test]
fn the_engine_is_the_one_that_the_table_names() {
    for (family, pairs) in families().iter().zip(PAIRS.chunks(2)) {
        for Pair { name, tokenizer, .. } in pairs {
            let engine = tokenizer.engine();
            let is_right = match engine {
                Engine::Fast => family.is_fast,
                Engine::Reference { .. } => !family.is_fast,
                // It knows patterns of its own.
                _ => true,
            };
            assert!(is_right, "{name}: {engine}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn the_ids_and_the_text_are_the_references(text in hostile()) {
        for Pair { name, added, tokenizer, reference } in &*PAIRS {
            let text = added.iter().fold(text.clone(), |woven, (token, _)| woven + token + &text);
            let mut ids = Vec::new();
            tokenizer.encode(&text, &mut ids).expect("ids");
            let right = reference.encode_fast(text.as_str(), false).expect("ids");
            prop_assert_eq!(&ids, right.get_ids(), "{} {:?}", name, text);
            prop_assert_eq!(tokenizer.decode(&ids), reference.decode(&ids, false).expect("text"), "{}", name);
        }
    }
}
