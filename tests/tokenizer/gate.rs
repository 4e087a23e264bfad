//! Files that say what a `tokenizer.json` can say (`tests/data/make_gate.py`), among them those that the fast engine
//! gets wrong, and hostile text: whichever engine the gate lets run, the ids are the reference's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use millstream::config::SpecialTokens;
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::{Check, Engine, HfTokenizer};
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::{MODES, Pair, ids};

/// Each file, and whether the fast engine runs it.
const FILES: &[(&str, bool)] = &[
    ("added", true),
    ("cl100k", true),
    ("digits-2", false),
    ("digits-4", false),
    ("digits-any", false),
    ("dropout-0", true),
    ("gpt2", true),
    ("inverted", true),
    ("lowercase", true),
    ("nfc", true),
    ("nfkc", true),
    ("o200k", true),
    ("prefix-space", false),
    ("qwen", true),
    ("removed", false),
    ("single-word", false),
    ("stripping", true),
    ("tekken", true),
    ("unknown", false),
    ("whole-words", true),
    ("words", false),
];

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let all = FILES.iter().map(|(name, _)| (*name, std::fs::read_to_string(file(name)).expect("the file")));
    all.flat_map(|(name, json)| MODES.map(|special| Pair::new(name, &json, special))).collect()
});

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/tokenizers/gate/{name}.json"))
}

/// Text that aims at where tokenizers cut, and at what they count on.
pub(super) fn hostile() -> impl Strategy<Value = String> {
    let of = |pattern: &'static str| pattern.prop_map(|text: String| text).boxed();
    let runs = "[a-zA-Z0-9 \t\n\r.'_é語😀\u{301}\u{e000}]";
    let pieces = [
        of("[0-9٠-٩०-९０-９]{1,12}"),
        of("[½²³①Ⅻ𝟘-𝟡]{1,4}"),
        of("[ \t]{0,4}(\r\n|\r|\n|\u{85}|\u{2028}|\u{b}|\u{c}){1,3}[ \t]{0,4}"),
        of("[ \u{a0}\u{1680}\u{2000}-\u{200b}\u{202f}\u{205f}\u{3000}\u{feff}]{1,6}"),
        of("[a-zA-Z]{1,6}['’](s|S|t|T|re|RE|ve|m|ll|LL|d|D|ſ|x|)"),
        of("[A-Z]{1,3}[a-z]{1,4}[A-Z]{0,3}"),
        of("[а-яЀ-Я]{1,6}|[א-ת\u{5b0}-\u{5bc}]{1,6}|[\u{627}-\u{64a}\u{64b}-\u{652}]{1,6}"),
        of("[\u{900}-\u{97f}]{1,5}|[\u{e00}-\u{e5b}]{1,5}|[\u{1000}-\u{109f}]{1,5}"),
        of("[\u{3041}-\u{30ff}\u{4e00}-\u{4eff}々〇]{1,6}|[\u{ac00}-\u{acff}]{1,3}|[\u{1100}-\u{11ff}]{1,6}"),
        of("[a-z]?[\u{300}-\u{36f}\u{1ab0}-\u{1aff}\u{20d0}-\u{20ff}]{1,5}[a-z]?"),
        of("[😀👍🏽👩\u{200d}\u{fe0f}\u{20e3}🇩🇪\u{e0067}\u{e007f}❤]{1,6}"),
        of("[\u{0}-\u{1f}\u{7f}-\u{9f}\u{ad}\u{200c}-\u{200f}\u{202a}-\u{202e}\u{2066}-\u{2069}]{1,4}"),
        of("[\u{e000}-\u{e010}\u{f8ff}\u{f0000}-\u{f0010}\u{10fff0}-\u{10ffff}]{1,3}"),
        // Nobody assigned these, and nobody will.
        of("[\u{fdd0}-\u{fdef}\u{fffe}\u{ffff}\u{1fffe}\u{2ffff}\u{8ffff}\u{fffd}]{1,3}"),
        of("[ßẞİıǅﬁÅΩﬀᾳŉ]{1,4}"),
        // Letters, marks and symbols of Unicode 16 and 17, and reserved ones.
        of(
            "[\u{10d40}-\u{10d8f}\u{11db0}-\u{11de9}\u{16ea0}-\u{16ed3}\u{1acf}-\u{1aee}\u{323b0}-\u{323ff}\u{1fae9}a]{1,4}",
        ),
        // What later versions of Unicode compose, order and strip.
        of(
            "[\u{113b8}-\u{113c9}\u{11382}-\u{11391}\u{16d63}-\u{16d69}\u{105d2}\u{307}\u{8d3}\u{1abf}-\u{1ac0}\u{32ff}e\u{301}]{1,4}",
        ),
        of("[!-/:-@\\[-`{-~—…«»、。]{1,8}"),
        of("(</?|<\\||\\|>|\\[/?)[a-z_]{0,8}(>|\\|>|\\])?"),
        // What bytes that are no UTF-8 look like when somebody has read them as something else.
        of("(Ã¤|â‚¬|ï»¿|\u{fffd}{1,3}|Â\u{a0}|&#x?[0-9a-f]{1,5};|%[0-9A-F]{2}|\\\\u[0-9a-f]{4})"),
        of("[Ġ▁Ċĉ]{1,3}[a-z]{0,3}|##[a-z]{1,3}|<0x[0-9A-F]{2}>"),
        (runs, 1..400_usize).prop_map(|(one, times)| one.repeat(times)).boxed(),
        prop::sample::select(vec![
            "<|endoftext|>", "<mill>", " <mill> ", "x<mill>y", "<|endoftext", "endoftext|>",
        ])
        .prop_map(str::to_owned)
        .boxed(),
        of("\\PC{1,6}"),
    ];
    let text = prop::collection::vec(Union::new(pieces), 0..24).prop_map(|pieces| pieces.concat());
    let mark = prop_oneof![9 => Just(""), 1 => Just("\u{feff}")];
    (mark, text).prop_map(|(mark, text)| format!("{mark}{text}"))
}

#[test]
fn the_gate_knows_what_the_fast_engine_gets_wrong() {
    let admitted: BTreeMap<_, _> = FILES.iter().copied().collect();
    let listed = std::fs::read_dir(file("cl100k").parent().expect("a directory")).expect("the files");
    let names = listed.map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_owned());
    let untested =
        names.filter(|name| !admitted.contains_key(name.to_str().expect("ASCII")) && name != "dropout");
    assert_eq!(untested.count(), 0, "a file is not in the list");
    let is_fast = |pair: &&Pair| matches!(pair.engine(), Engine::Fast | Engine::Fastokens);
    let fast: Vec<_> = PAIRS.iter().filter(is_fast).map(|pair| (pair.name(), pair.special)).collect();
    let expected = FILES.iter().filter(|(_, is_fast)| *is_fast);
    let expected: Vec<_> = expected.flat_map(|(name, _)| MODES.map(|special| (*name, special))).collect();
    assert_eq!(fast, expected);
    let random = HfTokenizer::from_file(file("dropout"), SpecialTokens::Text).expect_err("it is random");
    assert!(random.to_string().contains("dropout"), "{random}");
}

/// With the feature, and none of its own threads: those whose texts hold no added tokens, and that its scanner knows.
#[test]
#[cfg(feature = "fastokens")]
fn fastokens_runs_what_it_scans() {
    let runs = |pair: &&Pair| pair.engine() == Engine::Fastokens;
    let all: Vec<_> = PAIRS.iter().filter(runs).map(|pair| (pair.name(), pair.special)).collect();
    let scanned =
        ["cl100k", "dropout-0", "inverted", "lowercase", "nfc", "o200k", "qwen", "tekken", "whole-words"];
    assert_eq!(all, scanned.map(|name| (name, SpecialTokens::Text)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn ids_are_the_references(text in hostile()) {
        for pair in &*PAIRS {
            let (ids, right) = (pair.ids(&text), pair.right(&text));
            prop_assert_eq!(ids, right, "{} {:?} {:?}", pair.name(), pair.special, text);
        }
    }

    /// A prefix or a suffix of what came before must not show: engines keep words.
    #[test]
    fn nothing_stays_of_the_text_before(texts in prop::collection::vec(hostile(), 2..6)) {
        let pair = &PAIRS[2];
        assert_eq!(pair.name(), "cl100k");
        let (mut together, mut right) = (Vec::new(), Vec::new());
        for text in &texts {
            pair.encode(text, &mut together).expect("ids");
            right.extend(pair.right(text));
        }
        prop_assert_eq!(together, right);
    }
}

#[test]
fn a_check_shows_where_the_engines_differ() {
    let open = |name: &str| HfTokenizer::from_file(file(name), SpecialTokens::Text).expect("it loads");
    let check = Check::new(&open("digits-2")).expect("both load it");
    let text = "no digits, or 12";
    assert_eq!(check.compare(text).expect("equal ids"), ids(&open("digits-2"), text).len());
    // By two digits "06" and "40"; by three "064", in which "64" is a token.
    let difference = check.compare("before, before 0640 and behind").expect_err("another cut");
    assert_eq!(difference.byte, 16, "{difference}");
    assert!(difference.around.contains("0640") && difference.fast != difference.reference, "{difference}");
    let failing = Check::new(&open("unknown")).expect("both load it").compare("mill").expect_err("it fails");
    assert!(failing.fast.is_err() && failing.reference.is_ok(), "{failing}");
    let nothing = Check::new(&open("prefix-space")).expect_err("the fast engine cannot load it");
    assert!(nothing.to_string().contains("only the reference runs it"), "{nothing}");
    assert!(Check::new(&open("cl100k")).expect("both load it").compare("12345").is_ok());
}
