//! Token caches: the tokens that a run keeps change nothing, and spare the tokenizer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use futures::{StreamExt, TryStreamExt};
use millstream::config::{
    ByteCount, Config, DocumentKind, OnError, SampleConfig, SourceConfig, SourceKind, TokenCacheConfig,
};
use millstream::tokenizer::Tokenizer;
use millstream::{Batch, Cursor, Error, Loader, Result};
use proptest::prelude::*;

use crate::support::tokenizers::before;
use crate::text::{Case, assert_same, file, run};

/// Bytes, but for documents with a `!`, and how many documents it encoded.
fn counting() -> (Arc<dyn Tokenizer>, Arc<AtomicUsize>) {
    let count: Arc<AtomicUsize> = Arc::default();
    let counted = count.clone();
    let tokenizer = before("bytes, counted", move |text| {
        counted.fetch_add(1, Relaxed);
        if text.contains('!') { Err("an exclamation".into()) } else { Ok(()) }
    });
    (tokenizer, count)
}

impl Case {
    fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    /// The same config with a cache of so many bytes.
    fn cached(&self, limit: u64) -> Config {
        let mut config = self.config.clone();
        config.sources[0].cache = Some(TokenCacheConfig { path: self.cache(), limit: ByteCount(limit) });
        config
    }
}

const PLENTY: u64 = 1 << 30;

/// All batches, and how many documents were tokenized for them.
fn counted(config: &Config, cursor: Option<&Cursor>) -> (Result<Vec<Batch>>, usize) {
    let (tokenizer, count) = counting();
    let mut loader = Loader::builder(config).with_tokenizer(tokenizer);
    if let Some(cursor) = cursor {
        loader = loader.with_cursor(cursor.clone());
    }
    let batches = run(async { loader.open().await?.try_collect().await });
    (batches, count.load(Relaxed))
}

fn all(config: &Config, cursor: Option<&Cursor>) -> Vec<Batch> {
    counted(config, cursor).0.expect("batches")
}

fn segments(cache: &Path) -> Vec<PathBuf> {
    let list =
        |path: &Path| fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path());
    let files = list(cache).flat_map(|directory| list(&directory).collect::<Vec<_>>());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|end| end == "tokens")).collect();
    files.sort();
    files
}

/// A file of short lines, of none, or of lines that are longer than a read of [`Case::with_little_memory`].
fn any_file() -> impl Strategy<Value = String> {
    let long = prop::collection::vec(1_usize..6000, 1..4);
    let long = long.prop_map(|lines| lines.into_iter().map(|n| "long ".repeat(n / 5) + "\n").collect());
    prop_oneof![3 => file(), 2 => Just(String::new()), 2 => long]
}

impl Case {
    /// The same, read a kibibyte at a time.
    fn with_little_memory(mut self) -> Self {
        self.config.pipeline.memory = ByteCount(1 << 20);
        self.config.pipeline.window = 2.into();
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_cache_changes_nothing_and_spares_the_tokenizer(
        files in prop::collection::vec(any_file(), 1..7),
        document in prop::sample::select(vec![DocumentKind::Line, DocumentKind::File, DocumentKind::Paragraph]),
        split in prop_oneof![4_u64..60, Just(64 << 20)],
        holdout in prop_oneof![Just(0.0), Just(0.4)],
        shuffle_splits: bool,
        is_slow: bool,
        around: [bool; 2],
        taken in 0_usize..6,
    ) {
        if files.iter().all(String::is_empty) {
            return Ok(());
        }
        let mut case = Case::new(&files, |source| {
            (source.document, source.split) = (document, Some(ByteCount(split)));
        });
        if is_slow {
            case = case.with_little_memory();
        }
        (case.config.pipeline.holdout, case.config.pipeline.shuffle_splits) = (holdout, shuffle_splits);
        case.put_around(around);
        let config = case.cached(PLENTY);
        let Ok(text) = counted(&case.config, None).0 else { return Ok(()) };
        // A run that is dropped on the way leaves what is whole.
        run(async {
            let loader = Loader::builder(&config).with_tokenizer(counting().0).open().await?;
            loader.take(taken).try_collect::<Vec<_>>().await
        }).expect("some batches");
        let (first, _) = counted(&config, None);
        assert_same(&text, &first.expect("batches"));
        let (second, tokenized) = counted(&config, None);
        assert_same(&text, &second.expect("batches"));
        prop_assert_eq!(tokenized, 0);
        for batch in text.iter().step_by(1 + text.len() / 30) {
            let rest = &text[batch.number() as usize + 1..];
            assert_same(rest, &all(&config, Some(batch.cursor())));
        }
        // One that begins in the middle of splits keeps none of these.
        if let Some(batch) = text.get(taken) {
            fs::remove_dir_all(case.cache()).expect("removed");
            assert_same(&text[taken + 1..], &all(&config, Some(batch.cursor())));
            assert_same(&text, &all(&config, None));
        }
    }

    /// What one run kept, another order meets beside splits that are still text, with documents longer than a read.
    #[test]
    fn splits_with_tokens_and_without_are_read_side_by_side(
        files in prop::collection::vec(any_file(), 1..5),
        split in prop::option::of(40_u64..4000),
        taken in 1_usize..40,
        seed in 1_u64..100,
    ) {
        if files.iter().all(String::is_empty) {
            return Ok(());
        }
        let mut case = Case::new(&files, |source| source.split = split.map(ByteCount)).with_little_memory();
        (case.config.pipeline.epochs, case.config.pipeline.lanes) = (Some(1), 1.into());
        case.config.pipeline.memory = ByteCount(128 << 10);
        let mut config = case.cached(PLENTY);
        run(async {
            let loader = Loader::builder(&config).with_tokenizer(counting().0).open().await?;
            loader.take(taken).try_collect::<Vec<_>>().await
        }).expect("some batches");
        (case.config.seed, config.seed) = (seed, seed);
        assert_same(&all(&case.config, None), &all(&config, None));
    }

    #[test]
    fn damage_is_noticed_and_nothing_is_lost(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let case = Case::new(&["some lines\nof text\nto keep\n".repeat(30), "more of it\n".repeat(9)], |source| {
            source.split = Some(ByteCount(100));
        });
        let config = case.cached(PLENTY);
        let text = all(&config, None);
        let kept = segments(&case.cache());
        for (file, byte, value) in &changes {
            let path = &kept[file.index(kept.len())];
            let mut bytes = fs::read(path).expect("read");
            let byte = byte.index(bytes.len());
            bytes[byte] = *value;
            fs::write(path, bytes).expect("written");
        }
        if let Some(cut) = cut {
            let path = &kept[cut.index(kept.len())];
            let bytes = fs::read(path).expect("read");
            fs::write(path, &bytes[..cut.index(bytes.len())]).expect("written");
        }
        assert_same(&text, &all(&config, None));
        // What was lost was kept anew.
        assert_same(&text, &all(&config, None));
        prop_assert_eq!(counted(&config, None).1, 0);
    }

    #[test]
    fn what_was_skipped_is_counted_alike_and_too_many_are_the_same_error(
        lines in prop::collection::vec(any::<bool>(), 1..60),
        split in prop_oneof![40_u64..400, Just(64 << 20)],
        repeated in prop_oneof![Just(1_usize), Just(100)],
        most in 0_u64..30,
    ) {
        let text = lines.iter().map(|good| if *good { "{\"text\": \"some words of text\"}\n" } else { "broken\n" });
        let text = text.collect::<String>() + "{\"text\": \"the last\"}\n";
        let case = Case::new(&[text.repeat(repeated), text], |source| {
            (source.kind, source.field) = (SourceKind::Jsonl, Some("text".to_owned()));
            (source.on_error, source.split) = (OnError::Skip(100_000), Some(ByteCount(split)));
        });
        let mut case = case.with_little_memory();
        case.config.pipeline.epochs = Some(4);
        let mut config = case.cached(PLENTY);
        let text = all(&case.config, None);
        assert_same(&text, &all(&config, None));
        prop_assert_eq!(counted(&config, None).1, 0);
        assert_same(&text, &all(&config, None));
        // Fewer may be skipped than were.
        let mut plain = case.config.clone();
        (config.sources[0].on_error, plain.sources[0].on_error) = (OnError::Skip(most), OnError::Skip(most));
        match (counted(&plain, None).0, counted(&config, None).0) {
            (Ok(text), Ok(kept)) => assert_same(&text, &kept),
            (text, kept) => {
                let said = |batches: Result<Vec<Batch>>| batches.map(drop).map_err(|error| error.to_string());
                prop_assert_eq!(said(text), said(kept));
            }
        }
    }
}

#[test]
fn later_epochs_of_one_run_are_spared_too() {
    // More text than is read ahead.
    let lines = |n: usize| format!("line {n} of a text that is not short\n").repeat(20_000);
    let mut case = Case::new(&(0..6).map(lines).collect::<Vec<_>>(), |_| {});
    case.config.pipeline.epochs = Some(4);
    case.config.pipeline.memory = ByteCount::mib(4);
    let (text, all) = counted(&case.config, None);
    let (kept, tokenized) = counted(&case.cached(PLENTY), None);
    assert_same(&text.expect("batches"), &kept.expect("batches"));
    assert!(tokenized * 2 < all, "{tokenized} of {all} documents were tokenized");
}

#[test]
fn the_limit_holds_and_what_does_not_fit_is_read_as_text() {
    let lines = |n: usize| format!("line {n} of a text that is not short\n").repeat(9000);
    let mut case =
        Case::new(&(0..8).map(lines).collect::<Vec<_>>(), |source| source.split = Some(ByteCount(5_000)));
    case.config.pipeline.epochs = Some(1);
    // What is kept are whole splits, and each lane has several under way when the limit is reached: of eight lanes, they
    // can be all that fits.
    case.config.pipeline.lanes = 2.into();
    let limit = 2 << 20;
    let config = case.cached(limit);
    let text = all(&case.config, None);
    assert_same(&text, &all(&config, None));
    let bytes =
        || segments(&case.cache()).iter().map(|path| fs::metadata(path).expect("a file").len()).sum::<u64>();
    assert!((limit / 8..=limit).contains(&bytes()), "{} bytes are kept", bytes());
    let (again, tokenized) = counted(&config, None);
    assert_same(&text, &again.expect("batches"));
    assert!((1..8 * 9000).contains(&tokenized), "{tokenized}");
    // Another seed wants the same tokens, and another hold-out others, which drive these out.
    let before = segments(&case.cache());
    let mut other = config.clone();
    other.seed += 1;
    all(&other, None);
    let after = segments(&case.cache());
    assert!(before.iter().all(|path| after.contains(path)), "{before:?} {after:?}");
    other.pipeline.holdout = 0.1;
    all(&other, None);
    assert!(segments(&case.cache()).iter().all(|path| !before.contains(path)));
    assert!((limit / 8..=limit).contains(&bytes()), "{} bytes are kept", bytes());
    // A lower limit holds from the start.
    let low = 1 << 20;
    other.sources[0].cache = Some(TokenCacheConfig { path: case.cache(), limit: ByteCount(low) });
    assert_same(
        &all(&other, None),
        &all(&Config { sources: case.config.sources.clone(), ..other.clone() }, None),
    );
    assert!(bytes() <= low, "{} bytes are kept", bytes());
}

#[test]
fn what_fails_leaves_nothing_that_hides_it() {
    // A line without a text, and one that the tokenizer refuses. One read has all files, in the order of the config.
    for bad in ["{}", "{\"text\": \"no!\"}"] {
        let good = "{\"text\": \"some words\"}\n".repeat(3);
        let files = [good.clone(), format!("{good}{bad}\n{good}"), good.clone(), good];
        let case = Case::new(&files, |source| {
            (source.kind, source.field) = (SourceKind::Jsonl, Some("text".to_owned()));
        });
        let mut config = case.cached(PLENTY);
        (config.pipeline.lanes, config.pipeline.shuffle_splits) = (1.into(), false);
        let error = || counted(&config, None).0.expect_err("the bad line").to_string();
        assert_eq!(error(), error());
        config.sources[0].on_error = OnError::Skip(1);
        let mut without = config.clone();
        without.sources[0].cache = None;
        let expected = all(&without, None);
        for _ in 0..2 {
            assert_same(&expected, &all(&config, None));
        }
    }
}

#[test]
fn documents_that_the_tokenizer_refuses_are_refused_each_time() {
    let text = "one line\ntwo lines\nthree!\nfour lines\n".to_owned() + &"five lines and so on\n".repeat(20);
    let case = Case::new(&[text.clone(), text.replace('!', "")], |source| {
        (source.on_error, source.split) = (OnError::Skip(1), Some(ByteCount(1 << 20)));
    });
    let config = case.cached(PLENTY);
    let (text, tokenized) = counted(&case.config, None);
    let text = text.expect("batches");
    assert_same(&text, &all(&config, None));
    let (kept, again) = counted(&config, None);
    assert_same(&text, &kept.expect("batches"));
    assert_eq!(again * 2, tokenized, "one file of two is kept");
    let mut strict = config;
    strict.sources[0].on_error = OnError::Fail;
    let error = counted(&strict, None).0.expect_err("a refused document").to_string();
    assert!(error.contains("an exclamation"), "{error}");
}

#[test]
fn loaders_that_share_a_cache_disturb_each_other_in_nothing() {
    let lines = |n: usize| format!("line {n} of a text that is not short\n").repeat(300);
    let case =
        Case::new(&(0..6).map(lines).collect::<Vec<_>>(), |source| source.split = Some(ByteCount(2000)));
    let config = case.cached(PLENTY);
    let text = all(&case.config, None);
    let kept = run(async {
        let loader = || async {
            let loader = Loader::builder(&config).with_tokenizer(counting().0).open().await?;
            loader.try_collect::<Vec<_>>().await
        };
        futures::try_join!(loader(), loader(), loader())
    });
    let (one, two, three) = kept.expect("batches");
    [one, two, three].iter().for_each(|kept| assert_same(&text, kept));
    assert_eq!(counted(&config, None).1, 0);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_at_once() {
    let case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    fs::write(case.cache(), "a file").expect("written");
    let error = counted(&case.cached(PLENTY), None).0.expect_err("no directory");
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn damage_in_the_middle_of_a_split_costs_no_document() {
    let lines = |n: usize| format!("line {n} of a text that is not short\n");
    let case = Case::new(&[(0..40_000).map(lines).collect::<String>()], |source| {
        source.split = Some(ByteCount(64 << 20));
    });
    let config = case.cached(PLENTY);
    let text = all(&config, None);
    let path = segments(&case.cache()).pop().expect("a segment");
    let mut bytes = fs::read(&path).expect("read");
    bytes[(3 << 20) / 2] ^= 1;
    fs::write(&path, bytes).expect("written");
    assert_same(&text, &all(&config, None));
}

#[test]
fn a_file_that_was_edited_is_tokenized_again() {
    let case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    let config = case.cached(PLENTY);
    all(&config, None);
    fs::write(case.directory.path().join("0.txt"), "a word of text\n".repeat(40)).expect("written");
    assert_same(&all(&case.config, None), &all(&config, None));
}

#[test]
fn a_cache_that_goes_away_under_a_run_costs_nothing() {
    let lines = |n: usize| format!("line {n} of a text that is not short\n").repeat(9000);
    let case = Case::new(&(0..4).map(lines).collect::<Vec<_>>(), |_| {});
    let config = case.cached(PLENTY);
    let text = all(&case.config, None);
    let kept: Result<_> = run(async {
        let mut loader = Loader::builder(&config).with_tokenizer(counting().0).open().await?;
        let mut batches = Vec::new();
        while let Some(batch) = loader.next().await {
            batches.push(batch?);
            if batches.len().is_multiple_of(1000) {
                let _ = fs::remove_dir_all(case.cache());
            }
        }
        Ok(batches)
    });
    assert_same(&text, &kept.expect("batches"));
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let case = Case::new(&["{\"text\": \"a line\", \"n\": 1}\n".repeat(40)], |source| {
        (source.kind, source.field) = (SourceKind::Jsonl, Some("text".to_owned()));
    });
    let refused = |settings: &dyn Fn(&mut SourceConfig)| {
        let mut config = case.cached(PLENTY);
        settings(&mut config.sources[0]);
        config.validate().expect_err("refused").to_string()
    };
    let sample = Some(SampleConfig { field: "n".to_owned(), max: 2.0 });
    assert!(refused(&|source| source.sample.clone_from(&sample)).contains("source.0.cache"));
    let said = refused(&|source| {
        (source.kind, source.field) = (SourceKind::Shards, None);
    });
    assert!(said.contains("shards are tokens already"), "{said}");
    let said = toml::from_str::<SourceConfig>("cache = \"tokens\"").expect_err("refused").to_string();
    assert!(said.contains("expected a table such as { path = "), "{said}");
    let staged = Loader::builder(&case.cached(PLENTY)).stage("none", |documents, _| documents);
    let error = run(staged.open()).expect_err("refused").to_string();
    assert!(error.contains("source.0.cache") && error.contains("stages"), "{error}");
}
