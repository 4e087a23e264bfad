//! Small corpora and configs, and what a slow and simple reader makes of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt};
use millstream::config::{ByteCount, Config, DocumentKind, Last, PackRule, SourceConfig, SourceKind, Uneven};
use millstream::conformance::Violation;
use millstream::cursor::Ledger;
use millstream::loader::LoaderBuilder;
use millstream::{Batch, Cursor, Error, Result};
use proptest::prelude::*;

pub(crate) use crate::support::loaders::{all_of, builder, open, reread, resumes_of, values};
pub(crate) use crate::support::runtime::block_on;

/// A corpus: its files by name, as lists of documents, and how they are written.
#[derive(Clone, Debug)]
pub(crate) struct Corpus {
    pub(crate) kind: SourceKind,
    pub(crate) document: DocumentKind,
    pub(crate) files: BTreeMap<String, Vec<String>>,
    pub(crate) crlf: bool,
    pub(crate) last_newline: bool,
}

impl Corpus {
    /// Writes the files under `directory` and says where each document begins: path, byte, text.
    pub(crate) fn write(&self, directory: &Path) -> Vec<(PathBuf, u64, String)> {
        let end = if self.crlf { "\r\n" } else { "\n" };
        let mut all = Vec::new();
        for (name, documents) in &self.files {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            let mut text = String::new();
            for (index, document) in documents.iter().enumerate() {
                let begins = text.len() as u64;
                let (document, after) = match (self.kind, self.document) {
                    (SourceKind::Jsonl, _) => {
                        let line = serde_json::json!({ "id": index, "doc": { "text": document } });
                        text.push_str(&line.to_string());
                        (document.clone(), end.to_owned())
                    }
                    (_, DocumentKind::Line) => (push(&mut text, document), end.to_owned()),
                    (_, DocumentKind::Paragraph) => {
                        let document = document.replace(' ', end);
                        (push(&mut text, &document), end.repeat(2 + index % 2))
                    }
                    (_, _) => (push(&mut text, document), String::new()),
                };
                all.push((path.clone(), begins, document));
                let last = index + 1 == documents.len();
                if !last || self.last_newline {
                    text.push_str(&after);
                }
            }
            std::fs::write(path, text).expect("a file");
        }
        all
    }

    pub(crate) fn source(&self, directory: &Path) -> SourceConfig {
        SourceConfig {
            kind: self.kind,
            document: self.document,
            field: (self.kind == SourceKind::Jsonl).then(|| "doc.text".to_owned()),
            paths: vec![format!("{}/**/*.txt", directory.display())],
            ..SourceConfig::default()
        }
    }
}

fn push(text: &mut String, document: &str) -> String {
    text.push_str(document);
    document.to_owned()
}

/// Corpora of a few files, of documents from one byte to hundreds.
pub(crate) fn corpora() -> impl Strategy<Value = Corpus> {
    let shapes = prop_oneof![
        Just((SourceKind::Text, DocumentKind::Line)),
        Just((SourceKind::Text, DocumentKind::Paragraph)),
        Just((SourceKind::Text, DocumentKind::File)),
        Just((SourceKind::Jsonl, DocumentKind::Line)),
    ];
    let document = prop_oneof![8 => "[a-zé€😀]{2,12}( [a-z]{1,9}){0,4}", 1 => "[a-z]{200,400}"];
    (shapes, any::<bool>(), any::<bool>()).prop_flat_map(
        move |((kind, document_kind), crlf, last_newline)| {
            let most = if document_kind == DocumentKind::File { 2 } else { 14 };
            let documents = prop::collection::vec(document.clone(), 0..most);
            prop::collection::btree_map("(x/)?[a-z]{1,3}\\.txt", documents, 1..6)
                .prop_filter("a corpus has documents", |files| files.values().any(|file| !file.is_empty()))
                .prop_map(move |files| Corpus { kind, document: document_kind, files, crlf, last_newline })
        },
    )
}

/// Settings that are part of the order, around a source that is set later.
pub(crate) fn configs() -> impl Strategy<Value = Config> {
    let order = (1_usize..4, any::<bool>(), 1_usize..40, 1_usize..40, 1_usize..4, 1_usize..5);
    let mode = prop_oneof![Just(PackRule::Concat), Just(PackRule::Pad), Just(PackRule::BestFit)];
    let pack = (mode, prop::option::of(1_usize..5), 1_usize..24);
    (order, pack, 1_u64..3, any::<u64>(), any::<bool>()).prop_map(
        |((lanes, shuffle_splits, window, seq_len, ahead, batch_size), pack, epochs, seed, eos)| {
            let mut config = Config { seed, ..Config::default() };
            config.tokenizer.eos = eos.then(|| "<|endoftext|>".to_owned());
            let pipeline = &mut config.pipeline;
            pipeline.lanes = lanes.into();
            pipeline.shuffle_splits = shuffle_splits;
            pipeline.window = window.into();
            (pipeline.seq_len, pipeline.ahead) = (seq_len, ahead.min(seq_len));
            (pipeline.pack, pipeline.max_segments, pipeline.pack_window) = (pack.0, pack.1, pack.2);
            pipeline.batch_size = batch_size;
            pipeline.epochs = Some(epochs);
            pipeline.memory = ByteCount::mib(16);
            config
        },
    )
}

/// How finite streams end.
pub(crate) fn rules() -> impl Strategy<Value = (Uneven, Last)> {
    let uneven = prop::sample::select(vec![Uneven::Pad, Uneven::Wrap, Uneven::Stop]);
    (uneven, prop::sample::select(vec![Last::Short, Last::Drop, Last::Pad]))
}

/// A corpus of numbered lines in one file, and a config that reads them.
pub(crate) fn lines(directory: &Path, count: usize) -> Config {
    let text: String = (0..count).map(|line| format!("line {line} of the corpus\n")).collect();
    std::fs::write(directory.join("lines.txt"), text).expect("a file");
    let paths = vec![format!("{}/lines.txt", directory.display())];
    // One lane that reads one file from its start to its end.
    let sources = vec![SourceConfig { paths, split: Some(ByteCount::mib(64)), ..SourceConfig::default() }];
    let mut config = Config { sources, ..Config::default() };
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    config.pipeline.lanes = 1.into();
    config.pipeline.seq_len = 64;
    config.pipeline.batch_size = 4;
    config.pipeline.window = 64.into();
    config.pipeline.epochs = Some(1);
    config.pipeline.memory = ByteCount::mib(16);
    config
}

/// Reads a loader to its end: its batches, and the ledger after the last one. `None` if it has no document.
pub(crate) fn read(builder: LoaderBuilder) -> Option<(Vec<Batch>, Ledger)> {
    let read = block_on(async {
        let mut loader = builder.open().await?;
        let batches: Vec<Batch> = loader.by_ref().try_collect().await?;
        Ok((batches, loader.ledger()))
    });
    match read {
        Err(Error::Corpus { .. }) => None,
        read => Some(read.expect("no error")),
    }
}

/// Checks that a loader which resumes comes to the same ledger, and to the same cursor after each of the `rest`.
pub(crate) fn goes_on(builder: LoaderBuilder, rest: &[Batch], end: &Ledger) -> Result<(), TestCaseError> {
    let (again, end_again) = read(builder).expect("it opens");
    for (again, once) in again.iter().zip(rest) {
        prop_assert_eq!(again.cursor(), once.cursor());
    }
    prop_assert_eq!(again.len(), rest.len());
    prop_assert_eq!(&end_again, end);
    Ok(())
}

/// A config whose sources are `corpora`, written under `directory`, the first of them with a weight above zero.
pub(crate) fn mixed(
    mut config: Config,
    directory: &Path,
    corpora: &[Corpus],
    weights: &[u32],
    epochs: &[Option<u64>],
) -> Config {
    for (index, corpus) in corpora.iter().enumerate() {
        let home = directory.join(index.to_string());
        corpus.write(&home);
        let weight = Some(f64::from(weights[index]) + if index == 0 { 1.0 } else { 0.0 });
        config.sources.push(SourceConfig { weight, epochs: epochs[index], ..corpus.source(&home) });
    }
    config
}

/// All batches of a finite stream.
pub(crate) async fn all(config: &Config) -> Result<Vec<Batch>> {
    all_of(builder(config)).await
}

pub(crate) fn digests(batches: &[Batch]) -> Vec<String> {
    batches.iter().map(|batch| batch.digest().to_string()).collect()
}

/// That resuming from any of the first cursors gives the batches that follow.
pub(crate) async fn resumes(config: &Config) -> std::result::Result<(), Violation> {
    resumes_of(|| builder(config), 40).await
}

/// A row: its ids, without padding, and which places are masked.
pub(crate) type Row = (Vec<u32>, Vec<Range<usize>>);

/// The rows of a batch.
pub(crate) fn unpadded(batch: &Batch) -> Vec<Row> {
    let row = |row: usize| {
        let masked = batch.masked().filter(|(of, _)| *of == row).map(|(_, places)| places).collect();
        (batch.row(row)[..batch.lengths()[row] as usize].to_vec(), masked)
    };
    (0..batch.rows()).map(row).collect()
}

/// Up to `most` batches of each rank of `world`, from a cursor or the start.
pub(crate) fn ranks(config: &Config, world: usize, from: Option<&Cursor>, most: usize) -> Vec<Vec<Batch>> {
    block_on(ranks_of(config, builder, world, |_| from.cloned(), most)).expect("no errors")
}

/// The same of any loader, each rank from a cursor of its own.
async fn ranks_of(
    config: &Config,
    builder: impl Fn(&Config) -> LoaderBuilder,
    world: usize,
    from: impl Fn(usize) -> Option<Cursor>,
    most: usize,
) -> Result<Vec<Vec<Batch>>> {
    let mut ranks = Vec::new();
    for rank in 0..world {
        let mut config = config.clone();
        (config.pipeline.rank, config.pipeline.world) = (Some(rank), Some(world));
        let builder = from(rank).into_iter().fold(builder(&config), LoaderBuilder::with_cursor);
        ranks.push(builder.open().await?.take(most).try_collect::<Vec<Batch>>().await?);
    }
    Ok(ranks)
}

/// The ranks' rows in the order of one process.
pub(crate) fn dealt(ranks: &[Vec<Batch>]) -> Vec<Vec<Row>> {
    let steps = ranks[0].len();
    assert!(ranks.iter().all(|batches| batches.len() == steps), "each rank has as many steps as the others");
    let step = |step: usize| {
        let parts: Vec<Vec<Row>> = ranks.iter().map(|batches| unpadded(&batches[step])).collect();
        assert!(parts.iter().all(|rows| rows.len() == parts[0].len()), "and as many rows");
        let rows = 0..parts[0].len() * parts.len();
        rows.map(|row| parts[row % parts.len()][row / parts.len()].clone()).collect()
    };
    (0..steps).map(step).collect()
}

/// That the ranks of one world make the rows of `one` process, and that after `cut` batches each of them goes on from
/// its own cursor, and another world from all of these. `one` is all batches of a finite stream, or some of an endless
/// one.
pub(crate) async fn worlds_agree(
    config: &Config,
    builder: impl Fn(&Config) -> LoaderBuilder,
    one: &[Batch],
    worlds: &[usize],
    cut: usize,
) -> std::result::Result<(), TestCaseError> {
    let most = if config.pipeline.epochs.is_some() { usize::MAX } else { one.len() };
    let first = match ranks_of(config, &builder, worlds[0], |_| None, most).await {
        Err(Error::Corpus { .. }) if one.is_empty() => return Ok(()),
        first => first.expect("no errors"),
    };
    let expected: Vec<Vec<Row>> = one.iter().map(unpadded).collect();
    prop_assert_eq!(&dealt(&first), &expected);
    let cut = cut.min(one.len());
    let cursors = |ranks: &[Vec<Batch>], step: usize| -> Vec<Cursor> {
        ranks.iter().map(|batches| batches[step].cursor().clone()).collect()
    };
    let saved = cursors(&first, cut - 1);
    // As it is written: the stream's length may be known or not.
    let alone = ranks_of(config, &builder, worlds[0], |rank| Some(reread(&saved[rank])), most - cut).await;
    prop_assert_eq!(&dealt(&alone.expect("no errors")), &expected[cut..]);
    let whole = Cursor::merge(&saved).expect("they are of one batch");
    prop_assert_eq!(whole.digest(), one[cut - 1].cursor().digest());
    let second = ranks_of(config, &builder, worlds[1], |_| Some(whole.clone()), most - cut).await;
    let second = second.expect("no errors");
    prop_assert_eq!(&dealt(&second), &expected[cut..]);
    if let Some(next) = one.get(cut) {
        let merged = Cursor::merge(&cursors(&second, 0)).expect("they are of one batch");
        prop_assert_eq!(merged.digest(), next.cursor().digest());
    }
    Ok(())
}
