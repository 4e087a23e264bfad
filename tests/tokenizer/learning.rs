//! Learning from a corpus as a stream: the same file as from texts at hand, whatever the corpus's form.

use std::path::Path;

use millstream::config::{
    ByteCount, Config, LearnConfig, SourceConfig, SourceKind, TokenizerConfig, TokenizerKind,
};
use millstream::loader::{learn_tokenizer, open_tokenizer};
use millstream::tokenizer::learn::learn;
use millstream::{Error, LaneCursor, Loader, Source};

use futures::TryStreamExt;

use crate::support::wait::until;

/// Three mebibytes of numbered lines, so that the learner gets several groups.
fn corpus(directory: &Path) -> Config {
    for file in 0..4 {
        let line = |n: u32| format!("{{\"text\": \"file {file} of the mill, line {n}: {}\"}}\n", n % 977);
        let lines: String = (0..16_000).map(line).collect();
        std::fs::write(directory.join(format!("{file}.jsonl")), lines).expect("a file");
    }
    let paths = vec![format!("{}/*.jsonl", directory.display())];
    let field = Some("text".to_owned());
    let source = SourceConfig { paths, kind: SourceKind::Jsonl, field, ..SourceConfig::default() };
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.train = Some(LearnConfig { vocab_size: 500, ..LearnConfig::default() });
    config.tokenizer.eos = Some("<|eos|>".to_owned());
    config.pipeline.shuffle_splits = false;
    config
}

async fn texts(config: &Config) -> Vec<String> {
    let source = Source::open(&config.sources).await.expect("it opens");
    let documents = source.documents(&LaneCursor::default());
    documents.map_ok(|document| document.value.text().to_owned()).try_collect().await.expect("no error")
}

#[tokio::test]
async fn a_stream_teaches_what_its_texts_teach() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = corpus(directory.path());
    let texts = texts(&config).await;
    let bytes: u64 = texts.iter().map(|text| text.len() as u64).sum();
    // Within one group, across several, exactly all, more than there is.
    for sample in [1, 1000, (1 << 20) - 1, (1 << 20) + 1, 2_000_000, bytes, bytes + 1, u64::MAX] {
        let learning = LearnConfig { vocab_size: 300, sample: ByteCount(sample) };
        config.tokenizer.train = Some(learning.clone());
        let right = learn(&texts, &learning, &["<|eos|>"]).expect("it learns");
        let learned = learn_tokenizer(&config).await.expect("it learns");
        assert!(learned.json() == right, "a sample of {sample}");
    }
}

#[tokio::test]
async fn a_source_that_fails_is_the_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = corpus(directory.path());
    std::fs::write(directory.path().join("2.jsonl"), "{\"text\": \"one\"}\n{\"text\": 2}\n").expect("a file");
    match learn_tokenizer(&config).await {
        Err(Error::Document { line: 2, .. }) => {}
        other => panic!("expected the line's error, not {other:?}"),
    }
    config.tokenizer.train = Some(LearnConfig { vocab_size: 256, ..LearnConfig::default() });
    match learn_tokenizer(&config).await {
        Err(Error::Config { key, .. }) => assert_eq!(key, "tokenizer.train.vocab_size"),
        other => panic!("expected a refusal, not {other:?}"),
    }
}

#[tokio::test]
async fn who_gives_up_waiting_stops_the_learner() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = corpus(directory.path());
    let given_up = tokio::time::timeout(std::time::Duration::ZERO, learn_tokenizer(&config)).await;
    assert!(given_up.is_err(), "it takes longer than no time");
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until("the end of its tasks", || tasks() == 0).await;
}

/// What a run keeps, loaded without the corpus, is what the loader had.
#[tokio::test]
async fn what_is_kept_is_what_was_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = corpus(directory.path());
    config.tokenizer.pad = Some("<|pad|>".to_owned());
    config.pipeline.lanes = 1.into();
    let loader = Loader::open(&config).await.expect("it opens");
    let tokenizer = loader.tokenizer();
    assert_eq!((tokenizer.id("<|eos|>"), tokenizer.id("<|pad|>")), (Some(498), Some(499)));
    let path = directory.path().join("tokenizer.json");
    std::fs::write(&path, tokenizer.tokenizer_json().expect("it has one")).expect("a file");
    let kept = config.tokenizer.clone().with_json(path);
    assert_eq!((kept.pad.clone(), kept.train.clone()), (config.tokenizer.pad.clone(), None));
    let alone = async |tokenizer| open_tokenizer(&Config::default().with_tokenizer(tokenizer)).await;
    let again = alone(kept).await.expect("it loads");
    assert_eq!(again.fingerprint(), tokenizer.fingerprint());

    config.tokenizer = Default::default();
    config.tokenizer.kind = TokenizerKind::Bytes;
    let bytes = open_tokenizer(&config).await.expect("it opens");
    assert_eq!((bytes.fingerprint(), bytes.tokenizer_json()), ("bytes".to_owned(), None));
    assert_eq!(alone(TokenizerConfig::bytes()).await.expect("it loads").vocab_size(), 257);
    let none =
        alone(TokenizerConfig::default()).await.expect_err("there is nothing to learn from").to_string();
    assert!(none.starts_with("there is no source"), "{none}");
}
