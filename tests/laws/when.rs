//! A search for a document finds the places that a reading of all batches finds, and reads little for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use millstream::batch::Piece;
use millstream::config::{
    Config, DocumentKind, ExcludedDocument, Last, ShuffleRule, SourceKind, TokenizerKind, Uneven,
};
use millstream::replay::{Run, Session};
use millstream::when::{Found, Place, Search};
use millstream::{Batch, Cursor, Error};
use proptest::prelude::*;

use crate::corpus::{Corpus, all, block_on, configs, corpora, lines, mixed, open, rules};
use crate::dynamic::budgets;
use crate::shuffle_global::shuffled;

/// A document: its file and the byte where it begins, and whether it is the whole file.
type Key = (PathBuf, u64);

/// The places of all documents, without their epochs.
fn places(batches: &[Batch]) -> BTreeMap<Key, Vec<Place>> {
    let mut places: BTreeMap<Key, Vec<Place>> = BTreeMap::new();
    for batch in batches {
        for piece in batch.pieces() {
            let source = batch.source(piece).expect("it came from a file");
            let Piece { row, from, to, .. } = *piece;
            let place = Place { batch: batch.number(), row, from, to, epoch: None, source };
            places.entry((batch.path(piece).to_owned(), piece.position.byte)).or_default().push(place);
        }
    }
    places
}

/// A run of the first of these batches, with a cursor after every few.
pub(crate) fn run(config: &Config, batches: &[Batch], trail_every: usize) -> Run {
    let cursors = batches.iter().map(|batch| batch.cursor().clone());
    Run {
        sessions: vec![Session { begins: 0, config: config.clone() }],
        trail: cursors.skip(trail_every - 1).step_by(trail_every).collect(),
        batches: batches.last().map_or(0, |last| last.number() + 1),
        unused: Vec::new(),
        files: None,
    }
}

/// The line that begins at `byte` of a file's text.
fn line(text: &str, byte: u64) -> u64 {
    text[..byte as usize].matches('\n').count() as u64 + 1
}

fn search(run: Run, documents: &[(String, Option<u64>)]) -> Vec<Found> {
    block_on(async {
        let search = Search::open(run).await.expect("a search");
        let mut all = Vec::new();
        for (path, line) in documents {
            let asked = search.document(path, *line).await.expect("a document");
            all.push(search.find(&asked, |_, _| {}).await.expect("no errors"));
        }
        all
    })
}

/// What is checked of a search.
struct Check {
    trail_every: usize,
    /// How much of the stream the run has, in percent.
    percent: usize,
    /// Whether each document comes in each epoch.
    is_complete: bool,
}

/// That a search for each of these documents finds what a reading of all batches finds.
fn finds_all(config: &Config, corpora: &[(Corpus, PathBuf)], check: &Check) -> Result<(), TestCaseError> {
    let batches = match block_on(all(config)) {
        Err(Error::Corpus { .. }) => return Ok(()), // All is held out, or cut off.
        batches => batches.expect("no errors"),
    };
    let batches = &batches[..(batches.len() * check.percent).div_ceil(100)];
    let expected = places(batches);
    let mut documents = Vec::new();
    for (corpus, directory) in corpora {
        for (path, byte, _) in corpus.write(directory) {
            let text = std::fs::read_to_string(&path).expect("a file");
            let line = (corpus.document != DocumentKind::File).then(|| line(&text, byte));
            documents.push(((path, byte), line));
        }
    }
    // Some of many.
    let step = documents.len().div_ceil(14).max(1);
    let documents: Vec<_> = documents.into_iter().step_by(step).collect();
    let named: Vec<_> =
        documents.iter().map(|((path, _), line)| (path.display().to_string(), *line)).collect();
    let found = search(run(config, batches, check.trail_every), &named);
    for ((key, line), found) in documents.iter().zip(found) {
        let without = found.found.iter().map(|place| Place { epoch: None, ..*place }).collect::<Vec<_>>();
        let mut expected = expected.get(key).cloned().unwrap_or_default();
        expected.sort_unstable();
        prop_assert_eq!(&without, &expected, "{:?} on line {:?}", key, line);
        prop_assert_eq!(found.reason.is_some(), expected.is_empty());
        let mut epochs: BTreeSet<_> = found.found.iter().map(|place| place.epoch).collect();
        if let (true, Some(all)) = (check.is_complete && check.percent == 100, config.pipeline.epochs) {
            let all: BTreeSet<_> = (0..all).map(Some).collect();
            // Where epochs are shorter than windows, or rows have a drawn order, an epoch may be unknown.
            if epochs.remove(&None) {
                prop_assert!(epochs.is_subset(&all));
                continue;
            }
            let is_held_out = config.pipeline.holdout > 0.0 && epochs.is_empty();
            prop_assert!(is_held_out || epochs == all, "{:?} in {:?}", key, found);
            let reason = found.reason.unwrap_or_default();
            prop_assert_eq!(is_held_out, reason.contains("held out"), "{}", reason);
        }
    }
    Ok(())
}

pub(crate) fn bytes(mut config: Config) -> Config {
    config.tokenizer.kind = TokenizerKind::Bytes;
    config
}

/// How much of a stream is searched, and how many batches there are between two cursors.
pub(crate) fn parts() -> impl Strategy<Value = (usize, usize)> {
    (1_usize..9, prop_oneof![2 => Just(100_usize), 1 => 1_usize..100])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_all_batches_have(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), split in 4_u64..200,
        (trail_every, percent) in parts(), holdout: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let mut config = bytes(Config { sources: vec![corpus.source(directory.path())], ..config });
        config.sources[0].split = Some(millstream::config::ByteCount(split));
        let pipeline = &mut config.pipeline;
        (pipeline.uneven, pipeline.last) = (uneven, last);
        pipeline.holdout = if holdout { 0.3 } else { 0.0 };
        let is_complete = uneven == Uneven::Pad && last != Last::Drop;
        let corpora = [(corpus, directory.path().to_owned())];
        finds_all(&config, &corpora, &Check { trail_every, percent, is_complete })?;
    }

    #[test]
    fn also_in_mixtures(
        first in corpora(), second in corpora(), config in configs(), weights in [0_u32..4, 1..4],
        (trail_every, percent) in parts(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let corpora = [first, second];
        let config = bytes(mixed(config, directory.path(), &corpora, &weights, &[None, None]));
        let homes = [0, 1].map(|index| directory.path().join(index.to_string()));
        let corpora: Vec<_> = corpora.into_iter().zip(homes).collect();
        finds_all(&config, &corpora, &Check { trail_every, percent, is_complete: true })?;
    }

    #[test]
    fn also_in_token_shards(
        corpus in corpora(), config in configs(), split in 4_u64..200, (trail_every, percent) in parts(),
        is_global: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let text = Config { sources: vec![corpus.source(directory.path())], ..config };
        let window = text.pipeline.window;
        let mut config = shuffled(text, directory.path(), split);
        if !is_global {
            (config.pipeline.shuffle, config.pipeline.window) = (ShuffleRule::Window, window);
        }
        let corpora = [(corpus, directory.path().to_owned())];
        finds_all(&config, &corpora, &Check { trail_every, percent, is_complete: true })?;
    }

    #[test]
    fn also_in_batches_of_a_budget(
        corpus in corpora(), config in budgets(), (trail_every, percent) in parts(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let config = bytes(Config { sources: vec![corpus.source(directory.path())], ..config });
        let corpora = [(corpus, directory.path().to_owned())];
        finds_all(&config, &corpora, &Check { trail_every, percent, is_complete: true })?;
    }
}

pub(crate) fn written(directory: &Path, count: usize, epochs: u64) -> Config {
    let mut config = bytes(lines(directory, count));
    config.pipeline.epochs = Some(epochs);
    config
}

/// What is read for a document does not grow with the run.
#[test]
fn little_is_read_for_a_document() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = written(directory.path(), 3000, 1);
    let batches = block_on(all(&config)).expect("no errors");
    let documents = [20, 1500, 2900].map(|line| ("lines.txt".to_owned(), Some(line)));
    for found in search(run(&config, &batches, 5), &documents) {
        assert_eq!(found.of_batches, batches.len() as u64);
        assert!(found.read_batches * 10 < found.of_batches, "{found:?}");
        assert!(!found.found.is_empty());
    }
    // A run that goes on: what it has not reached costs the end of it.
    let config = written(directory.path(), 3000, 2);
    let half = &batches[..batches.len() / 2];
    let found = search(run(&config, half, 5), &documents);
    assert_eq!(found.iter().map(|found| found.found.is_empty()).collect::<Vec<_>>(), [false, false, true]);
    assert!(found.iter().all(|found| found.read_batches * 5 < found.of_batches), "{found:?}");
    let reason = found[2].reason.as_ref().expect("a reason");
    assert!(reason.contains("has not reached it"), "{reason}");
    // Without a trail all of it is read.
    let whole = Run { trail: Vec::new(), ..run(&config, half, 5) };
    assert_eq!(search(whole, &documents[..1])[0].read_batches, half.len() as u64);
}

#[test]
fn lines_of_compressed_files_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = written(directory.path(), 300, 1);
    let plain = std::fs::read(directory.path().join("lines.txt")).expect("a file");
    let packed = std::fs::File::create(directory.path().join("lines.txt.gz")).expect("a file");
    let mut packer = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packer.write_all(&plain).and_then(|()| packer.finish().map(drop)).expect("written");
    config.sources[0].paths = vec![format!("{}/lines.txt.gz", directory.path().display())];
    let batches = block_on(all(&config)).expect("no errors");
    let expected = places(&batches);
    let text = String::from_utf8(plain).expect("text");
    let documents: Vec<_> =
        (1..=300).step_by(13).map(|line| ("lines.txt.gz".to_owned(), Some(line))).collect();
    let found = search(run(&config, &batches, 3), &documents);
    for ((_, asked), found) in documents.iter().zip(found) {
        let key = expected.keys().find(|(_, byte)| Some(line(&text, *byte)) == *asked).expect("a document");
        let all = found.found.iter().map(|place| Place { epoch: None, ..*place });
        assert!(all.eq(expected[key].iter().copied()), "{asked:?}: {found:?}");
    }
}

/// The batches that follow a cursor.
pub(crate) fn rest(config: &Config, cursor: &Cursor) -> Vec<Batch> {
    block_on(async {
        let loader = open(config, Some(cursor)).await.expect("it opens");
        loader.try_collect().await.expect("no errors")
    })
}

/// The config changes between sessions: batches have more rows, and the corpus has another epoch.
#[test]
fn a_run_that_went_on_with_changes_is_read_session_by_session() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = written(directory.path(), 400, 1);
    let mut second = first.clone();
    (second.pipeline.batch_size, second.pipeline.epochs) = (6, Some(2));
    second.exclude.batches = vec![(30, 32)];
    let path = directory.path().join("lines.txt");
    let text = std::fs::read_to_string(&path).expect("a file");
    let out = |line: usize| ExcludedDocument {
        path: path.clone(),
        byte: text.match_indices('\n').nth(line - 2).expect("a line").0 as u64 + 1,
    };
    // One that the first session has delivered, and one that it has not.
    second.exclude.documents = vec![out(10), out(388)];
    let before = block_on(all(&first)).expect("no errors");
    let before = &before[..20];
    let cursor = before[19].cursor();
    let after = rest(&second, cursor);
    let batches: Vec<Batch> = before.iter().cloned().chain(after).collect();
    let sessions = vec![Session { begins: 0, config: first }, Session { begins: 20, config: second.clone() }];
    let run = Run { sessions, ..run(&second, &batches, 7) };
    assert_eq!(run.excluded_batches(), [30..32]);
    let expected = places(&batches);
    let documents: Vec<_> = (1..=400).step_by(9).map(|line| ("lines.txt".to_owned(), Some(line))).collect();
    let found = search(run, &documents);
    for ((_, asked), found) in documents.iter().zip(found) {
        let key = expected.keys().find(|(_, byte)| Some(line(&text, *byte)) == *asked);
        let all = found.found.iter().map(|place| Place { epoch: None, ..*place });
        let expected = key.map(|key| expected[key].clone()).unwrap_or_default();
        let is_excluded = found.reason.as_ref().is_some_and(|reason| reason.contains("from batch 20 on"));
        assert_eq!(is_excluded, *asked == Some(388), "{found:?}");
        assert!(all.eq(expected.iter().copied()), "{asked:?}: {found:?} {expected:?}");
    }
}

/// Each record of a file of records is found by the number that a batch says of it: its line, or else its place.
#[test]
fn records_are_found_by_the_number_that_batches_say() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [
        ("a.csv", SourceKind::Csv, "id,text\n1,one\n\n\n2,\"two\nlines\"\n3,three\n\n4,four\n"),
        (
            "b.json",
            SourceKind::Jsonl,
            "[{\"text\": \"one\"},\n  {\"text\": \"two\"}, {\"text\": \"three\"},\n\n{\"text\": \"four\"}]\n",
        ),
        (
            "c.jsonl",
            SourceKind::Jsonl,
            "\u{feff}{\"text\": \"one\"}\n\n{\"text\": \"two\"}\n{\"text\": \"three\"}",
        ),
    ];
    for (name, kind, text) in files {
        std::fs::write(directory.path().join(name), text).expect("a file");
        let mut config = written(directory.path(), 1, 1);
        let source = &mut config.sources[0];
        (source.kind, source.field) = (kind, Some("text".to_owned()));
        source.paths = vec![directory.path().join(name).display().to_string()];
        let batches = block_on(all(&config)).expect("no errors");
        let mut records = BTreeSet::new();
        for batch in &batches {
            let numbers = batch.pieces().iter().map(|piece| (batch.line(piece), piece.position.byte));
            records.extend(numbers);
        }
        assert!(records.len() > 2, "{name}: {records:?}");
        let numbers: BTreeSet<u64> =
            records.iter().map(|(line, byte)| if *line > 0 { *line } else { *byte }).collect();
        let documents: Vec<_> = numbers.iter().map(|number| (name.to_owned(), Some(*number))).collect();
        let pieces: usize = batches.iter().map(|batch| batch.pieces().len()).sum();
        let found = search(run(&config, &batches, 1), &documents);
        assert!(found.iter().all(|found| !found.found.is_empty()), "{name}: {found:?}");
        assert_eq!(found.iter().map(|found| found.found.len()).sum::<usize>(), pieces, "{name}: {records:?}");
    }
}
