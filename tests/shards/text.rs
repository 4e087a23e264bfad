//! Token shards: the batches, cursors and positions of the text, without the text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{
    ByteCount, Config, DocumentKind, ExcludedDocument, OnError, Oversize, PackRule, SampleConfig,
    SourceConfig, SourceKind, TokenCacheConfig,
};
use millstream::prepare::{prepare, verify_shards};
use millstream::tokenizer::Tokenizer;
use millstream::{Batch, Cursor, Error, Loader, Result};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::tokenizers::before;

pub(crate) use crate::support::runtime::block_on_bare as run;

/// A corpus of generated lines, and the config that reads it with bytes as ids.
pub(crate) struct Case {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) config: Config,
}

impl Case {
    pub(crate) fn new(files: &[String], settings: impl FnOnce(&mut SourceConfig)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for (number, text) in files.iter().enumerate() {
            fs::write(directory.path().join(format!("{number}.txt")), text).expect("written");
        }
        let paths = vec![directory.path().join("*.txt").display().to_string()];
        let mut source = SourceConfig { paths, ..SourceConfig::default() };
        settings(&mut source);
        let mut config = Config { sources: vec![source], ..Config::default() };
        config.tokenizer.kind = millstream::config::TokenizerKind::Bytes;
        config.tokenizer.eos = Some("<|endoftext|>".to_owned());
        config.pipeline.seq_len = 24;
        config.pipeline.batch_size = 3;
        config.pipeline.window = 8.into();
        config.pipeline.epochs = Some(2);
        config.pipeline.lanes = 3.into();
        Self { directory, config }
    }

    /// Whether a token stands before each document, and behind.
    pub(crate) fn put_around(&mut self, around: [bool; 2]) {
        let [bos, eos] = around.map(|is_there| is_there.then(|| "<|endoftext|>".to_owned()));
        (self.config.tokenizer.bos, self.config.tokenizer.eos) = (bos, eos);
    }

    pub(crate) fn shards(&self) -> PathBuf {
        self.directory.path().join("shards")
    }

    pub(crate) fn prepare(&self) -> Result<millstream::prepare::Prepared> {
        run(prepare(&self.config, &self.shards(), |_| {}))
    }

    /// The same config, but for the source.
    pub(crate) fn sharded(&self) -> Config {
        let paths = vec![self.shards().display().to_string()];
        let on_error = self.config.sources[0].on_error;
        let source = SourceConfig { kind: SourceKind::Shards, paths, on_error, ..SourceConfig::default() };
        Config { sources: vec![source], ..self.config.clone() }
    }
}

pub(crate) fn all(config: &Config, cursor: Option<&Cursor>) -> Result<Vec<Batch>> {
    run(async {
        let loader = match cursor {
            None => Loader::open(config).await?,
            Some(cursor) => Loader::resume(config, cursor).await?,
        };
        loader.try_collect().await
    })
}

/// A cursor without the samples of local text, which token shards know nothing of.
fn place(cursor: &Cursor) -> Value {
    let mut place = serde_json::to_value(cursor).expect("JSON");
    place.as_object_mut().expect("a cursor").remove("checksum");
    for (_, value) in place["fingerprint"].as_object_mut().expect("a fingerprint") {
        if let Some((files, _)) = value.as_str().and_then(|value| value.split_once(", samples ")) {
            *value = files.into();
        }
    }
    place
}

pub(crate) fn assert_same(left: &[Batch], right: &[Batch]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        assert_eq!((left.ids(), left.number()), (right.ids(), right.number()));
        assert_eq!(place(left.cursor()), place(right.cursor()));
        assert_eq!(left.text_bytes(), right.text_bytes());
        assert_eq!(left.pieces().len(), right.pieces().len());
        for (one, other) in left.pieces().iter().zip(right.pieces()) {
            assert_eq!(
                (one.row, one.from, one.to, one.offset, one.position),
                (other.row, other.from, other.to, other.offset, other.position)
            );
            assert_eq!(left.path(one), right.path(other));
        }
    }
}

pub(crate) fn file() -> impl Strategy<Value = String> {
    let part =
        prop::sample::select(vec!["a", "word ", "é", "\n", "\r\n", "\n\n", " \n", "longer words, and on "]);
    prop::collection::vec(part, 1..60).prop_map(|parts| parts.concat() + "x")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn shards_give_what_the_text_gives_and_cursors_go_both_ways(
        files in prop::collection::vec(file(), 1..5),
        document in prop::sample::select(vec![DocumentKind::Line, DocumentKind::File, DocumentKind::Paragraph]),
        split in prop_oneof![4_u64..60, Just(64 << 20)],
        holdout in prop_oneof![Just(0.0), Just(0.4)],
        shuffle_splits: bool,
        around: [bool; 2],
        pack in prop::sample::select(vec![PackRule::Concat, PackRule::Pad, PackRule::BestFit]),
        ahead in 1_usize..4,
    ) {
        let mut case = Case::new(&files, |source| {
            (source.document, source.split) = (document, Some(ByteCount(split)));
            (source.max_document_bytes, source.oversize) = (ByteCount(60), Oversize::Skip);
        });
        (case.config.pipeline.holdout, case.config.pipeline.shuffle_splits) = (holdout, shuffle_splits);
        case.put_around(around);
        (case.config.pipeline.pack, case.config.pipeline.ahead) = (pack, ahead);
        case.prepare().expect("prepared");
        match (all(&case.config, None), all(&case.sharded(), None)) {
            (Ok(text), Ok(shards)) => {
                assert_same(&text, &shards);
                for batch in &text {
                    let rest = &text[batch.number() as usize + 1..];
                    assert_same(rest, &all(&case.sharded(), Some(batch.cursor())).expect("a cursor of the text"));
                    assert_same(rest, &all(&case.config, Some(batch.cursor())).expect("a cursor of the shards"));
                }
            }
            (text, shards) => {
                let said = |batches: Result<Vec<Batch>>| batches.map(drop).map_err(|error| error.to_string());
                prop_assert_eq!(said(text), said(shards));
            }
        }
    }

    #[test]
    fn what_was_skipped_is_counted_alike(lines in prop::collection::vec(any::<bool>(), 1..80), split in 40_u64..400) {
        let text = lines.iter().map(|good| if *good { "{\"text\": \"some words of text\"}\n" } else { "broken\n" });
        let case = Case::new(&[text.collect::<String>() + "{\"text\": \"the last\"}"], |source| {
            (source.kind, source.field) = (SourceKind::Jsonl, Some("text".to_owned()));
            (source.on_error, source.split) = (OnError::Skip(1000), Some(ByteCount(split)));
        });
        let prepared = case.prepare().expect("prepared");
        prop_assert_eq!(prepared.skipped, lines.iter().filter(|good| !**good).count() as u64);
        let text = all(&case.config, None).expect("text");
        // They were allowed when they were prepared.
        for on_error in [OnError::Skip(1000), OnError::Fail] {
            let mut sharded = case.sharded();
            sharded.sources[0].on_error = on_error;
            assert_same(&text, &all(&sharded, None).expect("shards"));
        }
    }

    #[test]
    fn a_damaged_segment_is_an_error_or_gives_the_same(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let case = Case::new(&["some lines\nof text\nto prepare\n".repeat(20)], |_| {});
        case.prepare().expect("prepared");
        let whole = all(&case.sharded(), None).expect("shards");
        let path = segments(&case.shards()).pop_first().expect("a segment");
        let mut bytes = fs::read(&path).expect("read");
        for (index, value) in &changes {
            let index = index.index(bytes.len());
            bytes[index] = *value;
        }
        fs::write(&path, bytes).expect("written");
        match all(&case.sharded(), None) {
            Ok(batches) => assert_same(&whole, &batches),
            Err(error) => prop_assert!(!error.to_string().contains("panicked"), "{error}"),
        }
    }

    #[test]
    fn a_damaged_manifest_is_an_error_or_gives_something(index: prop::sample::Index, value: u8) {
        let case = Case::new(&["some lines\nof text\n".repeat(20)], |source| source.split = Some(ByteCount(50)));
        case.prepare().expect("prepared");
        let path = case.shards().join("manifest.json");
        let mut bytes = fs::read(&path).expect("read");
        let index = index.index(bytes.len());
        bytes[index] = value;
        fs::write(&path, bytes).expect("written");
        if let Err(error) = all(&case.sharded(), None) {
            prop_assert!(!error.to_string().contains("panicked"), "{error}");
        }
    }
}

fn segments(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "tokens")).collect()
}

#[cfg(unix)]
#[test]
fn names_that_are_no_utf8_are_kept() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let case = Case::new(&["a line of text\n".repeat(20)], |_| {});
    let path = |name: &[u8]| case.directory.path().join(OsStr::from_bytes(name));
    if fs::write(path(b"\xfd.txt"), "another line\n".repeat(20)).is_err() {
        crate::support::skip::skipped("names_that_are_no_utf8_are_kept", "no such names here");
        return;
    }
    fs::write(path(b"\xff.txt"), "a third line\n".repeat(20)).expect("written");
    assert_eq!(case.prepare().expect("prepared").documents, 60);
    assert_eq!(run(verify_shards(&case.config, &case.shards())).expect("verified").documents, 60);
    // Cursors have a digest of the paths.
    let text = all(&case.config, None).expect("text");
    assert_same(&text, &all(&case.sharded(), None).expect("shards"));
    assert_same(&text[1..], &all(&case.sharded(), Some(text[0].cursor())).expect("a cursor of the text"));
    assert_eq!(case.prepare().expect("prepared again").documents, 0);

    fs::rename(path(b"\xff.txt"), path(b"\xfe.txt")).expect("moved");
    let error = case.prepare().expect_err("another name").to_string();
    assert!(error.contains("it has the tokens of other files"), "{error}");
}

#[test]
fn a_manifest_that_is_no_file_or_too_long_is_refused() {
    let case = Case::new(&["a line of text\n".repeat(20)], |_| {});
    case.prepare().expect("prepared");
    let path = case.shards().join("manifest.json");
    let refused = || {
        let error = all(&case.sharded(), None).expect_err("no manifest").to_string();
        let start = format!("{}: it ", path.display());
        assert!(error.contains(&start), "{error}");
    };
    fs::File::create(&path).and_then(|file| file.set_len((1 << 30) + 1)).expect("a long file");
    refused();
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a directory");
    refused();
    #[cfg(unix)]
    {
        fs::remove_dir(&path).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("a link");
        refused();
    }
}

#[test]
fn segments_of_something_else_are_refused() {
    let case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    case.prepare().expect("prepared");
    let other = Case::new(&["another line of text\n".repeat(40)], |_| {});
    other.prepare().expect("prepared");
    let segment = segments(&other.shards()).pop_first().expect("a segment");
    fs::copy(&segment, case.shards().join(segment.file_name().expect("a name"))).expect("copied");
    let error = all(&case.sharded(), None).expect_err("it is another's").to_string();
    assert!(error.contains("its tokens are of another corpus or tokenizer"), "{error}");
}

#[test]
fn weights_are_drawn_as_from_the_text() {
    let lines =
        (0..200).map(|n| format!("{{\"text\": \"document {n}\", \"w\": {}}}\n", n % 4)).collect::<String>();
    let case = Case::new(&[lines], |source| {
        (source.kind, source.field) = (SourceKind::Jsonl, Some("text".to_owned()));
        source.sample = Some(SampleConfig { field: "w".to_owned(), max: 3.0 });
    });
    case.prepare().expect("prepared");
    assert_same(&all(&case.config, None).expect("text"), &all(&case.sharded(), None).expect("shards"));
}

#[test]
fn excluded_documents_are_named_as_in_the_text() {
    let mut case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    case.prepare().expect("prepared");
    let path = case.directory.path().join("0.txt");
    case.config.exclude.documents = vec![ExcludedDocument { path: path.clone(), byte: 45 }];
    assert_same(&all(&case.config, None).expect("text"), &all(&case.sharded(), None).expect("shards"));
    case.config.exclude.documents = vec![ExcludedDocument { path, byte: 46 }];
    let error = all(&case.sharded(), None).expect_err("no document begins there").to_string();
    assert!(error.starts_with("exclude.documents: no document of"), "{error}");
}

#[test]
fn shards_know_the_fixed_parts_of_the_paths_that_they_were_made_of() {
    let mut case = Case::new(&["a line\n".repeat(40), "of text\n".repeat(40)], |_| {});
    let path = |name: &str| case.directory.path().join(name).display().to_string();
    fs::create_dir(path("home")).expect("a directory");
    fs::rename(path("1.txt"), path("home/1.txt")).expect("moved");
    case.config.sources[0].paths = vec![path("*.txt"), path("home/*.txt")];
    case.prepare().expect("prepared");
    let shards = all(&case.sharded(), None).expect("shards");
    assert_same(&all(&case.config, None).expect("text"), &shards);
    // The text of one of them moves.
    fs::rename(path("home"), path("house")).expect("moved");
    case.config.sources[0].paths[1] = path("house/*.txt");
    let rest = all(&case.config, Some(shards[2].cursor())).expect("a cursor of the shards");
    let ids = |batches: &[Batch]| batches.iter().map(|batch| batch.ids().to_vec()).collect::<Vec<_>>();
    assert_eq!(ids(&rest), ids(&shards[3..]));
}

#[test]
fn what_is_there_is_passed_over_and_what_is_not_is_missed() {
    let files: Vec<String> = (0..12).map(|n| format!("file {n}\nof lines\n")).collect();
    let mut case = Case::new(&files, |source| source.split = Some(ByteCount(1 << 20)));
    case.config.pipeline.workers = 3.into();
    let whole = case.prepare().expect("prepared");
    assert_eq!((whole.splits, whole.of, whole.documents), (12, 12, 24));
    let text = all(&case.config, None).expect("text");
    assert_eq!(run(verify_shards(&case.config, &case.shards())).expect("verified").documents, 24);

    let lost = segments(&case.shards()).pop_last().expect("a segment");
    fs::remove_file(lost).expect("removed");
    let error = all(&case.sharded(), None).expect_err("splits are missing").to_string();
    assert!(error.contains("of 12 splits are there; prepare again"), "{error}");
    let again = case.prepare().expect("prepared");
    assert!(again.documents > 0 && again.splits == 12, "{again:?}");
    assert_same(&text, &all(&case.sharded(), None).expect("shards"));
    assert_eq!(case.prepare().expect("prepared").documents, 0);
}

#[test]
fn a_long_split_is_the_same_by_any_number_of_workers() {
    let text: String = (0..60_000).map(|n| format!("line {n} of {}\n", "words ".repeat(n % 7))).collect();
    let mut case = Case::new(&[text], |_| {});
    case.config.pipeline.seq_len = 1000;
    let text = all(&case.config, None).expect("text");
    for workers in [1, 2, 5] {
        case.config.pipeline.workers = workers.into();
        assert_eq!(case.prepare().expect("prepared").documents, 60_000);
        assert_same(&text, &all(&case.sharded(), None).expect("shards"));
        fs::remove_dir_all(case.shards()).expect("removed");
    }
}

/// Another tokenizer.
pub(crate) fn other() -> Arc<dyn Tokenizer> {
    before("other", |_| Ok(()))
}

#[test]
fn another_corpus_or_tokenizer_is_refused() {
    let case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    case.prepare().expect("prepared");
    fs::write(case.directory.path().join("1.txt"), "more\n").expect("written");
    let error = case.prepare().expect_err("other files").to_string();
    assert!(error.contains("it has the tokens of other files"), "{error}");

    let other = run(Loader::builder(&case.sharded()).with_tokenizer(other()).open());
    let error = other.expect_err("another tokenizer").to_string();
    assert!(error.contains("was made by the tokenizer bytes, and the config's is other"), "{error}");

    let staged = Loader::builder(&case.sharded()).stage("as it is", |documents, _| documents);
    let error = run(staged.open()).expect_err("there is no text");
    assert!(matches!(&error, Error::Config { key, .. } if key == "source.0.kind"), "{error}");
}

#[test]
fn what_would_be_read_as_text_is_not_written() {
    let mut case = Case::new(&["one\ntwo\n".to_owned()], |_| {});
    let cache = case.directory.path().join("cache");
    case.config.sources[0].paths = vec![case.directory.path().join("**/*").display().to_string()];
    let said = case.prepare().expect_err("shards").to_string();
    assert!(said.starts_with(&format!("{}: source.0.paths match ", case.shards().display())), "{said}");
    case.config.sources[0].cache = Some(TokenCacheConfig { path: cache.clone(), limit: ByteCount(1 << 30) });
    let said = all(&case.config, None).expect_err("a cache").to_string();
    assert!(said.starts_with("source.0.cache.path: source.0.paths match "), "{said}");
    assert!(!case.shards().exists() && !cache.exists(), "nothing is made");
}
