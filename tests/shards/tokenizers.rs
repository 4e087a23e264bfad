//! The tokenizer of token shards and rows, which comes with them.

use std::fs;
use std::path::Path;

use millstream::config::{Config, SourceConfig, SourceKind, SpecialTokens, TokenizerConfig};
use millstream::loader::{check, open_tokenizer, with_rows};
use millstream::prepare::{prepare, prepare_rows};

use crate::text::{Case, all, assert_same, run};

/// A corpus, and what was prepared of it: token shards, and rows.
fn prepared(tokenizer: TokenizerConfig) -> (Case, [Config; 2]) {
    let mut case = Case::new(&["a line of text\n".repeat(400)], |_| {});
    case.config.tokenizer = tokenizer;
    case.config.pipeline.lanes = 1.into();
    run(prepare(&case.config, &case.shards(), |_| {})).expect("shards");
    let rows = case.directory.path().join("rows");
    run(prepare_rows(&case.config, &rows, |_| {})).expect("rows");
    let stored = [(SourceKind::Shards, case.shards()), (SourceKind::Rows, rows)].map(|(kind, path)| {
        let paths = vec![path.display().to_string()];
        let source = SourceConfig { kind, paths, ..SourceConfig::default() };
        Config { sources: vec![source], ..case.config.clone() }
    });
    (case, stored)
}

#[test]
fn bytes_need_not_be_named_again() {
    let (_case, stored) = prepared(TokenizerConfig::bytes().with_eos("<|endoftext|>"));
    for named in stored {
        let tokenizer = TokenizerConfig { eos: named.tokenizer.eos.clone(), ..TokenizerConfig::default() };
        let plain = Config { tokenizer, ..named.clone() };
        assert_same(&all(&plain, None).expect("batches"), &all(&named, None).expect("batches"));
        let checked = run(check(&plain)).expect("it can be read").tokenizer;
        assert_eq!((checked.name.as_deref(), checked.vocab_size), (Some("bytes"), 257));
        assert_eq!(run(open_tokenizer(&plain)).expect("bytes").fingerprint(), "bytes");
        assert_eq!(run(with_rows(&plain)).expect("a config").tokenizer, named.tokenizer);
        // Rows of token shards are made without it too.
        if plain.sources[0].kind == SourceKind::Shards {
            let rows = tempfile::tempdir().expect("a directory");
            assert!(run(prepare_rows(&plain, rows.path(), |_| {})).expect("rows").rows > 0);
        }
    }
}

#[test]
fn another_one_is_refused_with_what_to_leave_out() {
    let (_case, stored) = prepared(TokenizerConfig::file("tests/data/tokenizers/unigram.json"));
    for mut config in stored {
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
                && said.contains("\u{2026} (special_tokens = \"text\"), and the config's is bytes; leave `path`, `train` and")
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
}
