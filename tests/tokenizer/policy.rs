//! What a tokenizer may do wrong, and what becomes of the document: by policy, and never of another one.

use std::path::Path;
use std::sync::{Arc, Once};

use futures::TryStreamExt;
use millstream::config::{ByteCount, Config, OnError, PackRule, SourceConfig, TokenizerKind};
use millstream::tokenizer::{ByteTokenizer, EncodeError, Encoder, Tokenizer};
use millstream::{Batch, Cursor, Error, Loader, Result, conformance};
use proptest::prelude::*;

use crate::support::runtime::block_on;

/// Refuses the documents that hold "bad": fails, panics, or gives an id that is none, after ids that it had given.
#[derive(Debug)]
struct Picky;

impl Tokenizer for Picky {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        ByteTokenizer.encode(text, ids)?;
        if text.contains("bad") {
            match text.len() % 3 {
                0 => return Err("it is bad".into()),
                1 => panic!("it is bad"),
                _ => ids.insert(ids.len() - 1, 257),
            }
        }
        Ok(())
    }

    fn decode(&self, ids: &[u32]) -> String {
        ByteTokenizer.decode(ids)
    }

    fn vocab_size(&self) -> usize {
        ByteTokenizer.vocab_size()
    }

    fn id(&self, token: &str) -> Option<u32> {
        match token {
            "<|beyond|>" => Some(257),
            token => ByteTokenizer.id(token),
        }
    }

    fn fingerprint(&self) -> String {
        "picky".to_owned()
    }

    fn nearest(&self, token: &str) -> Option<String> {
        ByteTokenizer.nearest(token)
    }
}

fn run<F: Future>(future: F) -> F::Output {
    // The panics are meant.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>() != Some(&"it is bad") {
                hook(panic);
            }
        }));
    });
    block_on(future)
}

fn config(directory: &Path, lines: &[String], on_error: OnError) -> Config {
    std::fs::write(directory.join("lines.txt"), lines.join("\n")).expect("a file");
    let paths = vec![format!("{}/lines.txt", directory.display())];
    let source = SourceConfig { paths, on_error, split: Some(ByteCount::mib(64)), ..SourceConfig::default() };
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    config.pipeline.lanes = 1.into();
    config.pipeline.epochs = Some(1);
    config.pipeline.memory = ByteCount::mib(16);
    config.pipeline.seq_len = 16;
    config.pipeline.batch_size = 2;
    config
}

async fn open(config: &Config, cursor: &Cursor) -> Result<Loader> {
    let builder = Loader::builder(config).with_tokenizer(Arc::new(Picky));
    if cursor.batch() == 0 { builder.open().await } else { builder.with_cursor(cursor.clone()).open().await }
}

/// Every document's text that the batches hold, in order of the alphabet.
fn delivered(batches: &[Batch]) -> Vec<String> {
    let ids: Vec<u32> = batches.iter().flat_map(|batch| batch.ids().to_vec()).collect();
    let mut texts: Vec<String> = ids
        .split(|id| *id == 256)
        .filter(|ids| !ids.is_empty())
        .map(|ids| ByteTokenizer.decode(ids))
        .collect();
    texts.sort();
    texts
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![3 => "[a-z]{1,9}( [a-z]{1,9}){0,3}", 1 => "[a-z]{0,5}bad[a-z]{0,5}"];
    prop::collection::vec(line, 1..60)
        .prop_filter("some are good", |lines| lines.iter().any(|line| !line.contains("bad")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// Order and resume hold where documents are left out, whatever the workers, and each of the others comes once.
    #[test]
    fn what_is_skipped_keeps_order_and_resume(
        lines in lines(), window in 1_usize..20, epochs in 1_u64..3, pack in 0_usize..3,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let bad = lines.iter().filter(|line| line.contains("bad")).count() as u64;
        let mut config = config(directory.path(), &lines, OnError::Skip(bad));
        config.pipeline.window = window.into();
        config.pipeline.epochs = Some(epochs);
        config.pipeline.pack = [PackRule::Concat, PackRule::Pad, PackRule::BestFit][pack];
        run(async {
            let start = open(&config, &Cursor::default()).await.expect("it opens").start().clone();
            let mut turn = 0;
            let open = async |cursor: &Cursor| {
                turn += 1;
                let mut config = config.clone();
                config.pipeline.workers = ([1, 2, 8][turn % 3]).into();
                let batches = open(&config, cursor).await?;
                Ok(batches.map_ok(|batch| (batch.ids().to_vec(), batch.cursor().clone())))
            };
            prop_assert_eq!(conformance::check(&start, open, 40).await, Ok(()));
            Ok(())
        })?;
    }

    /// Who goes on where documents were left out, and lets none be any more, gets the same batches or the error.
    #[test]
    fn what_was_skipped_may_be_refused_later(lines in lines(), window in 1_usize..20, epochs in 1_u64..3) {
        let directory = tempfile::tempdir().expect("a directory");
        let bad = lines.iter().filter(|line| line.contains("bad")).count() as u64;
        let mut config = config(directory.path(), &lines, OnError::Skip(bad));
        (config.pipeline.window, config.pipeline.epochs) = (window.into(), Some(epochs));
        run(async {
            let loader = open(&config, &Cursor::default()).await.expect("it opens");
            let whole: Vec<Batch> = loader.try_collect().await.expect("no error");
            config.sources[0].on_error = OnError::Fail;
            for (index, batch) in whole.iter().enumerate() {
                let mut rest = open(&config, batch.cursor()).await.expect("it opens");
                let mut expected = whole[index + 1..].iter();
                loop {
                    match rest.try_next().await {
                        Ok(next) => {
                            let once = expected.next();
                            prop_assert_eq!(next.as_ref().map(Batch::ids), once.map(Batch::ids));
                            if next.is_none() {
                                break;
                            }
                        }
                        Err(error) => {
                            prop_assert!(matches!(error, Error::Document { .. }), "{}", error);
                            break;
                        }
                    }
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_is_good_comes_once(lines in lines(), window in 1_usize..20) {
        let directory = tempfile::tempdir().expect("a directory");
        let bad = lines.iter().filter(|line| line.contains("bad")).count() as u64;
        let mut config = config(directory.path(), &lines, OnError::Skip(bad));
        config.pipeline.window = window.into();
        (config.pipeline.pack, config.pipeline.seq_len) = (PackRule::Pad, 64);
        run(async {
            let mut loader = open(&config, &Cursor::default()).await.expect("it opens");
            let mut batches = Vec::new();
            while let Some(batch) = loader.try_next().await.expect("no error") {
                batches.push(batch);
            }
            let mut good: Vec<String> = lines.iter().filter(|line| !line.contains("bad")).cloned().collect();
            good.sort();
            prop_assert_eq!(delivered(&batches), good);
            let meters = loader.meters();
            let tokenize = meters.stages.iter().find(|stage| stage.stage == "tokenize").expect("it");
            prop_assert_eq!((tokenize.skipped, tokenize.documents), (bad, lines.len() as u64 - bad));
            Ok(())
        })?;
    }
}

fn some_bad() -> Vec<String> {
    (0..300).map(|i| if i % 30 == 7 { format!("bad {i}") } else { format!("good {i}") }).collect()
}

async fn outcome(config: &Config) -> Result<usize> {
    let batches: Vec<Batch> = open(config, &Cursor::default()).await?.try_collect().await?;
    Ok(batches.len())
}

#[test]
fn one_more_than_the_policy_allows_is_the_error_and_says_where() {
    let directory = tempfile::tempdir().expect("a directory");
    run(async {
        let lines = some_bad();
        // Each epoch begins to count anew.
        let mut config = config(directory.path(), &lines, OnError::Skip(10));
        config.pipeline.epochs = Some(3);
        outcome(&config).await.expect("ten an epoch");
        config.sources[0].on_error = OnError::Skip(9);
        let last: usize = lines[..277].iter().map(|line| line.len() + 1).sum();
        match outcome(&config).await {
            Err(Error::Document { line, byte, problem, remedy, .. }) => {
                assert_eq!((line, byte), (278, last as u64));
                assert!(
                    problem.ends_with("the 9 documents that on_error lets this epoch skip are used up"),
                    "{problem}"
                );
                assert!(remedy.ends_with("or raise on_error"), "{remedy}");
            }
            other => panic!("expected the document's error, not {other:?}"),
        }
        config.sources[0].on_error = OnError::Fail;
        match outcome(&config).await {
            Err(Error::Document { line: 8, remedy, .. }) => {
                assert!(remedy.contains("on_error = { skip = 100 }"))
            }
            other => panic!("expected the first bad document, not {other:?}"),
        }
    });
}

#[test]
fn an_id_beyond_the_vocabulary_is_the_documents_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = ["good", "a bad", "good"].map(str::to_owned);
    assert_eq!(lines[1].len() % 3, 2);
    run(async {
        let problem =
            outcome(&config(directory.path(), &lines, OnError::Fail)).await.expect_err("no such id");
        let said = "lines.txt:2 (byte 5): the tokenizer gave the id 257, but its vocabulary has 257;";
        assert!(problem.to_string().contains(said), "{problem}");
    });
}

#[test]
fn tokens_of_the_config_must_be_the_tokenizers() {
    let encoder = || Encoder::new(Arc::new(Picky));
    for (key, outcome) in [
        ("tokenizer.bos", encoder().with_bos("<eot>")),
        ("tokenizer.eos", encoder().with_eos("<eot>")),
        ("tokenizer.pad", encoder().with_pad("<eot>")),
    ] {
        let problem = outcome.expect_err("no such token").to_string();
        let said = "the tokenizer has no token \"<eot>\"; the nearest that it has is \"<|endoftext|>\"";
        assert_eq!(problem, format!("{key}: {said}"));
    }
    let beyond = encoder().with_pad("<|beyond|>").expect_err("no such id").to_string();
    assert!(beyond.starts_with("tokenizer.pad: ") && beyond.contains("the id 257"), "{beyond}");
    let named = encoder().with_eos("<|endoftext|>").and_then(|encoder| encoder.with_pad("p"));
    assert_eq!(named.expect("they are known").pad(), u32::from(b'p'));
}

/// Padding is what the config names, and its own part of the order.
#[test]
fn padding_is_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    run(async {
        let mut config = config(directory.path(), &["a".to_owned()], OnError::Fail);
        config.tokenizer.kind = TokenizerKind::Bytes;
        let first = async |config: &Config| Loader::open(config).await?.try_next().await;
        let batch = first(&config).await.expect("it opens").expect("a batch");
        assert_eq!(batch.ids()[..4], [97, 256, 256, 256]);
        let saved = batch.cursor().clone();
        config.tokenizer.pad = Some("\0".to_owned());
        let batch = first(&config).await.expect("it opens").expect("a batch");
        assert_eq!(batch.ids()[..4], [97, 256, 0, 0]);
        match Loader::resume(&config, &saved).await {
            Err(Error::Fingerprint { field, .. }) => assert_eq!(field, "tokenizer.pad"),
            other => panic!("expected a refusal, not {other:?}"),
        }
    });
}

/// Bytes need no file and no feature.
#[test]
fn bytes_are_a_kind_of_tokenizer() {
    let directory = tempfile::tempdir().expect("a directory");
    run(async {
        let mut config = config(directory.path(), &["müll".to_owned()], OnError::Fail);
        config.tokenizer.kind = TokenizerKind::Bytes;
        let mut loader = Loader::open(&config).await.expect("it opens");
        let batch = loader.try_next().await.expect("no error").expect("a batch");
        assert_eq!(batch.ids()[..6], [109, 195, 188, 108, 108, 256]);
        assert_eq!(loader.tokenizer().fingerprint(), "bytes");
        for (key, set) in [
            ("tokenizer.path", "path = \"t.json\""),
            ("tokenizer.pattern", "pattern = \"gpt2\""),
            ("tokenizer.special", "special = { x = 1 }"),
            ("tokenizer.train", "train = {}"),
            ("tokenizer.special_tokens", "special_tokens = \"parse\""),
        ] {
            let path = directory.path().join("config.toml");
            std::fs::write(&path, format!("[tokenizer]\nkind = \"bytes\"\n{set}\n")).expect("a file");
            let problem = Config::load(&path).expect_err("bytes leave nothing to choose").to_string();
            let place = format!("{}:3:1: ", path.display());
            assert_eq!(
                problem,
                format!("{place}{key}: bytes need none; remove it, or tokenizer.kind = \"bytes\"")
            );
        }
        let path = directory.path().join("config.toml");
        std::fs::write(&path, "[tokenizer]\npattern = \"gpt2\"\n").expect("a file");
        let problem = Config::load(&path).expect_err("there are no ranks").to_string();
        assert!(problem.contains(":2:1: tokenizer.pattern: it belongs to a file of ranks"), "{problem}");
    });
}
