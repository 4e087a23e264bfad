//! Estimates the size of a source, by reading a part of it as a loader would.

use std::ops::AddAssign;
use std::slice;
use std::sync::Arc;

use futures::StreamExt;

use super::Source;
use super::describe::look;
use super::formats::records::Stop;
use super::formats::{Format, Opened, Unopened, Wanted};
use super::lane::Lane;
use super::layout::Layout;
use super::listed::list;
use super::window::Window;
use crate::config::{ChatConfig, SourceConfig, SourceKind, StoreConfig, Task};
use crate::cursor::LaneCursor;
use crate::error::Result;
use crate::store::Stores;

/// About how much of a source is read, in stored bytes.
const READ: u64 = 16 << 20;

/// The most text that is read of a source with long splits, in bytes.
const MOST: u64 = 256 << 20;

/// About how many times longer the text of such a source is than its files.
const UNPACKED: f64 = 4.0;

/// How much of an array is read at a time, in bytes.
const READ_BYTES: usize = 256 << 10;

/// About how long a conversation is in a table, in stored bytes.
const RECORD: u64 = 1 << 10;

/// The estimated size of a source.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    pub files: u64,
    /// Its text, in bytes.
    pub text: u64,
    pub documents: u64,
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.text += other.text;
        self.documents += other.documents;
    }
}

impl Source {
    /// Estimates the size of a source. Records that a template renders are not rendered, since the template may be missing
    /// yet: their own bytes stand for their text.
    ///
    /// # Errors
    /// As [`open`](Source::open), and that of the first document if it cannot be read.
    #[doc(hidden)]
    pub async fn estimate(config: &SourceConfig) -> Result<Estimate> {
        if !config.task.reads_records() {
            return read(config).await;
        }
        let chat = ChatConfig::default();
        let plain = SourceConfig { task: Task::Text, field: None, chat, ..config.clone() };
        let stores = Arc::new(Stores::new(&StoreConfig::default()));
        let listed = list(0, &plain, &stores, &Arc::default()).await?;
        let stored: u64 = listed.files().iter().map(|file| file.len).sum();
        let files = listed.files().len() as u64;
        if config.kind != SourceKind::Jsonl {
            return Ok(Estimate { files, text: stored, documents: stored.div_ceil(RECORD) });
        }
        let wanted = Wanted::Text(String::new());
        let found = look(&plain, wanted, move |format, file| Ok(elements(format, file, stored)?)).await?;
        match found.first() {
            Some(elements) => Ok(Estimate { files, ..*elements }),
            None => read(&SourceConfig { kind: SourceKind::Text, ..plain }).await,
        }
    }
}

/// The size of a source of so many `stored` bytes, by one of its files, which holds a JSON array. Empty if the file holds
/// lines of JSON.
fn elements(format: &dyn Format, file: Unopened<'_>, stored: u64) -> Result<Vec<Estimate>> {
    let len = file.stored()?.len();
    let Opened::Records(mut records) = format.open(file, &Layout::Whole)? else { return Ok(Vec::new()) };
    let (mut text, mut documents, mut at) = (0_u64, 0_u64, 0);
    let read = loop {
        let mut window = Window::default();
        let stop = records.take(at, u64::MAX, READ_BYTES, &mut window)?;
        for framed in window.framed.iter().filter(|framed| framed.frame.len > 0) {
            text += framed.frame.len;
            documents += 1;
        }
        match stop {
            Stop::At(next) if next > at && text < MOST => at = next,
            Stop::At(next) => break next.min(len),
            Stop::End => break len,
        }
    };
    let more = stored as f64 / read.max(1) as f64;
    let scaled = |read: u64| (read as f64 * more) as u64;
    let size = Estimate { files: 1, text: scaled(text), documents: scaled(documents) };
    Ok(if documents > 0 { vec![size] } else { Vec::new() })
}

async fn read(config: &SourceConfig) -> Result<Estimate> {
    let source = Source::open(slice::from_ref(config)).await?.quiet();
    let (files, stored) = (source.files().len() as u64, source.bytes());
    if config.kind == SourceKind::Shards {
        return Ok(Estimate { files, text: stored, documents: source.stored_documents() });
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
    Ok(Estimate { files, text: scaled(text), documents: scaled(documents) })
}
