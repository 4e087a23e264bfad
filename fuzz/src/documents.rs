//! Files of documents: whatever is in them, the same documents come out at any read size and after any resume.

use std::sync::Arc;

use futures::StreamExt;
use millstream::config::{SourceConfig, SourceKind};
use millstream::files::Position;
use millstream::source::Lane;
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{ByteTokenizer, Encoder};
use millstream::{Error, LaneCursor, Source, Tracked};

use crate::desk::{Desk, two_files};
use crate::settings::Settings;

/// Reading stops after this many documents or bytes, so that a small file of a large text does not stop the fuzzer.
const MOST_DOCUMENTS: usize = 4 << 10;
const MOST_BYTES: usize = 1 << 20;

pub(crate) fn text(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let path = Desk::with(|desk| desk.write("text.txt", file));
    check(&settings, SourceConfig { document: settings.document(), ..SourceConfig::text(path) });
}

pub(crate) fn jsonl(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let path = Desk::with(|desk| desk.write("lines.jsonl", file));
    let field = ["text", "a.b"][settings.choice(2)];
    check(&settings, SourceConfig::jsonl(path, field));
}

pub(crate) fn csv(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let path = Desk::with(|desk| desk.write("rows.csv", file));
    check(
        &settings,
        match settings.choice(2) {
            0 => SourceConfig::csv(path, "text"),
            _ => SourceConfig::tsv(path, "text"),
        },
    );
}

pub(crate) fn tar(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let path = Desk::with(|desk| desk.write("members.tar", file));
    let field = ["txt", "json.text"][settings.choice(2)];
    check(&settings, SourceConfig::tar(path, field));
}

/// Streams of several programs, by the extension.
pub(crate) fn compressed(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let name = ["lines.gz", "lines.bz2", "lines.xz"][settings.choice(3)];
    let path = Desk::with(|desk| desk.write(name, file));
    check(&settings, SourceConfig::text(path));
}

/// Frames, skippable frames and seek tables.
pub(crate) fn zstd(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let path = Desk::with(|desk| desk.write("lines.zst", file));
    check(&settings, SourceConfig::text(path));
}

pub(crate) fn parquet(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let path = Desk::with(|desk| desk.write("table.parquet", file));
    check(&settings, SourceConfig::parquet(path, "text"));
}

pub(crate) fn arrow(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let path = Desk::with(|desk| desk.write("table.arrow", file));
    check(&settings, SourceConfig::arrow(path, "text"));
}

/// A condition on the rows of a table that is as it should be.
pub(crate) fn filter(input: &[u8]) {
    const TABLE: &[u8] = include_bytes!("../../tests/data/formats/snappy.parquet");
    let (condition, settings) = Settings::split(input);
    let Ok(condition) = std::str::from_utf8(condition) else { return };
    let path = Desk::with(|desk| desk.write("rows.parquet", TABLE));
    check(
        &settings,
        SourceConfig { filter: Some(condition.to_owned()), ..SourceConfig::parquet(path, "text") },
    );
}

/// An index and a shard.
pub(crate) fn mds(input: &[u8]) {
    let (files, settings) = Settings::split(input);
    let (index, shard) = two_files(files);
    let directory = Desk::with(|desk| {
        desk.write("mds/index.json", index);
        for name in ["shard.00000.mds", "shard.00000.mds.gz", "shard.00000.mds.zstd"] {
            desk.write(&format!("mds/{name}"), shard);
        }
        desk.path("mds").display().to_string()
    });
    check(&settings, SourceConfig::mds(directory, "text"));
}

/// The README of a dataset directory, which says where the data lies.
pub(crate) fn card(input: &[u8]) {
    let (card, settings) = Settings::split(input);
    let directory = Desk::with(|desk| {
        desk.write("dataset/README.md", card);
        desk.write("dataset/data/train.jsonl", b"{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
        desk.path("dataset").display().to_string()
    });
    check(&settings, SourceConfig::huggingface(directory, "text"));
}

/// A manifest and a segment.
pub(crate) fn shards(input: &[u8]) {
    let (files, settings) = Settings::split(input);
    let (manifest, segment) = two_files(files);
    let directory = Desk::with(|desk| {
        desk.write("shards/manifest.json", manifest);
        desk.write("shards/00000000-fuzzed.tokens", segment);
        desk.path("shards").display().to_string()
    });
    check(&settings, SourceConfig::shards(directory));
}

/// What a reader delivers, until it ends, fails or has delivered enough.
#[derive(Debug)]
struct Delivered {
    documents: Vec<Seen>,
    error: Option<String>,
    is_all: bool,
}

#[derive(Debug, PartialEq)]
struct Seen {
    ids: Vec<u32>,
    position: Position,
    cursor: LaneCursor,
}

/// Reads a source in large reads and in small ones, and once more from the cursor of one of its documents.
fn check(settings: &Settings, source: SourceConfig) {
    let mut source = settings.apply(source);
    // Shards know how they were made.
    if source.kind == SourceKind::Shards {
        source = SourceConfig { kind: source.kind, paths: source.paths, ..SourceConfig::default() };
    }
    Desk::with(|desk| {
        desk.run(async {
            let Ok(source) = Source::open(&[source]).await.map_err(check_error) else { return };
            let whole = read(&source, &LaneCursor::default()).await;
            let small = source.clone().with_slab_bytes(settings.slab_bytes()).with_on_demand(true);
            assert_same(&read(&small, &LaneCursor::default()).await, &whole, 0);
            if let Some(index) = settings.resumed_after(whole.documents.len()) {
                let rest = read(&source, &whole.documents[index].cursor).await;
                assert_same(&rest, &whole, index + 1);
            }
        });
    });
}

/// Compares what was read with what `whole` has after its first documents.
fn assert_same(read: &Delivered, whole: &Delivered, first: usize) {
    let expected = &whole.documents[first..];
    if read.is_all && whole.is_all {
        assert_eq!(read.documents, expected, "after document {first}");
        assert_eq!(read.error, whole.error, "after document {first}");
    } else {
        for (read, expected) in read.documents.iter().zip(expected) {
            assert_eq!(read, expected, "after document {first}");
        }
    }
}

async fn read(source: &Source, start: &LaneCursor) -> Delivered {
    let encoder = Encoder::new(Arc::new(ByteTokenizer));
    let mut documents = source.lane(Lane::default(), start).tokenize(&encoder, &Workers::new(1));
    let mut delivered = Delivered { documents: Vec::new(), error: None, is_all: true };
    let mut bytes = 0;
    while let Some(document) = documents.next().await {
        match document {
            Ok(Tracked { value, cursor }) => {
                bytes += value.len();
                let (ids, position) = (value.ids().into_owned(), value.position());
                delivered.documents.push(Seen { ids, position, cursor });
            }
            Err(error) => {
                delivered.error = Some(check_error(error));
                assert!(documents.next().await.is_none(), "nothing follows an error");
                return delivered;
            }
        }
        if delivered.documents.len() >= MOST_DOCUMENTS || bytes >= MOST_BYTES {
            delivered.is_all = false;
            return delivered;
        }
    }
    delivered
}

/// Data may be wrong in any way, and must never make a stage panic or say so at length.
fn check_error(error: Error) -> String {
    assert!(!matches!(error, Error::Panic { .. } | Error::Budget { .. }), "{error}");
    let message = error.to_string();
    assert!(message.len() < 4 << 10, "a message of {} bytes", message.len());
    message
}
