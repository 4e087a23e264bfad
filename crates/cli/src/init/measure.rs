//! Estimates the size of a source, by reading a part of it as a loader would.

use std::slice;

use futures::StreamExt;

use millstream::config::{SourceConfig, SourceKind, Task};
use millstream::source::Lane;
use millstream::{LaneCursor, Result, Source};

/// About how much of a source is read, in stored bytes.
const READ: u64 = 16 << 20;

/// The most text that is read of a source with long splits, in bytes.
const MOST: u64 = 256 << 20;

/// About how many times longer the text of such a source is than its files.
const UNPACKED: f64 = 4.0;

/// The estimated size of a source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) files: u64,
    /// Its text, in bytes.
    pub(super) text: u64,
    pub(super) documents: u64,
}

impl Size {
    /// Adds what another source has.
    pub(super) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.text += other.text;
        self.documents += other.documents;
    }
}

pub(super) async fn size(config: &SourceConfig) -> Result<Size> {
    let source = Source::open(slice::from_ref(config)).await?.quiet();
    let (files, stored) = (source.files().len() as u64, source.bytes());
    if config.kind == SourceKind::Shards {
        return Ok(Size { files, text: stored, documents: source.stored_documents() });
    }
    // Of a large source, one split in `lanes` is read.
    let lanes = (stored / READ).clamp(1, source.splits().max(1) as u64);
    let lane = Lane { lanes: lanes as usize, ..Lane::default() };
    let mut all = source.lane(lane, &LaneCursor::default());
    let (mut text, mut documents) = (0_u64, 0_u64);
    let is_whole = loop {
        match all.next().await {
            None => break true,
            Some(Err(error)) if documents == 0 => return Err(error),
            Some(Ok(document)) if text < MOST => {
                text += document.value.text_bytes() as u64;
                documents += 1;
            }
            Some(_) => break false,
        }
    };
    let least = if is_whole { 0.0 } else { UNPACKED * stored as f64 / text.max(1) as f64 };
    let scaled = |read: u64| (read as f64 * least.max(lanes as f64)) as u64;
    Ok(Size { files, text: scaled(text), documents: scaled(documents) })
}

/// About how long a conversation is in a table, in stored bytes.
const RECORD: u64 = 1 << 10;

/// The size of a source whose records a template renders: they are not rendered here, since the template may be missing
/// yet. Their own bytes stand for their text.
pub(super) async fn size_of_records(config: &SourceConfig) -> Result<Size> {
    let plain = SourceConfig { task: Task::Text, field: None, ..config.clone() };
    if config.kind == SourceKind::Jsonl {
        return size(&SourceConfig { kind: SourceKind::Text, ..plain }).await;
    }
    let (files, text) =
        Source::recognize_records(&plain).await?.map_or((0, 0), |found| (found.files as u64, found.bytes));
    Ok(Size { files, text, documents: text.div_ceil(RECORD) })
}

/// How much text the first records of a source have in a field, in bytes. Numbers do not count as text.
pub(super) async fn text_at(config: &SourceConfig, field: &str) -> usize {
    let config = SourceConfig { field: Some(field.to_owned()), ..config.clone() };
    let Ok(source) = Source::open(&[config]).await else { return 0 };
    let mut first = source.quiet().documents(&LaneCursor::default()).take(64);
    let mut bytes = 0;
    while let Some(Ok(document)) = first.next().await {
        let text = document.value.text();
        bytes += if text.trim().parse::<f64>().is_ok() { 0 } else { text.len() };
    }
    bytes
}
