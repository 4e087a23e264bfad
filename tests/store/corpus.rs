//! Corpora that lie on disk and on a server, and what streams make of them.

use std::fs;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use millstream::config::{ByteCount, Config, SourceConfig, StoreConfig};
use millstream::{Batch, Error, LaneCursor, Result, Source};
use proptest::prelude::*;

pub(crate) use crate::support::loaders::open;
use crate::support::loaders::{all_of, builder, resumes_of};
pub(crate) use crate::support::runtime::block_on;
use crate::support::server::{Content, Fault, Server};
use crate::support::wait::PATIENCE;

/// Files of numbered lines: `counts` of them in each.
pub(crate) fn files(counts: &[usize]) -> Vec<(String, Vec<u8>)> {
    let text = |file: usize, lines: usize| -> String {
        (0..lines)
            .map(|line| format!("{file}/{line}: {}\n", "word ".repeat((line * 7 + file) % 23)))
            .collect()
    };
    counts
        .iter()
        .enumerate()
        .map(|(file, &lines)| (format!("d/{file:03}.txt"), text(file, lines).into()))
        .collect()
}

pub(crate) fn serve(files: &[(String, Vec<u8>)]) -> Server {
    Server::new(files.iter().map(|(name, bytes)| (name.clone(), Content::new(bytes.clone()))))
}

pub(crate) fn write(directory: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, bytes).expect("written");
    }
}

pub(crate) fn lines(paths: Vec<String>) -> SourceConfig {
    SourceConfig { paths, split: Some(ByteCount(20_000)), ..SourceConfig::default() }
}

pub(crate) fn remote(server: &Server, files: &[(String, Vec<u8>)]) -> SourceConfig {
    lines(files.iter().map(|(name, _)| server.url(name)).collect())
}

/// Small pieces and short pauses between attempts; only what never comes takes so long as to fail.
pub(crate) fn hasty() -> StoreConfig {
    StoreConfig {
        block: ByteCount(4096),
        backoff: 0.001,
        backoff_max: 0.01,
        timeout: PATIENCE.as_secs_f64(),
        deadline: PATIENCE.as_secs_f64(),
        ..StoreConfig::default()
    }
}

/// A store whose first failed request is its last: the next one would come after the deadline.
pub(crate) fn asked_once() -> StoreConfig {
    let later = 3.0 * PATIENCE.as_secs_f64();
    StoreConfig { backoff: later, backoff_max: later, ..hasty() }
}

/// A loader's config over `source`.
pub(crate) fn config(source: SourceConfig) -> Config {
    let mut config = Config { sources: vec![source], store: hasty(), ..Config::default() };
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    let pipeline = &mut config.pipeline;
    (pipeline.lanes, pipeline.batch_size, pipeline.window) = (2.into(), 4, 50.into());
    (pipeline.seq_len, pipeline.epochs, pipeline.memory) = (96, Some(2), ByteCount::mib(8));
    config
}

/// A batch's ids, and its documents' files and bytes.
pub(crate) type Row = (Vec<u32>, Vec<(u32, u64)>);

/// All rows of some batches.
pub(crate) fn rows(batches: &[Batch]) -> Vec<Row> {
    let places =
        |batch: &Batch| batch.pieces().iter().map(|it| (it.position.file, it.position.byte)).collect();
    batches.iter().map(|batch| (batch.ids().to_vec(), places(batch))).collect()
}

pub(crate) async fn batches(config: &Config) -> Result<Vec<Batch>> {
    all_of(builder(config)).await
}

/// The text of all documents, in order, and what ended them.
pub(crate) async fn texts(source: &Source) -> (Vec<String>, Option<Error>) {
    let mut documents = source.documents(&LaneCursor::default());
    let mut texts = Vec::new();
    while let Some(document) = documents.next().await {
        match document {
            Ok(document) => texts.push(document.value.text().to_owned()),
            Err(error) => return (texts, Some(error)),
        }
    }
    (texts, None)
}

pub(crate) async fn open_source(source: &SourceConfig, store: &StoreConfig) -> Result<Source> {
    Source::open_with(std::slice::from_ref(source), store).await
}

/// An error and what caused it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {}", chain(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

/// Asserts that the first `batches` batches come again from the cursor of each.
pub(crate) fn assert_resumes(config: &Config, batches: usize) {
    assert_eq!(block_on(resumes_of(|| builder(config), batches)), Ok(()));
}

/// What may go wrong and be mended.
pub(crate) fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::Nothing),
        1 => Just(Fault::Closed),
        1 => prop::sample::select(vec![500, 502, 503, 429, 408]).prop_map(|status| Fault::Status(status, None)),
        2 => (0_usize..6000).prop_map(Fault::Cut),
        2 => (1_usize..6000).prop_map(Fault::Short),
    ]
}

/// The entries of a cache, and what is not finished.
pub(crate) fn entries(directory: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let below = |path: &Path| -> Vec<PathBuf> {
        let found = fs::read_dir(path).into_iter().flatten();
        found.map(|it| it.expect("an entry").path()).collect()
    };
    let all: Vec<PathBuf> = below(directory).iter().flat_map(|path| below(path)).collect();
    all.into_iter().partition(|path| !path.starts_with(directory.join("unfinished")))
}

/// How much a cache holds, in bytes.
pub(crate) fn size(directory: &Path) -> u64 {
    let (entries, unfinished) = entries(directory);
    let len = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    entries.iter().chain(&unfinished).map(len).sum()
}
