//! The tokenizer of token shards, which comes with them.

use std::fs;
use std::path::Path;

use millstream::config::{Config, OrAuto, ShuffleRule, SpecialTokens, TokenizerConfig};
use millstream::loader::{check, open_tokenizer, resolved, with_stored_tokenizer};

use crate::text::{Case, all, assert_same, run};

/// A corpus of which token shards were made, and the config that reads them.
fn prepared(tokenizer: TokenizerConfig) -> (Case, Config) {
    let mut case = Case::new(&["a line of text\n".repeat(400)], |_| {});
    case.config.tokenizer = tokenizer;
    case.config.pipeline.lanes = 1.into();
    case.prepare().expect("prepared");
    let config = case.sharded();
    (case, config)
}

#[test]
fn bytes_need_not_be_named_again() {
    let (case, named) = prepared(TokenizerConfig::bytes().with_eos("<|endoftext|>"));
    let tokenizer = TokenizerConfig { eos: named.tokenizer.eos.clone(), ..TokenizerConfig::default() };
    let plain = Config { tokenizer, ..named.clone() };
    assert_same(&all(&plain, None).expect("batches"), &all(&named, None).expect("batches"));
    let checked = run(check(&plain)).expect("it can be read").tokenizer;
    assert_eq!((checked.name.as_deref(), checked.vocab_size), (Some("bytes"), 257));
    assert_eq!(run(open_tokenizer(&plain)).expect("bytes").fingerprint(), "bytes");
    assert_eq!(run(with_stored_tokenizer(&plain)).expect("a config"), named);
    assert_eq!(run(resolved(&plain)).expect("a config"), run(resolved(&named)).expect("a config"));
    // One that names a tokenizer, or none for text, stays as it is.
    let text = Config { tokenizer: plain.tokenizer, ..case.config.clone() };
    for config in [named, text] {
        assert_eq!(run(with_stored_tokenizer(&config)).expect("a config"), config);
    }
}

#[test]
fn one_config_prepares_the_text_and_shuffles_all_of_it() {
    let mut case = Case::new(&["a line of text\n".repeat(400)], |_| {});
    case.config.tokenizer = TokenizerConfig::file("tests/data/tokenizers/unigram.json");
    (case.config.pipeline.shuffle, case.config.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
    assert_eq!(case.prepare().expect("prepared").documents, 400);
    assert!(!all(&case.sharded(), None).expect("batches").is_empty());
}

#[test]
fn another_one_is_refused_with_what_to_leave_out() {
    let (_case, mut config) = prepared(TokenizerConfig::file("tests/data/tokenizers/unigram.json"));
    config.tokenizer = TokenizerConfig::bytes();
    let refused = |config: &Config| {
        let said = [all(config, None).map(drop), run(check(config)).map(drop)];
        let [one, other] = said.map(|said| said.expect_err("a refusal").to_string());
        assert_eq!(one, other);
        one
    };
    let said = refused(&config);
    assert!(
        said.contains(" made by the tokenizer file ")
            && said.contains(
                "\u{2026} (special_tokens = \"text\"), and the config's is bytes; leave `path`, `train` and"
            )
            && said.contains("`kind` out of [tokenizer]"),
        "{said}"
    );
    config.tokenizer = TokenizerConfig::default();
    all(&config, None).expect("its own");
    config.tokenizer.special_tokens = SpecialTokens::Parse;
    let said = refused(&config);
    assert!(said.contains("; set tokenizer.special_tokens = \"text\", or prepare "), "{said}");

    config.tokenizer.special_tokens = SpecialTokens::default();
    fs::remove_file(Path::new(&config.sources[0].paths[0]).join("tokenizer.json")).expect("removed");
    let said = refused(&config);
    assert!(
        said.contains(" was made by the tokenizer file ")
            && said.contains("its tokenizer.json is not there; name the file with tokenizer.path"),
        "{said}"
    );
}
