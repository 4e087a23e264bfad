//! The families that most open models' tokenizers are of: which engine runs each, and that its ids are the reference's.

use std::sync::LazyLock;

use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::Engine;
use proptest::prelude::*;

use super::engines::CORPUS;
use super::gate::hostile;
use crate::support::families::{Added, families};
use crate::{MODES, Pair};

pub(super) static PAIRS: LazyLock<Vec<(Added, Pair)>> = LazyLock::new(|| {
    // With a token of a space and the first byte of a symbol, as all large vocabularies have.
    let symbols = " ⺴ ⺴ ⻤ ⻤ – –".repeat(50);
    let sample: Vec<&str> = CORPUS.iter().copied().chain([symbols.as_str()]).collect();
    let all = families().into_iter().map(|family| (family.name, family.added, family.json(&sample, 700)));
    all.flat_map(|(name, added, json)| MODES.map(|special| (added, Pair::new(name, &json, special))))
        .collect()
});

#[test]
fn the_engine_is_the_one_that_the_table_names() {
    for (family, pairs) in families().iter().zip(PAIRS.chunks(2)) {
        for (_, pair) in pairs {
            let engine = pair.engine();
            let is_right = match engine {
                Engine::Fast => family.is_fast,
                Engine::Reference { .. } => !family.is_fast,
                // It knows patterns of its own.
                _ => true,
            };
            assert!(is_right, "{}: {engine}", family.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn the_ids_and_the_text_are_the_references(text in hostile()) {
        for (added, pair) in &*PAIRS {
            let text = added.iter().fold(text.clone(), |woven, (token, _)| woven + token + &text);
            let (ids, name) = (pair.ids(&text), pair.name());
            prop_assert_eq!(&ids, &pair.right(&text), "{} {:?}", name, text);
            let right = pair.reference.decode(&ids, false).expect("text");
            prop_assert_eq!(pair.decode(&ids), right, "{}", name);
        }
    }
}
