//! Shard directories of several sources, read as one source and exported together.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use futures::TryStreamExt;
use millstream::config::{Config, DocumentKind, PackRule, SourceConfig, SourceKind, TokenizerKind};
use millstream::prepare::{TokenFormat, export, prepare};
use millstream::{Batch, Loader};

use crate::exchange::documents;
use crate::text::{all, assert_same, run};

/// Three sources, with documents of three kinds. Returns the config, and the documents.
fn sources(directory: &Path) -> (Config, BTreeSet<String>) {
    let mut texts = BTreeSet::new();
    let mut written = |name: &str, text: &dyn Fn(usize) -> String, around: [&str; 2]| {
        let mut file = String::new();
        for n in 0..40 {
            texts.insert(text(n));
            file += &format!("{}{}{}\n", around[0], text(n), around[1]);
        }
        fs::write(directory.join(name), file).expect("a file");
    };
    written("lines.txt", &|n| format!("line {n}"), ["", ""]);
    written("web.jsonl", &|n| format!("page {n} of the web"), ["{\"text\": \"", "\"}"]);
    for n in 0..30 {
        let text = format!("book {n}\nof two lines");
        fs::write(directory.join(format!("{n}.book")), &text).expect("a file");
        texts.insert(text);
    }
    let source = |name: &str, kind, paths: &str| SourceConfig {
        name: Some(name.to_owned()),
        kind,
        paths: vec![directory.join(paths).display().to_string()],
        field: (kind == SourceKind::Jsonl).then(|| "text".to_owned()),
        ..SourceConfig::default()
    };
    let mut books = source("books", SourceKind::Text, "*.book");
    books.document = DocumentKind::File;
    let sources = vec![
        source("web", SourceKind::Jsonl, "web.jsonl"),
        books,
        source("lines", SourceKind::Text, "lines.txt"),
    ];
    let mut config = Config { sources, ..Config::default() };
    config.tokenizer.kind = TokenizerKind::Bytes;
    (config, texts)
}

/// A config that reads the shards at these paths as one source.
fn read(paths: &[&Path]) -> Config {
    let paths = paths.iter().map(|path| path.display().to_string()).collect();
    let source = SourceConfig { kind: SourceKind::Shards, paths, ..SourceConfig::default() };
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.kind = TokenizerKind::Bytes;
    config.pipeline.pack = PackRule::Pad;
    (config.pipeline.seq_len, config.pipeline.batch_size) = (64, 2);
    (config.pipeline.lanes, config.pipeline.window) = (2.into(), 7.into());
    config.pipeline.epochs = Some(1);
    config
}

/// The text of each document, which is a row.
fn texts(batches: &[Batch]) -> Vec<String> {
    let text = |batch: &Batch| {
        let row = |piece: &millstream::batch::Piece| {
            let ids = &batch.row(piece.row as usize)[piece.from as usize..piece.to as usize];
            ids.iter().map(|id| char::from(*id as u8)).collect::<String>()
        };
        batch.pieces().iter().map(row).collect::<Vec<_>>()
    };
    batches.iter().flat_map(text).collect()
}

#[test]
fn all_of_them_are_one_source() {
    let directory = tempfile::tempdir().expect("a directory");
    let (config, expected) = sources(directory.path());
    let shards = directory.path().join("shards");
    run(prepare(&config, &shards, |_| {})).expect("prepared");
    let each = ["web", "books", "lines"].map(|name| shards.join(name));
    let whole = read(&[&shards]);
    let batches = all(&whole, None).expect("batches");
    let found = texts(&batches);
    assert_eq!(found.len(), expected.len(), "each document comes once");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    // A resume is exact, from wherever the cursor is, within a file that is a document or has many.
    for batch in &batches {
        let rest = all(&whole, Some(batch.cursor())).expect("a cursor of them");
        assert_same(&batches[batch.number() as usize + 1..], &rest);
    }
    // However they are named, the order is the same.
    for paths in [&[&*shards.join("*")][..], &[&*each[2], &*each[0], &*each[1]], &[&*shards, &*each[1]]] {
        assert_same(&batches, &all(&read(paths), None).expect("batches"));
    }
}

#[test]
fn all_of_them_are_exported() {
    let directory = tempfile::tempdir().expect("a directory");
    let (config, expected) = sources(directory.path());
    let (shards, out) = (directory.path().join("shards"), directory.path().join("ids.bin"));
    run(prepare(&config, &shards, |_| {})).expect("prepared");
    let done = export(&shards, TokenFormat::Megatron, &out, None).expect("exported");
    assert_eq!(done.documents, expected.len() as u64);
    let again = directory.path().join("again");
    let how = millstream::prepare::Import { eos: None, width: 2 };
    let tokenizer = millstream::tokenizer::ByteTokenizer;
    millstream::prepare::import(&out, TokenFormat::Megatron, how, &tokenizer, &again).expect("imported");
    assert_eq!(documents(&again).expect("read").into_iter().collect::<BTreeSet<_>>(), expected);
}

#[test]
fn one_that_is_not_whole_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (config, _) = sources(directory.path());
    let shards = directory.path().join("shards");
    run(prepare(&config, &shards, |_| {})).expect("prepared");
    let refused = |paths: &[&Path]| all(&read(paths), None).expect_err("a refusal").to_string();
    // As a kill leaves it before anything is tokenized.
    let manifest = shards.join("books/manifest.json");
    let text = fs::read(&manifest).expect("a manifest");
    fs::remove_file(&manifest).expect("removed");
    let expected = format!("{}: there is no manifest of token shards", manifest.display());
    assert!(refused(&[&shards]).starts_with(&expected), "{}", refused(&[&shards]));
    fs::write(&manifest, text).expect("written");
    let segments =
        fs::read_dir(shards.join("books")).expect("a directory").map(|entry| entry.expect("one").path());
    for segment in segments.filter(|path| path.extension().is_some_and(|extension| extension == "tokens")) {
        fs::remove_file(segment).expect("removed");
    }
    let expected = format!("{}: 0 of 30 splits are there", shards.join("books").display());
    assert!(refused(&[&shards]).starts_with(&expected), "{}", refused(&[&shards]));

    let none = directory.path().join("none*");
    assert!(refused(&[&none]).starts_with("no directory matches"), "{}", refused(&[&none]));
    let absent = directory.path().join("absent");
    assert!(refused(&[&absent]).contains("absent: there is no such directory"), "{}", refused(&[&absent]));
}

#[test]
fn directories_of_two_tokenizers_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (config, _) = sources(directory.path());
    let shards = directory.path().join("shards");
    for (name, kind) in [("lines", TokenizerKind::Bytes), ("other", TokenizerKind::Subwords)] {
        let mut one = Config { sources: vec![config.sources[2].clone()], ..config.clone() };
        one.tokenizer.kind = kind;
        one.tokenizer.path =
            (kind == TokenizerKind::Subwords).then(|| "tests/data/tokenizers/unigram.json".into());
        run(prepare(&one, &shards.join(name), |_| {})).expect("prepared");
    }
    let config = read(&[&shards]);
    let refused = run(async { Loader::open(&config).await?.try_collect::<Vec<_>>().await });
    let refused = refused.expect_err("a refusal").to_string();
    assert!(
        refused.contains("was made by the tokenizer bytes, and") && refused.contains("other"),
        "{refused}"
    );
}
